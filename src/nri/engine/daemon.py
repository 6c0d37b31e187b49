"""The engine with its servers, as one object to start and stop: CRI, streams of exec and attach, NRI."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nri.engine.config import EngineConfig
from nri.engine.engine import Engine
from nri.engine.process import Attachment, Execution
from nri.engine.server import cri_server
from nri.engine.streaming import Limits, StreamingServer, connect_port
from nri.engine.support.errors import EngineError
from nri.metrics import Observer

if TYPE_CHECKING:
    from nri.interfaces import Reporter

_log = logging.getLogger(__name__)


class Daemon:
    """An engine that serves the CRI at its socket. Raises EngineError or ConfigError if it cannot be created.

    Args:
        config: all settings.
        observer, reporters: metrics and recorders for `nri.adaptation.Adaptation`.
    """

    def __init__(
        self, config: EngineConfig, *, observer: Observer | None = None, reporters: Sequence[Reporter] = ()
    ) -> None:
        self.config = config
        self.engine = Engine(config, observer=observer, reporters=reporters)
        self._servers = [_DomainServers(engine) for engine in (self.engine, *self.engine.domains.values())]
        self.streaming = self._servers[0].streaming

    def start(self) -> None:
        """Restore what an earlier engine left, then listen. NriError if that fails; everything is closed then."""
        self.engine.start()
        try:
            for servers in self._servers:
                servers.open()
        except BaseException:
            self.stop()
            raise
        for complaint in self.engine.complaints:
            _log.warning("%s", complaint)

    def stop(self) -> None:
        """Stop listening, and release everything; containers continue to run."""
        for servers in self._servers:
            servers.close()
        self.engine.stop()

    def describe(self) -> str:
        """One line with all addresses: the CRI, plugins, `nri why`, exec and attach."""
        nri = self.config.nri
        if nri.disable:
            plugins = "NRI is off"
        elif nri.disable_connections:
            plugins = f"NRI for plugins in {nri.plugin_path} only"
        else:
            plugins = f"NRI at {nri.socket_path}"
        if nri.admin_socket and not nri.disable:
            plugins += f", nri why at {nri.admin_socket}"
        streams = f"exec and attach at {self.streaming.url}"
        dry = ", dry: nothing is run" if self.config.dry else ""
        domains = "".join(f", {name}'s at {engine.config.socket}" for name, engine in self.engine.domains.items())
        return f"CRI at {self.config.socket}{domains}, {plugins}, {streams}, runtime {self.config.default_runtime}{dry}"


class _DomainServers:
    """The servers of one domain."""

    def __init__(self, engine: Engine) -> None:
        self._settings = settings = engine.config.streaming
        limits = Limits(token_s=settings.token_timeout, idle_s=settings.idle_timeout)
        self.streaming = StreamingServer(settings.address, settings.port, _Streams(engine), limits)
        self._server = cri_server(engine, self.streaming)

    def open(self) -> None:
        try:
            self.streaming.start()
        except OSError as error:
            where = f"{self._settings.address}:{self._settings.port}"
            raise EngineError(f"cannot listen on {where} for exec and attach: {error}") from error
        self._server.start()

    def close(self) -> None:
        self._server.stop()
        self.streaming.stop()


class _Streams:
    """The engine's interface for the streaming server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def exec(self, container_id: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Execution:
        return self._engine.running_containers.exec(container_id, argv, tty=tty, stdin=stdin)

    def attach(self, container_id: str) -> Attachment:
        return self._engine.running_containers.attach(container_id)

    def resize(self, container_id: str, width: int, height: int) -> None:
        self._engine.running_containers.resize(container_id, width, height)

    def open_port(self, pod_id: str, port: int) -> socket.socket:
        namespace = self._engine.inventory.pod(pod_id).record.namespace_paths.get("network")
        return connect_port(Path(namespace) if namespace else None, port)
