"""Serve health and metrics of a plugin's process over HTTP.

--health-addr ADDRESS    /healthz, /readyz
--metrics ADDRESS        /metrics, /healthz, /readyz; with the same address there is one listener
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.errors import ConfigError, NriError
from nri.service.http import Handler, Server
from nri.service.probes import metrics, probes

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from nri.interfaces import Reporter


def counted(reporter: Reporter | None) -> tuple[CollectorRegistry, Reporter]:
    """A registry, and a reporter that counts every step in it before it calls `reporter`.

    Raises:
        ConfigError: prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError:
        reason = "prometheus-client is not installed"
        hint = "install the extra: pip install '.[metrics]', in a checkout of nri"
        raise ConfigError("command line", "--metrics", reason, hint) from None
    from nri.metrics.prometheus import CountingReporter, PrometheusObserver

    registry = CollectorRegistry()
    return registry, CountingReporter(PrometheusObserver(registry), reporter)


class Endpoints:
    """The HTTP servers of a process. They listen until `close`.

    Args:
        health: returns whether the process is ready, and its state as text.
        health_addr: HOST:PORT of health; empty or None for no server.
        metrics_addr: HOST:PORT of metrics and health.
        registry: the metrics.
        more: returns further metrics as text.

    Raises:
        ConfigError: an address cannot be listened on.
    """

    def __init__(
        self,
        health: Callable[[], tuple[bool, str]],
        health_addr: str | None,
        metrics_addr: str | None = None,
        registry: CollectorRegistry | None = None,
        more: Callable[[], str] = str,
    ) -> None:
        self._servers: list[Server] = []
        handlers: dict[str, dict[str, Handler]] = {}
        flags: dict[str, str] = {}
        if metrics_addr and registry is not None:
            handlers[metrics_addr] = {**probes(health), **metrics(registry, more)}
            flags[metrics_addr] = "--metrics"
        if health_addr and health_addr not in handlers:
            handlers[health_addr] = probes(health)
            flags[health_addr] = "--health-addr"
        for address, public in handlers.items():
            try:
                self._servers.append(Server(public=public, address=address))
            except NriError as error:
                self.close()
                raise ConfigError("command line", flags[address], str(error)) from None

    def close(self) -> None:
        """Stop all servers."""
        for server in self._servers:
            server.close()
