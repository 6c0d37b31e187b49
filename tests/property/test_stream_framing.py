"""Stream state without I/O: messages arrive in order in any fragmentation, and no frame breaks another stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri.errors import LocalProtocolError
from nri.ttrpc import frames
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.halves import Data

PAYLOADS = st.binary(max_size=60) | st.integers(0, 9000).map(bytes)
SIZES = st.lists(st.integers(1, 3000), min_size=1, max_size=6)
KINDS = st.tuples(st.booleans(), st.booleans())


def fragments(sizes: list[int], data: bytes) -> Iterator[bytes]:
    """The data cut into pieces of these sizes, again and again."""
    position = place = 0
    while position < len(data):
        size = sizes[place % len(sizes)]
        yield data[position : position + size]
        position, place = position + size, place + 1


@given(
    st.lists(st.tuples(KINDS, PAYLOADS), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.none() | PAYLOADS), max_size=25),
    SIZES,
)
def test_messages_of_a_client_arrive_in_its_stream(
    opened: list[tuple[tuple[bool, bool], bytes]], sent: list[tuple[int, bytes | None]], sizes: list[int]
) -> None:
    """`None` half-closes the client's side; later messages are refused locally."""
    client, server = ClientSide(), ServerSide()
    wire, expected = b"", defaultdict(list)
    streams: list[tuple[int, bool]] = []
    for (sends, receives), first in opened:
        stream_id, frame = client.open(Request("s", "m", first), sends=sends, receives=receives)
        wire += b"".join(frame)
        streams.append((stream_id, sends))
        expected[stream_id].append(("request", first, sends))
    closed = {stream_id for stream_id, sends in streams if not sends}
    for place, payload in sent:
        stream_id = streams[place % len(streams)][0]
        if payload is None:
            wire += client.streams.close(stream_id)
            if stream_id not in closed:
                closed.add(stream_id)
                expected[stream_id].append("end")
        elif stream_id in closed:
            try:
                client.streams.data(stream_id, payload)
            except LocalProtocolError:
                continue
            raise AssertionError("data after the end of our half")
        else:
            wire += client.streams.data(stream_id, payload)
            expected[stream_id].append(payload)
    got: dict[int, list[Any]] = defaultdict(list)
    for fragment in fragments(sizes, wire):
        for item in server.receive(fragment):
            assert not isinstance(item, Response), item
            if isinstance(item, Request):
                got[item.stream_id].append(("request", item.payload, bool(item.flags & frames.REMOTE_OPEN)))
            else:
                got[item.stream_id] += [] if item.payload is None else [item.payload]
                got[item.stream_id] += ["end"] if item.last else []
    assert got == expected


@given(
    st.lists(KINDS, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(1, 16) | PAYLOADS), max_size=25),
    SIZES,
)
def test_messages_of_a_server_arrive_in_its_stream(
    opened: list[tuple[bool, bool]], sent: list[tuple[int, Any]], sizes: list[int]
) -> None:
    """`None` ends a stream, a number is a status, and a unary method replies with its first message."""
    client, server = ClientSide(), ServerSide()
    streams, expected, over = [], defaultdict(list), set()
    for sends, receives in opened:
        stream_id, frame = client.open(Request("s", "m", b""), sends=sends, receives=receives)
        assert [type(item) for item in server.receive(b"".join(frame))] == [Request]
        streams.append((stream_id, receives))
    wire = b""
    for place, what in sent:
        stream_id, receives = streams[place % len(streams)]
        if stream_id in over:
            assert server.streams.close(stream_id) == b""
            continue
        if isinstance(what, int):
            wire += server.respond(stream_id, b"", what, "no")
            expected[stream_id].append(("status", what))
            over.add(stream_id)
        elif not receives:
            wire += server.respond(stream_id, what or b"")
            expected[stream_id].append(("reply", what or b""))
            over.add(stream_id)
        elif what is None:
            wire += server.streams.close(stream_id)
            expected[stream_id].append("end")
            over.add(stream_id)
        else:
            wire += server.streams.data(stream_id, what)
            expected[stream_id].append(what)
    got: dict[int, list[Any]] = defaultdict(list)
    for fragment in fragments(sizes, wire):
        for item in client.receive(fragment):
            if isinstance(item, Response):
                got[item.stream_id].append(("status", item.code) if item.code else ("reply", item.payload))
            else:
                got[item.stream_id] += [] if item.payload is None else [item.payload]
                got[item.stream_id] += ["end"] if item.last else []
    assert got == expected
    assert not any(stream_id in client.streams for stream_id in over)


FRAMES = st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(0, 7), st.binary(max_size=20))


@given(st.lists(FRAMES, max_size=30))
def test_no_sequence_of_frames_breaks_a_server_or_a_valid_stream(
    sequence: list[tuple[int, int, int, bytes]],
) -> None:
    client, server = ClientSide(), ServerSide()
    stream_id, frame = client.open(Request("s", "m", b""), sends=True, receives=True)
    server.receive(b"".join(frame))
    for other, kind, flags, data in sequence:
        if other == stream_id:
            continue
        for item in server.receive(frames.pack(other, kind, data, flags)):
            if isinstance(item, Response):
                assert item.code, "what is refused has a status"
                server.respond(item.stream_id, b"", item.code, item.message)
            elif isinstance(item, Data):
                assert item.stream_id in server.streams.open
    (item,) = server.receive(client.streams.data(stream_id, b"x"))
    assert isinstance(item, Data)
    assert (item.stream_id, item.payload, item.last) == (stream_id, b"x", False)
    assert len(server.streams.open) <= 1 + len({other for other, *_ in sequence})


@given(st.lists(FRAMES, max_size=30), st.booleans(), st.booleans())
def test_no_sequence_of_frames_breaks_a_client(
    sequence: list[tuple[int, int, int, bytes]], sends: bool, receives: bool
) -> None:
    client = ClientSide()
    stream_id, _ = client.open(Request("s", "m", b""), sends=sends, receives=receives)
    call, _, _ = client.request("s", "m", b"")
    ended: list[int] = []
    for other, kind, flags, data in sequence:
        for item in client.receive(frames.pack(other, kind, data, flags)):
            assert item.stream_id not in ended, "something comes after the end"
            if isinstance(item, Response) or item.last:
                ended.append(item.stream_id)
    assert set(ended) <= {stream_id, call}
    assert (stream_id in client.streams) == (stream_id not in ended)
