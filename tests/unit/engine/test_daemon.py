"""The engine with its servers: start, failed starts and stop."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.config.settings import LoadedSettings
from nri.cri.client import RELOAD_KEY, CriClient
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import DomainConfig, EngineConfig, NriConfig, OciRuntime, StreamingConfig, TracingConfig
from nri.engine.daemon import Daemon
from nri.engine.spec import Machine
from nri.engine.support.errors import EngineError
from nri.errors import ConfigError, NriError, RpcError
from nri.service.settings import HttpSettings
from tests.support.collector import Collector
from tests.support.http_server import make_certificate
from tests.support.needs import need_tool


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    nri = NriConfig(disable_connections=True, plugin_path=str(tmp_path / "none"), policy_path="", admin_socket="")
    return EngineConfig(dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri)


def test_the_daemon_answers_at_its_socket_until_it_is_stopped(config: EngineConfig) -> None:
    daemon = Daemon(config)
    daemon.start()
    try:
        with CriClient(str(config.socket)) as client:
            assert client.call("Version", pb.VersionRequest()).runtime_name
        assert daemon.streaming.url in daemon.describe()
    finally:
        daemon.stop()
    assert not config.socket.exists()


def test_calls_and_events_are_sent_to_a_collector(config: EngineConfig) -> None:
    """A failed call has its status. The spans of a pod's events are below the span of their call."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Collector() as collector:
        daemon = Daemon(replace(config, tracing=TracingConfig(collector.endpoint)))
        daemon.start()
        with CriClient(str(config.socket)) as client:
            pod = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="web", uid="u", namespace="shop"))
            client.call(
                "RunPodSandbox", pb.RunPodSandboxRequest(config=pod), metadata=[("traceparent", parent.encode())]
            )
            with pytest.raises(RpcError):
                client.call("StartContainer", pb.StartContainerRequest(container_id="none"))
        daemon.stop()
        spans = {span["name"]: span for span in collector.spans}
    run = spans["runtime.v1.RuntimeService/RunPodSandbox"]
    assert (run["traceId"], run["parentSpanId"], run["status"]) == (parent[3:35], parent[36:52], {})
    assert (spans["RunPodSandbox"]["traceId"], spans["RunPodSandbox"]["parentSpanId"]) == (
        run["traceId"],
        run["spanId"],
    )
    assert spans["runtime.v1.RuntimeService/StartContainer"]["status"]["message"] == "NOT_FOUND: no container 'none'"


@pytest.mark.parametrize("client_ca", [False, True])
@pytest.mark.parametrize(("days", "warning"), [("2", ""), ("-1", "clients will refuse it: certificate has expired")])
def test_an_expired_certificate_for_streams_is_a_warning(
    config: EngineConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, days: str, warning: str, client_ca: bool
) -> None:
    certificate = make_certificate(tmp_path)
    argv = [need_tool("openssl"), "x509", "-in", certificate, "-signkey", certificate, "-days", days]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    (tmp_path / "other.pem").write_text(text)
    files = {"tls_certificate": str(tmp_path / "other.pem"), "tls_key": str(certificate)}
    files |= {"tls_client_ca": str(certificate)} if client_ca else {}
    Daemon(replace(config, streaming=StreamingConfig(**files))).stop()
    lines = [record.getMessage() for record in caplog.records if "other.pem" in record.getMessage()]
    assert [warning in line for line in lines] == [True] * bool(warning)


def test_a_server_that_cannot_listen_is_an_error_and_leaves_no_socket(config: EngineConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        daemon = Daemon(replace(config, streaming=StreamingConfig(port=port)))
        with pytest.raises(EngineError, match=f"cannot listen on 127.0.0.1:{port} for exec and attach"):
            daemon.start()
    assert not config.socket.exists()
    second_daemon = Daemon(config)
    second_daemon.start()
    second_daemon.stop()


def test_an_occupied_socket_is_an_error_and_kept(config: EngineConfig) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(config.socket))
        listener.listen()
        daemon = Daemon(config)
        with pytest.raises(EngineError, match=f"cannot listen at {config.socket}"):
            daemon.start()
        assert config.socket.exists()


def test_problems_of_an_earlier_run_are_logged(config: EngineConfig, caplog: pytest.LogCaptureFixture) -> None:
    (config.root / "records/pods").mkdir(parents=True, mode=0o700)
    (config.root / "records/pods" / f"{'a' * 64}.json").write_text("{")
    daemon = Daemon(config)
    with caplog.at_level(logging.WARNING):
        daemon.start()
        daemon.stop()
    assert "a" * 64 in caplog.text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda nri: replace(nri, disable=True), "NRI is off"),
        (lambda nri: nri, "NRI for plugins in"),
        (lambda nri: replace(nri, disable_connections=False, socket_path="/s"), "NRI at /s"),
        (lambda nri: replace(nri, admin_socket="/a"), "nri why at /a"),
        (lambda nri: nri, "CRI of moby at"),
    ],
)
def test_the_start_logs_the_sockets_in_one_line(
    config: EngineConfig, change: Callable[[NriConfig], NriConfig], expected: str
) -> None:
    daemon = Daemon(replace(config, nri=change(config.nri), domains={"moby": DomainConfig()}))
    try:
        line = daemon.describe()
    finally:
        daemon.engine.stop()
    assert expected in line
    assert "dry: no containers are run" in line
    assert "\n" not in line


#: An engine, and the settings or the error that its sources have at the next reload.
Reloads = tuple[Daemon, list[EngineConfig | NriError]]


@pytest.fixture
def reloads(config: EngineConfig) -> Iterator[Reloads]:
    """A dry engine, and the settings or the error that its sources have at the next reload."""
    sources: list[EngineConfig | NriError] = []

    def load() -> LoadedSettings[EngineConfig]:
        if isinstance(sources[-1], NriError):
            raise sources[-1]
        return LoadedSettings(sources[-1], {}, (), ("a note",))

    daemon = Daemon(config, load=load)
    daemon.start()
    try:
        yield daemon, sources
    finally:
        daemon.stop()


def reload(daemon: Daemon) -> dict[str, Any]:
    """Reload over the CRI, and return the outcome that Status reports."""
    with CriClient(str(daemon.config.socket)) as client:
        with suppress(RpcError):
            client.call("UpdateRuntimeConfig", pb.UpdateRuntimeConfigRequest(), metadata=[(RELOAD_KEY, b"1")])
        outcome: dict[str, Any] = json.loads(client.call("Status", pb.StatusRequest(verbose=True)).info["reload"])
    return outcome


def test_a_reload_counts_for_the_next_calls(config: EngineConfig, reloads: Reloads) -> None:
    daemon, sources = reloads
    runtimes = {**config.runtimes, "new": OciRuntime("new-runc", timeout=7.0)}
    sources.append(replace(config, default_runtime="new", runtimes=runtimes, http=HttpSettings("127.0.0.1:1")))
    outcome = reload(daemon)
    assert {"default_runtime", "runtimes.new.path"} <= set(outcome["adopted"])
    assert outcome["deferred"] == ["http.address"]
    with CriClient(str(config.socket)) as client:
        handlers = client.call("Status", pb.StatusRequest()).runtime_handlers
    assert [handler.name for handler in handlers] == ["", "runc", "crun", "new"]
    assert daemon.engine.machinery.runtime("new").name == "new-runc"


def test_a_status_during_a_reload_has_handlers_of_one_version_of_the_settings(
    config: EngineConfig, reloads: Reloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, _ = reloads
    machinery = daemon.engine.machinery
    real, new = machinery.machine_of, replace(config, default_runtime="new", runtimes={"new": OciRuntime("new-runc")})

    def machine_of(handler: str) -> Machine:
        if daemon.engine.config.default_runtime != "new":
            daemon.engine.configure(replace(new, runtimes={**config.runtimes, **new.runtimes}))
        return real(handler)

    monkeypatch.setattr(machinery, "machine_of", machine_of)
    with CriClient(str(config.socket)) as client:
        for names in (["", "runc", "crun"], ["", "runc", "crun", "new"]):
            handlers = client.call("Status", pb.StatusRequest()).runtime_handlers
            assert [handler.name for handler in handlers] == names


def test_an_invalid_file_changes_nothing_and_is_logged(
    config: EngineConfig, reloads: Reloads, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon, sources = reloads
    before = daemon.engine.config
    (tmp_path / "profile").write_text("[]")
    runtimes = {**config.runtimes, "runc": OciRuntime("runc", seccomp_profile=str(tmp_path / "profile"))}
    for source, problem in (
        (ConfigError("engine.toml:3", "sockt", "unknown key"), "engine.toml:3: sockt: unknown key"),
        (replace(config, log_level="debug", runtimes=runtimes), f"{tmp_path}/profile: not a seccomp profile"),
    ):
        sources.append(source)
        assert problem in reload(daemon)["error"]
        assert problem in caplog.text and "the previous settings stay in force" in caplog.text
    assert daemon.engine.config is before


def test_an_engine_without_sources_cannot_reload(config: EngineConfig) -> None:
    daemon = Daemon(config)
    try:
        with pytest.raises(EngineError, match="without sources of settings"):
            daemon.reloader.reload()
    finally:
        daemon.engine.stop()
