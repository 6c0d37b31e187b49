"""The engine together with its servers: the CRI, and the streams of exec and attach."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nri.engine.config import EngineConfig, StreamingConfig
from nri.engine.engine import Engine
from nri.engine.process import Attachment, Execution
from nri.engine.reload import Reloader
from nri.engine.server import cri_server
from nri.engine.streaming import Limits, StreamingServer, connect_port
from nri.engine.support.errors import EngineError
from nri.metrics import Observer
from nri.service.certificates import CertificateFiles, ServerCertificate, certificate_names

if TYPE_CHECKING:
    from nri.config.settings import LoadedSettings
    from nri.interfaces import Reporter
    from nri.trace.live_spans import SpanExporter

_log = logging.getLogger(__name__)


class Daemon:
    """An engine that serves the CRI. The constructor raises EngineError or ConfigError if a part cannot be created.

    Args:
        config: all settings.
        observer: the receiver of metrics, passed to `nri.adaptation.Adaptation`.
        reporters: the recorders of events, passed to `nri.adaptation.Adaptation`.
        load, on_change: for `nri.engine.reload.Reloader`.

    Attributes:
        reloader: reads the settings again.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        observer: Observer | None = None,
        reporters: Sequence[Reporter] = (),
        load: Callable[[], LoadedSettings[EngineConfig]] | None = None,
        on_change: Callable[[EngineConfig], object] = lambda _: None,
    ) -> None:
        self.config = config
        self._spans = _span_exporter(config)
        reporters = [*reporters, self._spans] if self._spans else reporters
        self.engine = Engine(config, observer=observer, reporters=reporters)
        self._on_change = on_change
        self.reloader = Reloader(self.engine, load, self._apply_config)
        try:
            domains = [_DomainServers(engine, None, self._spans) for engine in self.engine.domains.values()]
            self._servers = [_DomainServers(self.engine, self.reloader, self._spans), *domains]
        except BaseException:
            self.engine.stop()
            raise
        self.streaming = self._servers[0].streaming

    def start(self) -> None:
        """Restore the pods and containers of an earlier engine, then listen.

        Raises NriError if that fails; then everything is closed.
        """
        self.engine.start()
        if self._spans is not None:
            self._spans.start()
        try:
            for servers in self._servers:
                servers.open()
        except BaseException:
            self.stop()
            raise
        for complaint in self.engine.complaints:
            _log.warning("%s", complaint)

    def _apply_config(self, config: EngineConfig) -> None:
        for servers in self._servers:
            servers.streaming.configure(_limits(config.streaming))
        self._on_change(config)

    def stop(self) -> None:
        """Stop listening, and release all resources. Containers continue to run."""
        for servers in self._servers:
            servers.close()
        self.engine.stop()
        if self._spans is not None:
            self._spans.close()

    def describe(self) -> str:
        """Return one line with all addresses: the CRI, NRI, `nri why`, exec and attach."""
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
        dry = ", dry: no containers are run" if self.config.dry else ""
        domains = "".join(f", CRI of {name} at {engine.config.socket}" for name, engine in self.engine.domains.items())
        return f"CRI at {self.config.socket}{domains}, {plugins}, {streams}, runtime {self.config.default_runtime}{dry}"


class _DomainServers:
    """The servers of one domain."""

    def __init__(self, engine: Engine, reloader: Reloader | None, spans: SpanExporter | None) -> None:
        self._settings = settings = engine.config.streaming
        self.streaming = StreamingServer(
            settings.address, settings.port, _Streams(engine), _limits(settings), _tls(settings)
        )
        self._server = cri_server(engine, self.streaming, reloader, spans)

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


def _span_exporter(config: EngineConfig) -> SpanExporter | None:
    if not config.tracing.endpoint:
        return None
    from nri.trace.live_spans import SpanExporter  # noqa: PLC0415  most engines do not need it

    return SpanExporter(config.tracing.endpoint, "nri-engine")


def _limits(settings: StreamingConfig) -> Limits:
    return Limits(token_s=settings.token_timeout, idle_s=settings.idle_timeout)


def _tls(settings: StreamingConfig) -> Callable[[], ssl.SSLContext] | None:
    """Return the source of TLS contexts; None without a certificate. Raises ConfigError if a file cannot be used."""
    if not settings.tls_certificate:
        return None
    keys = ("streaming.tls_certificate", "streaming.tls_key", "streaming.tls_client_ca")
    files = CertificateFiles(settings.tls_certificate, settings.tls_key, "engine.toml", keys, settings.tls_client_ca)
    version = ssl.TLSVersion.TLSv1_3 if settings.tls_min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    return ServerCertificate(files, _log, _doubts, version).context


def _doubts(context: ssl.SSLContext, certificate: str, _: str) -> Iterator[str]:
    """Yield the reason why clients refuse a certificate, for example that it has expired."""
    try:
        certificate_names(context, certificate)
    except ssl.SSLCertVerificationError as error:
        yield f"{certificate}: clients will refuse it: {error.verify_message}; renew it"
    except ssl.SSLError:
        pass  # clients need a certificate, and this check has none


class _Streams:
    """The methods that the streaming server calls."""

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
