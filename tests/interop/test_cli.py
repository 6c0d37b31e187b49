"""The commands against programs of the reference: its runtime, its ttRPC server and recorded bytes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.trace.catalog import Catalog
from nri.trace.dissection import Dissector
from tests.peers.build import peer
from tests.peers.drivers import GoPlugin, GoRuntime, LineProcess
from tests.support.needs import need_module

POD = {"id": "pod0", "name": "web", "uid": "u0", "namespace": "shop"}
CONTAINER = {"id": "ctr0123456789abcdef", "pod_sandbox_id": "pod0", "name": "nginx", "state": "CONTAINER_RUNNING"}
PROTO = Path(__file__).parents[1] / "peers/proto"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nri", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(params=["", "061"], ids=["newest", "0.6.1"])
def runtime(folder: Path, request: pytest.FixtureRequest) -> Iterator[GoRuntime]:
    with GoRuntime(request.param) as started:
        started.command("set_state", pods=[POD], containers=[CONTAINER])
        started.start(folder / "nri.sock")
        yield started


def test_events_shows_the_state_of_the_reference_runtime(runtime: GoRuntime, folder: Path) -> None:
    process = run("events", "--socket-path", str(folder / "nri.sock"))
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[1].split() == ["ctr0123456789", "shop/web", "nginx", "running", "-"]


def test_events_follows_the_reference_runtime(runtime: GoRuntime, folder: Path) -> None:
    process = subprocess.Popen(
        command("events", "-f", "-o", "json", "--socket-path", str(folder / "nri.sock")),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        runtime.wait_plugins(1)
        names = ["RunPodSandbox", "CreateContainer", "PostStartContainer", "StopContainer"]
        for name in names:
            runtime.event(name, POD, None if "Pod" in name else CONTAINER)
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["event"] for _ in names] == names
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_new_plugin_runs_under_the_reference_runtime(runtime: GoRuntime, folder: Path) -> None:
    assert run("new", "pod-name", "--folder", str(folder / "project")).returncode == 0
    words = command(
        "run", str(folder / "project/pod_name.py"), "--idx", "10", "--socket-path", str(folder / "nri.sock")
    )
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    try:
        assert runtime.wait_plugins(1) == ["10-pod-name"]
        reply = runtime.event("CreateContainer", POD, CONTAINER)
        assert reply["adjust"]["env"] == [{"key": "POD_NAME", "value": "web"}]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_an_enabled_plugin_is_launched_by_the_reference_runtime(folder: Path) -> None:
    run("new", "pod-name", "--folder", str(folder / "project"))
    config = folder / "c.yaml"
    config.write_text("variable: FROM_DROP_IN\n")
    places = ["--plugin-dir", str(folder / "plugins"), "--config-dir", str(folder / "conf.d")]
    process = run("enable", str(folder / "project/pod_name.py"), "--idx", "10", "--config", str(config), *places)
    assert process.returncode == 0, process.stderr
    with GoRuntime() as started:
        started.start(plugin_path=str(folder / "plugins"), config_path=str(folder / "conf.d"))
        reply = started.event("CreateContainer", POD, CONTAINER)
        assert reply["adjust"]["env"] == [{"key": "FROM_DROP_IN", "value": "web"}], started.tail()


@pytest.fixture
def echo(folder: Path) -> Iterator[str]:
    path = folder / "echo.sock"
    with LineProcess([peer("ttrpcpeer"), "server", "-socket", path]) as server:
        server.wait_event("listening")
        yield str(path)


@pytest.fixture
def messages(folder: Path) -> str:
    need_module("grpc_tools")
    target = str(folder / "echo.pb")
    words = [f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={target}", "echo.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *words], check=True)
    return target


def test_call_reaches_a_go_server_with_a_descriptor_set_of_protoc(echo: str, messages: str) -> None:
    data = '{"payload": "aGVsbG8=", "delay_ms": 1}'
    process = run(
        "call", echo, "nri.test.Echo/Echo", "--descriptor-set", messages, "-d", data, "-m", "k=v", "--timeout", "9s"
    )
    assert process.returncode == 0, process.stderr
    reply = json.loads(process.stdout)
    assert reply["payload"] == "aGVsbG8="
    assert reply["metadata"] == [{"key": "k", "value": "v"}]
    assert 5e9 < int(reply["timeoutNano"]) <= 9e9


def test_call_shows_a_go_servers_status(echo: str, messages: str) -> None:
    data = '{"code": 5, "message": "no such pod"}'
    process = run("call", echo, "nri.test.Echo/Echo", "--descriptor-set", messages, "-d", data)
    assert (process.returncode, process.stderr) == (1, "error: rpc error: code = NotFound desc = no such pod\n")


def test_call_takes_a_large_reply_in_hex(echo: str) -> None:
    process = run("call", echo, "nri.test.Echo/Echo", "--hex", "-d", "28c0843d")  # reply_size: 1,000,000
    assert process.returncode == 0, process.stderr
    assert len(process.stdout) > 2_000_000


class Tap:
    """A socket in front of another one that keeps what goes through in each direction."""

    def __init__(self, path: Path, target: Path) -> None:
        self.up, self.down = bytearray(), bytearray()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._target = target
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._target))
        other = threading.Thread(target=self._copy, args=(server, client, self.down), daemon=True)
        other.start()
        self._copy(client, server, self.up)
        other.join()
        client.close()
        server.close()

    def _copy(self, source: socket.socket, target: socket.socket, remaining: bytearray) -> None:
        try:
            while data := source.recv(65536):
                remaining += data
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("release", ["", "061"], ids=["newest", "0.6.1"])
def test_a_whole_conversation_of_the_reference_is_decoded(folder: Path, release: str) -> None:
    with GoRuntime(release) as started:
        started.start(folder / "nri.sock")
        tap = Tap(folder / "tap.sock", folder / "nri.sock")
        with GoPlugin(folder / "tap.sock", release=release, events=["CreateContainer", "StartContainer"]):
            started.wait_plugins(1)
            big = {**CONTAINER, "env": ["X=" + "y" * 9000]}
            started.event("CreateContainer", POD, big)
            started.event("StartContainer", POD, CONTAINER)
        tap.close()
    down = Dissector(Catalog()).run(bytes(tap.down))
    up = Dissector(Catalog()).run(bytes(tap.up))
    assert [frame for frame in down + up if "problem" in frame] == []
    methods = [frame["method"] for frame in down if frame["kind"] == "request"]
    assert methods[:3] == ["Configure", "Synchronize", "CreateContainer"]
    assert methods[3] == ("StartContainer" if not release else "StateChange")
    create = next(frame for frame in down if frame.get("method") == "CreateContainer")
    assert create["message"]["container"]["env"] == big["env"]
    assert [frame["method"] for frame in up if frame["kind"] == "request"] == ["RegisterPlugin"]
