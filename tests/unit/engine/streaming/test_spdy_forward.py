"""Port forwarding over SPDY, directly and in a WebSocket tunnel."""

from __future__ import annotations

from typing import Any

import pytest

from nri.engine.streaming import spdy_channels
from nri.engine.streaming.channels import ClientGone, PortClosed, PortData, PortHalfClosed, PortOpened
from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import control
from nri.engine.streaming.spdy_channels import CREATION_S, SpdyForward, TunnelForward
from tests.support.stream_clients import SpdyClient, WebSocketClient


class Both:
    """A server and its client."""

    def __init__(self) -> None:
        self.server, self.client = SpdyForward(), SpdyClient()

    def give(self, data: bytes = b"") -> list[object]:
        events: list[object] = [*self.server.receive(data)]
        self.client.read(self.server.take())
        return events

    def begin(self, **headers: Any) -> tuple[int, list[object]]:
        named = {name: str(value) for name, value in headers.items()}
        stream, data = self.client.open(named)
        return stream, self.give(data)

    def connect(self, key: str = "0", port: int = 80) -> tuple[int, int]:
        """Open both streams of a connection, in the order of client-go."""
        error, events = self.begin(streamtype="error", port=port, requestid=key)
        assert events == [] and self.give(self.client.send(error, b"", end=True)) == []
        data, events = self.begin(streamtype="data", port=port, requestid=key)
        assert events == [PortOpened(key, port)]
        return data, error


@pytest.fixture
def both() -> Both:
    return Both()


def test_a_connection_carries_bytes_and_ends_by_direction(both: Both) -> None:
    data, error = both.connect()
    assert both.give(both.client.send(data, b"in", end=True)) == [PortData("0", b"in"), PortHalfClosed("0")]
    assert both.server.send_window("0") > 0
    both.server.consumed("0", 2)
    both.server.send("0", b"out")
    both.server.end("0")
    both.give()
    assert both.client.data == {data: b"out"} and both.client.ended == {data}
    both.server.close("0")
    both.give()
    assert both.client.ended == {data, error} and both.client.data.get(error, b"") == b""
    assert both.server.send_window("0") == 0


def test_connections_are_distinguished_by_request_id(both: Both) -> None:
    first, _ = both.connect("0", 80)
    second, _ = both.connect("1", 81)
    assert both.give(both.client.send(second, b"b") + both.client.send(first, b"a")) == [
        PortData("1", b"b"),
        PortData("0", b"a"),
    ]


def test_without_request_ids_consecutive_streams_are_a_connection(both: Both) -> None:
    error, _ = both.begin(streamtype="error", port=80)
    data, events = both.begin(streamtype="data", port=80)
    assert data == error + 2 and events == [PortOpened(f"stream {error}", 80)]


def test_the_port_comes_from_the_data_stream(both: Both) -> None:
    both.begin(streamtype="data", port=81, requestid=5)
    assert both.begin(streamtype="error", port=80, requestid=5)[1] == [PortOpened("5", 81)]


def test_an_error_is_sent_on_the_error_stream_and_the_data_stream_is_reset(both: Both) -> None:
    data, error = both.connect()
    both.server.close("0", "connection refused")
    both.give()
    assert both.client.data == {error: b"connection refused"} and error in both.client.ended
    assert both.client.reset == {data: frames.INTERNAL_ERROR}
    both.server.close("0", "again")
    both.server.send("0", b"gone")
    both.server.end("0")
    assert both.server.take() == b""


@pytest.mark.parametrize("which", [0, 1])
def test_a_reset_of_either_stream_ends_the_connection(both: Both, which: int) -> None:
    streams = both.connect()
    assert both.give(both.client.let_go(streams[which])) == [PortClosed("0")]
    both.server.close("0")
    both.give()
    assert both.client.ended == {streams[1 - which]}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "-1"},
        {"streamtype": "data", "port": "²"},
        {"streamtype": "data", "port": "080000"},
        {"streamtype": "stdin", "port": "80"},
        {"port": "80"},
        {"streamtype": "data", "port": "80", "requestid": "x" * 200},
    ],
)
def test_streams_without_a_port_or_kind_are_reset(both: Both, headers: dict[str, str]) -> None:
    stream, events = both.begin(**headers)
    assert events == [] and both.client.reset == {stream: frames.PROTOCOL_ERROR}


def test_a_duplicate_stream_is_reset(both: Both) -> None:
    both.connect()
    stream, _ = both.begin(streamtype="data", port=80, requestid=0)
    assert both.client.reset == {stream: frames.PROTOCOL_ERROR}


def test_connections_above_the_limit_are_refused(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_channels, "MAX_PAIRS", 2)
    both.connect("0")
    both.connect("1")
    stream, _ = both.begin(streamtype="error", port=80, requestid=2)
    assert both.client.reset == {stream: frames.REFUSED_STREAM}
    both.server.close("0")
    both.connect("3")


def test_an_incomplete_connection_expires(both: Both) -> None:
    both.connect("whole")
    error, _ = both.begin(streamtype="error", port=80, requestid="half")
    both.server.expire(1000.0)
    both.server.expire(1000.0 + CREATION_S)
    assert both.server.take() == b""
    both.server.expire(1001.0 + CREATION_S)
    both.give()
    assert b"not opened in time" in both.client.data[error]
    assert both.server.send_window("whole") > 0


def test_the_session_ends_after_goaway_without_connections(both: Both) -> None:
    both.connect()
    assert not both.server.over
    both.give(control(frames.GOAWAY, 0, 0))
    assert not both.server.over
    both.server.close("0")
    assert both.server.over
    both.server.finish()
    both.give()
    assert both.client.others[-1].kind == frames.GOAWAY


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_tunnel_carries_equal_bytes_for_any_split(size: int) -> None:
    server, client, socket = TunnelForward(), SpdyClient(), WebSocketClient()
    _, error = client.open({"streamtype": "error", "port": "80", "requestid": "0"})
    stream, data = client.open({"streamtype": "data", "port": "80", "requestid": "0"})
    sent = error + data + client.send(stream, b"in")
    actual = []
    for at in range(0, len(sent), size):
        actual += [*server.receive(socket.send(sent[at : at + size]))]
    assert actual[0] == PortOpened("0", 80) and b"".join(entry.data for entry in actual[1:]) == b"in"  # type: ignore[union-attr]
    server.send("0", b"out")
    for message in socket.read(server.take()):
        client.read(message)
    assert client.data == {stream: b"out"}
    server.finish()
    for message in socket.read(server.take()):
        client.read(message)
    assert client.others[-1].kind == frames.GOAWAY and socket.closed == 1000
    assert [*server.receive(b"")] == [ClientGone()]
