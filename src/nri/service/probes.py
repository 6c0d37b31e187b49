"""HTTP handlers that all programs share: /healthz and /readyz for probes, /metrics for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.service.http import Answer, Handler, text_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry


def probes(state: Callable[[], tuple[bool, str]]) -> dict[str, Handler]:
    """Return the handlers of the probes. `state` returns whether the program is ready, and a description.

    /healthz is 200 while the process is running; /readyz is 200 while it is ready, else 503.
    """

    def ready(_: Mapping[str, str]) -> Answer:
        is_ready, text = state()
        return text_answer(text, 200 if is_ready else 503)

    return {"/healthz": lambda _: text_answer("ok\n"), "/readyz": ready}


def metrics(registry: CollectorRegistry, more: Callable[[], str] = str) -> dict[str, Handler]:
    """Return the handler of /metrics: the metrics of a registry of prometheus-client, then the output of `more`."""
    from prometheus_client import generate_latest  # noqa: PLC0415 - an optional dependency

    kind = "text/plain; version=0.0.4; charset=utf-8"
    return {"/metrics": lambda _: (200, kind, generate_latest(registry) + more().encode())}
