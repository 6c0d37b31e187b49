"""Misbehaving plugins, one at a time: the request continues, healthy plugins lose nothing, nothing leaks."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.api import naming
from nri.errors import PluginError
from nri.mux import frames as mux
from nri.testing import FakeRuntime, Link
from nri.ttrpc import Code, frames
from nri.ttrpc.envelope import encode_request, encode_response, request_prefix
from tests.support.adapting import Leaks, RawPlugin, garbage_frame, register, request, response
from tests.support.waiting import wait_for


class Healthy(nri.Plugin):
    """Counts what it gets."""

    def __init__(self) -> None:
        self.seen = 0

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.seen += 1


@pytest.fixture
def runtime() -> Iterator[FakeRuntime]:
    leaks = Leaks()
    with FakeRuntime(request_timeout_s=20.0) as runtime:
        yield runtime
    leaks.check()


@pytest.fixture
def healthy(runtime: FakeRuntime) -> Healthy:
    """A plugin behind the one that misbehaves."""
    plugin = Healthy()
    runtime.add(plugin, idx="50")
    return plugin


def test_a_silent_plugin_costs_the_request_only_its_timeout(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    runtime.timeout(0.1)
    runtime.start_container()
    assert runtime.health("10-raw").state == "late"
    wait_for(lambda: healthy.seen == 1, "the plugin behind it got the event")
    raw.close()


def test_a_plugin_that_stays_silent_is_skipped(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    runtime.timeout(0.01)
    for _ in range(5):
        runtime.start_container()
    assert runtime.health("10-raw").state == "open"
    began = time.monotonic()
    runtime.timeout(5.0)
    for _ in range(20):
        runtime.start_container()
    assert time.monotonic() - began < 5.0, "a plugin that is left out must not be waited for"
    raw.close()


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 64, garbage_frame(1, 5 << 20), b"GET / HTTP/1.1\r\n\r\n"],
    ids=["random", "oversized mux frame", "another protocol"],
)
def test_garbage_ends_the_connection_and_the_request_continues(
    runtime: FakeRuntime, healthy: Healthy, garbage: bytes
) -> None:
    raw = RawPlugin(runtime).join()
    raw.sock.sendall(garbage)
    wait_for(lambda: runtime.health("10-raw").state == "gone", "the garbage was noticed")
    runtime.start_container()
    assert healthy.seen == 1
    assert raw.ended()
    raw.close()


def test_an_oversized_reply_fails_only_its_request(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    runtime.timeout(20)
    big = 5 << 20

    def answer() -> None:
        raw.wait_for(b"StartContainer")
        # A ttRPC response that announces too much, cut into legal frames of the trunk.
        head = big.to_bytes(4, "big") + (5).to_bytes(4, "big") + b"\x02\x00"
        data = head + bytes(big)
        for start in range(0, len(data), 1 << 20):
            piece = data[start : start + (1 << 20)]
            raw.sock.sendall((1).to_bytes(4, "big") + len(piece).to_bytes(4, "big") + piece)

    with pytest.raises(PluginError, match="exceed maximum message size"):
        _meanwhile(answer, runtime.start_container)
    raw.close()


def test_a_truncated_reply_disconnects_only_its_plugin(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    runtime.timeout(20)

    def answer() -> None:
        raw.wait_for(b"StartContainer")
        raw.sock.sendall(response(5, m.SynchronizeResponse(more=True))[:-1])
        raw.close()

    _meanwhile(answer, runtime.start_container)
    assert healthy.seen == 1
    assert runtime.health("10-raw").state == "gone"


def test_a_half_closed_connection_counts_as_closed(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    raw.sock.shutdown(socket.SHUT_WR)
    wait_for(lambda: runtime.health("10-raw").state == "gone", "the end was noticed")
    runtime.start_container()
    assert healthy.seen == 1
    raw.close()


def test_an_unreadable_reply_fails_the_request_with_the_plugins_name(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime).join()
    runtime.timeout(20)

    def answer() -> None:
        raw.wait_for(b"CreateContainer")
        frame = response(5, m.RegisterPluginRequest(plugin_name="\x00" * 3))
        raw.sock.sendall(frame.replace(b"\x0a\x03\x00\x00\x00", b"\x0a\x7f\x00\x00\x00"))

    with pytest.raises(PluginError, match="plugin 10-raw: its reply is invalid"):
        _meanwhile(answer, runtime.create_container)
    raw.close()


def test_a_late_reply_is_dropped_and_the_next_reply_is_used(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime, events=8).join()
    runtime.timeout(0.05)
    runtime.create_container()
    raw.wait_for(b"CreateContainer")
    late, right = (m.CreateContainerResponse(adjust={"annotations": {"k": text}}) for text in ("late", "right"))
    runtime.timeout(20)

    def answer() -> None:
        raw.wait_for(b"CreateContainer")
        raw.sock.sendall(response(5, late) + response(7, right))

    assert _meanwhile(answer, runtime.create_container).annotations == {"k": "right"}
    raw.close()


@pytest.mark.parametrize("after", [0, 1, 7, 8, 9, 17, 18, 19, 60])
def test_a_connection_cut_at_any_byte_of_the_reply_disconnects_only_the_plugin(
    runtime: FakeRuntime, healthy: Healthy, after: int
) -> None:
    class Adjusting(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("A", "b" * 100)

    with Link() as link:
        runtime.add(Adjusting(), link=link)
        link.to_runtime.cut_after(after)
        reply = runtime.create_container()
        assert reply.env == {}
        assert runtime.health("10-adjusting").state == "gone"


def test_a_message_in_small_pieces_is_reassembled(runtime: FakeRuntime) -> None:
    class Adjusting(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().add_env("A", "b" * 5000)

    with Link() as link:
        link.to_runtime.split(7)
        link.to_plugin.split(5)
        runtime.timeout(20)
        runtime.add(Adjusting(), link=link)
        assert runtime.create_container().env == {"A": "b" * 5000}


def test_a_plugin_that_stops_reading_does_not_block_the_runtime(runtime: FakeRuntime, healthy: Healthy) -> None:
    raw = RawPlugin(runtime).join()
    container = nri.Container(id="big", annotations={"padding": "x" * 300_000})
    runtime.timeout(0.15)
    for _ in range(6):
        runtime.start_container(None, container)
    wait_for(lambda: healthy.seen == 6, "the plugin behind it got every event")
    raw.close()


def test_a_plugin_that_floods_requests_costs_the_request_only_its_timeout(
    runtime: FakeRuntime, healthy: Healthy
) -> None:
    """Its full queue leads to refusals, which fill the socket's buffer; no thread may wait until they are read."""
    raw = RawPlugin(runtime).join()
    runtime.timeout(0.2)
    (peer,) = (peer for peer in parts_of(runtime.adaptation).chain.peers if peer.label == "10-raw")
    assert peer.endpoint.link.reply_timeout_s == 30.0
    peer.endpoint.link.reply_timeout_s = 1.0

    def ask() -> None:
        try:
            for stream_id in itertools.count(3, 2):
                raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(), stream_id))
        except OSError:
            pass  # closed, as it deserves

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    for _ in range(5):
        runtime.start_container()
    wait_for(lambda: healthy.seen == 5, "the plugin behind it got every event")
    wait_for(lambda: runtime.health("10-raw").state == "gone", "it is sent away")
    asking.join(10)
    assert not asking.is_alive()
    raw.close()


def test_a_repeated_registration_is_refused(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime).join()
    raw.sock.sendall(register("other", "77", stream_id=3))
    assert b"registered on this connection already" in raw.wait_for(b"already")
    assert [row.plugin for row in runtime.plugins] == ["10-raw"]
    raw.close()


def test_updates_before_registration_are_refused(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime)
    raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[{"container_id": "x"}])))
    raw.wait_for(b"only accepted from plugins that are registered")
    assert runtime.updates == []
    raw.close()


@pytest.mark.parametrize(
    ("name", "idx", "text"),
    [
        ("", "10", b"invalid plugin name: invalid plugin name: name is empty"),
        ("a b", "10", b"contains invalid character ' '"),
        ("ok", "1", b'invalid plugin index "1", must be 2 digits'),
        ("ok", "x1", b"(not [0-9][0-9])"),
    ],
)
def test_a_wrong_name_or_index_is_refused_with_the_references_message(
    runtime: FakeRuntime, name: str, idx: str, text: bytes
) -> None:
    raw = RawPlugin(runtime)
    raw.sock.sendall(register(name, idx))
    raw.wait_for(text)
    raw.close()


@pytest.mark.parametrize("mode", ["default", "reference"])
def test_unknown_events_masked(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    with FakeRuntime(compat=mode) as runtime:  # type: ignore[arg-type]
        raw = RawPlugin(runtime, events=0x4001)
        if mode == "reference":
            raw.sock.sendall(register())
            raw.wait_for(b"Configure")
            raw.sock.sendall(response(1, m.ConfigureResponse(events=0x4001)))
            assert raw.ended()
            assert "invalid plugin events: 0x4000" in runtime.health("10-raw").last_error
        else:
            raw.join()
            assert runtime.health("10-raw").events == "RunPodSandbox"
            assert "subscribes to unknown events (0x4000), which are ignored" in caplog.text
        raw.close()


def test_an_empty_event_mask_means_all_events(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime, events=0).join()
    assert len(runtime.health("10-raw").events.split(",")) == 14
    raw.close()


def test_unknown_methods_and_services_are_unimplemented(runtime: FakeRuntime) -> None:
    raw = RawPlugin(runtime)
    raw.sock.sendall(request("Nothing", m.Empty()))
    raw.wait_for(encode_response(code=Code.UNIMPLEMENTED, message="method Nothing"))
    data = encode_request(request_prefix("no.Service", "RegisterPlugin"), b"")
    raw.sock.sendall(mux.cut(naming.RUNTIME_SERVICE_CONN, frames.pack(3, frames.REQUEST, data)))
    raw.wait_for(encode_response(code=Code.UNIMPLEMENTED, message="service no.Service"))
    raw.close()


def test_a_connection_lost_between_register_and_configure_leaves_nothing(
    runtime: FakeRuntime, healthy: Healthy
) -> None:
    raw = RawPlugin(runtime)
    raw.sock.sendall(register())
    raw.wait_for(b"Configure")
    raw.close()
    wait_for(lambda: runtime.health("10-raw").state == "gone", "the loss was noticed")
    runtime.start_container()
    assert healthy.seen == 1


def test_a_plugin_that_is_silent_at_synchronize_delays_events_only_for_its_timeout(
    runtime: FakeRuntime, healthy: Healthy
) -> None:
    raw = RawPlugin(runtime)
    raw.sock.sendall(register())
    raw.wait_for(b"Configure")
    runtime.timeout(0.3)
    raw.sock.sendall(response(1, m.ConfigureResponse(events=0x3FFF)))
    raw.wait_for(b"Synchronize")
    runtime.start_container()
    wait_for(lambda: healthy.seen == 1, "the plugin behind it got the event")
    assert runtime.health("10-raw").state == "gone"
    raw.close()


def _meanwhile(answer, event):  # type: ignore[no-untyped-def]
    """Run `answer` in a thread while `event` runs here."""
    import threading

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        return event()
    finally:
        thread.join()
