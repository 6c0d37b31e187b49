"""The server side of SPDY: streams, half closes, resets, windows and limits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nri.engine.streaming.spdy import connection, frames
from nri.engine.streaming.spdy.connection import Connection, Data, Event, Reset, StreamEnded, StreamOpened
from nri.engine.streaming.spdy.frames import control, data_frame
from nri.errors import RemoteProtocolError
from tests.support.stream_clients import SpdyClient

GO_OPENS = (
    "800300010000003d0000000100000000000078f9e3c6a7c202253a48f95b044aab4c16060c0c0c9c4590d8ca04a5624603703a2c294a4dcc"
    "851635aca9a08800000000ffff"
)


class Both:
    """A server and its client."""

    def __init__(self) -> None:
        self.server, self.client = Connection(), SpdyClient()

    def give(self, data: bytes) -> list[Event]:
        events = [*self.server.receive(data)]
        self.client.read(self.server.take())
        return events

    def open(self, headers: Mapping[str, str] | None = None, **options: int) -> int:
        stream, data = self.client.open(headers or {}, **options)
        assert self.give(data)[0] == StreamOpened(stream, headers or {})
        self.server.reply(stream)
        self.pump()
        return stream

    def pump(self) -> None:
        self.client.read(self.server.take())


@pytest.fixture
def both() -> Both:
    return Both()


def test_a_stream_of_the_go_client_is_opened() -> None:
    server = Connection()
    (events,) = server.receive(bytes.fromhex(GO_OPENS))
    assert events == StreamOpened(1, {"streamtype": "error", "port": "80", "requestid": "0"})
    assert server.take() == b""
    server.reply(1)
    assert server.take()[:12] == bytes.fromhex("80030002") + server_length() + bytes.fromhex("00000001")


def server_length() -> bytes:
    server = Connection()
    [*server.receive(bytes.fromhex(GO_OPENS))]
    server.reply(1)
    return (len(server.take()) - 8).to_bytes(4, "big")


def test_bytes_pass_in_both_directions_and_each_direction_ends_separately(both: Both) -> None:
    stream = both.open({"a": "b"})
    assert both.give(data_frame(stream, b"in", fin=True)) == [Data(stream, b"in"), StreamEnded(stream)]
    both.server.send(stream, b"out")
    both.server.send(stream, b"", end=True)
    both.server.send(stream, b"too late")
    both.pump()
    assert (both.client.data, both.client.ended) == ({stream: b"out"}, {stream})
    assert not both.server.is_open(stream) and both.server.send_window(stream) == 0
    with pytest.raises(RemoteProtocolError, match="not opened"):
        both.give(data_frame(stream + 2, b"x"))


def test_a_stream_opened_with_the_end_flag_has_one_direction(both: Both) -> None:
    stream, data = both.client.open({}, flags=frames.FIN)
    assert both.give(data) == [StreamOpened(stream, {}), StreamEnded(stream)]
    assert both.server.is_open(stream)
    one_way, data = both.client.open({}, flags=frames.UNIDIRECTIONAL)
    assert both.give(data) == [StreamOpened(one_way, {})]
    assert not both.server.is_open(one_way)


def test_a_reset_ends_both_directions(both: Both) -> None:
    first, second = both.open(), both.open()
    assert both.give(both.client.let_go(first)) == [Reset(first)]
    both.server.send(first, b"nobody listens")
    both.server.reset(second, frames.INTERNAL_ERROR)
    both.pump()
    assert both.client.data == {} and both.client.reset == {second: frames.INTERNAL_ERROR}
    assert both.give(data_frame(second, b"was on its way")) == []
    assert both.give(both.client.let_go(second)) == []


def test_pings_of_the_peer_are_answered(both: Both) -> None:
    both.give(control(frames.PING, 5) + control(frames.PING, 6))
    assert [frame.number(0) for frame in both.client.others] == [5]


def test_after_goaway_streams_are_refused(both: Both) -> None:
    stream = both.open()
    both.give(control(frames.GOAWAY, 0, 0))
    assert both.server.gone_away
    late, data = both.client.open({})
    assert both.give(data) == [] and both.client.reset == {late: frames.REFUSED_STREAM}
    assert both.give(data_frame(stream, b"x")) == [Data(stream, b"x")]


def test_streams_above_the_limit_are_refused(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_STREAMS", 3)
    streams = [both.open() for _ in range(3)]
    more, data = both.client.open({})
    assert both.give(data) == [] and both.client.reset == {more: frames.REFUSED_STREAM}
    both.server.reset(streams[0])
    assert both.open() == more + 2


@pytest.mark.parametrize("stream", [2, 1, 3])
def test_ids_of_streams_are_odd_and_increase(both: Both, stream: int) -> None:
    both.open()
    both.open()
    with pytest.raises(RemoteProtocolError, match="is opened after 3"):
        both.give(both.client.open({}, stream=stream)[1])


def test_unknown_frames_are_ignored(both: Both) -> None:
    stream = both.open()
    assert both.give(control(99, tail=b"x") + both.client.more(stream, {"more": "headers"})) == []
    assert both.give(both.client.more(stream, {}, flags=frames.FIN)) == [StreamEnded(stream)]


# --- windows -------------------------------------------------------------------------------------------------------


def test_a_peer_without_windows_gets_any_amount(both: Both) -> None:
    stream = both.open()
    for _ in range(10):
        assert both.server.send_window(stream) > 1 << 20
        both.server.send(stream, bytes(65536))
    both.pump()
    assert len(both.client.data[stream]) == 655360


def test_a_peer_with_windows_gets_what_fits(both: Both) -> None:
    stream = both.open()
    both.server.send(stream, bytes(40000))
    both.give(control(frames.WINDOW_UPDATE, stream, 1000) + control(frames.WINDOW_UPDATE, 0, 5000))
    assert both.server.send_window(stream) == 65536 - 40000 + 1000
    both.server.send(stream, bytes(26536))
    assert both.server.send_window(stream) == 0
    both.give(control(frames.WINDOW_UPDATE, stream, 100000))
    assert both.server.send_window(stream) == 65536 + 5000 - 66536, "the connection has a window, too"


def test_settings_change_the_windows_of_open_and_new_streams(both: Both) -> None:
    stream = both.open()
    both.give(control(frames.SETTINGS, 2, 4, 100, 7, 1000))
    assert both.server.send_window(stream) == both.server.send_window(both.open()) == 1000
    both.server.send(stream, bytes(600))
    both.give(control(frames.SETTINGS, 1, 7, 500))
    assert both.server.send_window(stream) == 0
    with pytest.raises(RemoteProtocolError, match="settings: 3 in 12"):
        both.give(control(frames.SETTINGS, 3, 7, 500))


def test_consumed_bytes_are_reported_by_half_windows(both: Both) -> None:
    stream = both.open()
    for _ in range(3):
        both.give(data_frame(stream, bytes(20000)))
        both.server.consumed(stream, 20000)
    both.pump()
    messages = [(frame.stream(), frame.number(4)) for frame in both.client.others if frame.kind == frames.WINDOW_UPDATE]
    assert messages == [(0, 40000), (stream, 40000)]
    both.give(data_frame(stream, b"", fin=True))
    both.server.consumed(stream, 65536)
    both.pump()
    assert [frame.stream() for frame in both.client.others] == [0, stream, 0]


def test_only_the_client_opens_streams_and_both_sides_answer_pings() -> None:
    client, server = Connection(client=True), Connection()
    streams = [client.open({"streamtype": kind}) for kind in ("error", "stdout")]
    opened = [*server.receive(client.take())]
    assert opened == [
        StreamOpened(1, {"streamtype": "error"}),
        StreamOpened(3, {"streamtype": "stdout"}),
    ] and streams == [1, 3]
    server.reply(3)
    server.send(3, b"said", end=True)
    assert [*client.receive(server.take())] == [Data(3, b"said"), StreamEnded(3)]
    assert [*client.receive(control(frames.PING, 2))] == [] and client.take() == control(frames.PING, 2)
    with pytest.raises(RemoteProtocolError, match="SPDY stream 4 is opened"):
        [*Connection(client=True).receive(SpdyClient().open({}, stream=4)[1])]
