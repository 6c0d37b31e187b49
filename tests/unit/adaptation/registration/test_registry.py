"""Registration: limits for names and versions, duplicates, and plugins without a thread."""

from __future__ import annotations

import socket
import subprocess
import threading
from typing import Any

import pytest

from nri.adaptation import BuiltinPlugin
from nri.adaptation.adaptation import parts_of
from nri.adaptation.peers.peer import EXTERNAL, LAUNCHED, Peer
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Action, Signal, State
from nri.adaptation.peers.wasm import WasmPeer
from nri.adaptation.registration import registry as registry_module
from nri.adaptation.registration.registry import check_identity, is_alive
from nri.api import messages as m
from nri.api import naming
from nri.errors import RegistrationError, RpcError
from nri.mux import frames as mux
from nri.testing import FakeRuntime
from nri.ttrpc import Code, frames
from nri.ttrpc.envelope import encode_response
from tests.support.adapting import RawPlugin, register, request
from tests.support.made_plugins import Mode, Quiet, both
from tests.support.waiting import wait_for


def test_a_name_longer_than_a_file_name_is_refused(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime)
    raw.sock.sendall(register("x" * 253))
    raw.wait_for(b"invalid plugin name: 253 characters, at most 252")
    raw.close()


def test_a_long_version_is_shortened(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime)
    requests = m.RegisterPluginRequest(plugin_name="raw", plugin_idx="10", NRI_version="v" * (1 << 20))
    raw.sock.sendall(request("RegisterPlugin", requests))
    raw.wait_for(b"Configure")
    assert len(nri_runtime.health("10-raw").nri_version) <= 64
    raw.close()


def test_a_long_error_is_shortened_in_health(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime)
    raw.sock.sendall(register())
    raw.wait_for(b"Configure")
    refusal = frames.pack(1, frames.RESPONSE, encode_response(b"", 2, "no " * (1 << 18)))
    raw.sock.sendall(mux.cut(naming.PLUGIN_SERVICE_CONN, refusal))
    assert raw.ended()
    error = nri_runtime.health("10-raw").last_error
    assert error.startswith("failed to configure: ")
    assert len(error) <= 4096
    raw.close()


def test_without_a_free_thread_a_plugin_is_disconnected(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def no_more(thread: threading.Thread) -> None:
        if thread.name.startswith("nri-join"):
            raise RuntimeError("can't start new thread")
        start(thread)

    raw = RawPlugin(nri_runtime)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        raw.sock.sendall(register())
        assert raw.ended()
    assert nri_runtime.health("10-raw").last_error == "the runtime cannot start a thread to configure it"
    raw.close()
    RawPlugin(nri_runtime).join().close()


@both
def test_duplicates_refused(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(Quiet())
        if mode == "default":
            with pytest.raises(RegistrationError, match="plugin 10-quiet is connected already"):
                runtime.add(Quiet())
            assert [row.state for row in runtime.plugins if row.plugin == "10-quiet"] == ["active"]
        else:
            runtime.add(Quiet())
            wait_for(lambda: len(parts_of(runtime.adaptation).chain.peers) == 2, "both take part")


class Functions:
    """A loaded file that does nothing."""

    names = ()
    ended = ""

    def call(self, function: str, payload: bytes, deadline: float) -> bytes:
        raise AssertionError("it is called, and may not take part")

    def end(self, reason: str) -> None:
        self.ended = reason


def test_a_wasm_plugin_with_a_used_name_is_refused_and_ended(nri_runtime: FakeRuntime) -> None:
    registry, functions = parts_of(nri_runtime.adaptation).registry, Functions()
    holder = RawPlugin(nri_runtime).join()
    peer = WasmPeer(registry, "10", "raw", functions, "", 0)
    registry.admit(peer)
    assert peer.state is State.GONE
    assert "plugin 10-raw is connected already" in peer.last_error
    assert "plugin 10-raw is connected already" in functions.ended
    assert registry.find("10-raw") is not peer
    holder.close()


def test_of_two_concurrent_successors_of_a_plugin_one_is_accepted(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = parts_of(nri_runtime.adaptation).registry
    removed, first, second = (WasmPeer(registry, "10", "same", Functions(), "", 0) for _ in range(3))
    registry.adopt(removed)
    removed.signal(Signal.STOP, "it has ended")

    def meanwhile(holder: Peer) -> bool:
        monkeypatch.undo()
        registry.adopt(second)
        return is_alive(holder)

    monkeypatch.setattr(registry_module, "is_alive", meanwhile)
    with pytest.raises(RpcError, match="plugin 10-same is connected already"):
        registry.adopt(first)
    assert registry.find("10-same") is second


@both
def test_registers_once(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        raw = RawPlugin(runtime).join()
        raw.sock.sendall(register("other", "20", stream_id=3))
        if mode == "default":
            raw.wait_for(b"registered on this connection already")
            assert [row.plugin for row in runtime.plugins] == ["10-raw"]
        else:
            wait_for(lambda: any(row.plugin == "20-other" for row in runtime.plugins), "it took the new name")
        raw.close()


def test_a_launched_plugin_is_named_by_its_file(nri_runtime: FakeRuntime) -> None:
    registry = parts_of(nri_runtime.adaptation).registry
    local, remote = socket.socketpair()
    with remote:
        peer = RemotePeer(registry, local, LAUNCHED, index="10", name="file")
        registry.connect(peer)
        remote.sendall(register("/", "x"))
        wait_for(lambda: registry.find("10-file") is peer, "it is registered")
        assert [row.plugin for row in nri_runtime.plugins] == ["10-file"]


def test_the_plugin_disconnected_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.registration.registry.MAX_REMEMBERED", 2)
    with FakeRuntime() as runtime:
        for name in ("a", "b", "a", "c"):
            runtime.add(Quiet(), name=name).disconnect(f"10-{name}")
        assert [row.plugin for row in runtime.plugins] == ["10-a", "10-c"]


def test_every_action_of_a_plugin_has_its_own_log_message(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nri.adaptation")
    registry = parts_of(nri_runtime.adaptation).registry
    local, remote = socket.socketpair()
    peer = RemotePeer(registry, local, EXTERNAL, index="10", name="p")
    peer.last_error = "why"
    output = {
        Action.REPORT_LATE: "plugin external:10-p is late: why",
        Action.REPORT_OPEN: "plugin external:10-p is skipped for 30 s: why",
        Action.REPORT_BACK: "plugin external:10-p answers again",
        Action.REPORT_READY: "plugin external:10-p is active",
        Action.REPORT_GONE: "plugin external:10-p is gone: why",
        Action.LEAVE: "",
    }
    for action, text in output.items():
        caplog.clear()
        registry.act(peer, action)
        assert [record.getMessage() for record in caplog.records] == [text] * bool(text)
    peer.close("done")
    peer.release(0.0)
    remote.close()


def test_the_number_of_remembered_plugins_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.registration.registry.MAX_REMEMBERED", 3)
    with FakeRuntime() as runtime:
        for number in range(6):
            runtime.add(Quiet(), name=f"q{number}").disconnect(f"10-q{number}")
        assert [row.plugin for row in runtime.plugins][-1] == "10-q5"
        assert len(runtime.plugins) <= 4


def test_a_plugin_replaces_its_disconnected_predecessor(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime, "quiet").join()
    raw.close()
    nri_runtime.add(Quiet())
    nri_runtime.start_container()
    assert [(row.plugin, row.state) for row in nri_runtime.plugins] == [("10-quiet", "active")]


@pytest.mark.parametrize(
    ("name", "index", "text"),
    [
        ("", "10", "invalid plugin name: "),
        ("a/b", "10", "invalid plugin name: "),
        ("x" * 253, "10", "invalid plugin name: 253 characters, at most 252"),
        ("a", "1", "invalid plugin index: "),
        ("a", "x1", "invalid plugin index: "),
    ],
)
def test_an_invalid_name_or_index_is_refused(name: str, index: str, text: str) -> None:
    with pytest.raises(RpcError) as caught:
        check_identity(m.RegisterPluginRequest(plugin_name=name, plugin_idx=index))
    assert caught.value.code == Code.UNKNOWN
    assert caught.value.message.startswith(text)


def test_the_longest_name_is_allowed() -> None:
    check_identity(m.RegisterPluginRequest(plugin_name="x" * 252, plugin_idx="10"))
    with pytest.raises(RpcError, match="at most 252"):
        check_identity(m.RegisterPluginRequest(plugin_name="x" * 253, plugin_idx="10"))


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait(10)
    return process.pid


def test_a_plugin_with_an_ended_process_is_not_alive_despite_an_open_socket(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime).join()
    peer: Any = parts_of(nri_runtime.adaptation).registry.find(raw.label)
    assert is_alive(peer)
    peer.pid = ended_process()
    assert not is_alive(peer)
    raw.close()


def test_a_plugin_of_another_user_is_alive_while_its_process_runs(
    nri_runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = RawPlugin(nri_runtime).join()

    def not_ours(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", not_ours)
    assert is_alive(parts_of(nri_runtime.adaptation).registry.find(raw.label))  # type: ignore[arg-type]
    raw.close()


def test_a_plugin_that_has_hung_up_is_not_alive(nri_runtime: FakeRuntime) -> None:
    raw = RawPlugin(nri_runtime).join()
    peer: Any = parts_of(nri_runtime.adaptation).registry.find(raw.label)
    raw.close()
    assert not is_alive(peer)


def test_a_builtin_plugin_is_alive() -> None:
    class Handles:
        def start_container(self, *_: Any) -> None: ...

    with FakeRuntime(builtin=[BuiltinPlugin("10", "in", Handles())]) as runtime:
        assert is_alive(parts_of(runtime.adaptation).registry.find("10-in"))  # type: ignore[arg-type]


def test_a_plugin_with_an_ended_process_is_replaced_and_its_connection_closed(nri_runtime: FakeRuntime) -> None:
    first = RawPlugin(nri_runtime).join()
    holder: Any = parts_of(nri_runtime.adaptation).registry.find(first.label)
    holder.pid = ended_process()
    second = RawPlugin(nri_runtime).join()
    assert first.ended(), "two connections go by one name"
    assert parts_of(nri_runtime.adaptation).registry.find(first.label) is not holder
    for raw in (first, second):
        raw.close()
