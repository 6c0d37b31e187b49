"""Any fragmentation of messages decodes to the same messages; garbage is a clean error."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from nri import wire
from nri.errors import RemoteProtocolError
from nri.mux import Demux
from nri.mux import frames as mux
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_prefix,
)
from nri.ttrpc.halves import Data

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
PAYLOADS = st.one_of(st.binary(max_size=40), st.integers(4000, 9000).map(bytes), st.integers(60_000, 70_000).map(bytes))
REQUESTS = st.tuples(
    st.sampled_from((1, 2)),
    NAMES,
    NAMES,
    PAYLOADS,
    st.integers(0, 2**63 - 1),
    st.lists(st.tuples(NAMES, NAMES), max_size=3),
)


def fragments(draw_sizes: list[int], data: bytes) -> list[bytes]:
    """Cut into pieces of the drawn sizes, which are used over and over."""
    out, position, n = [], 0, 0
    while position < len(data):
        size = draw_sizes[n % len(draw_sizes)]
        out.append(data[position : position + size])
        position += size
        n += 1
    return out


@given(st.lists(REQUESTS, max_size=6), st.lists(st.integers(1, 5000), min_size=1, max_size=8))
def test_any_fragmentation_of_requests_decodes_to_the_same_requests(requests, sizes) -> None:
    clients = {1: ClientSide(), 2: ClientSide()}
    sent, data = [], b""
    for conn_id, service, method, payload, timeout_ns, metadata in requests:
        stream_id, pieces, length = clients[conn_id].request(service, method, payload, timeout_ns, metadata)
        frame = b"".join(pieces)
        assert len(frame) == length
        data += mux.cut(conn_id, frame)
        sent.append((conn_id, stream_id, service, method, payload, timeout_ns, tuple(metadata)))
    demux, servers, got = Demux((1, 2)), {1: ServerSide(), 2: ServerSide()}, []
    for fragment in fragments(sizes, data):
        for conn_id, chunk in demux.receive(fragment):
            for r in servers[conn_id].receive(chunk):
                assert isinstance(r, Request), r
                got.append((conn_id, r.stream_id, r.service, r.method, r.payload, r.timeout_ns, r.metadata))
    assert got == sent


@given(
    st.lists(st.tuples(PAYLOADS, st.integers(0, 16), NAMES), max_size=6),
    st.lists(st.integers(1, 3000), min_size=1, max_size=8),
)
def test_any_fragmentation_of_responses_decodes_to_the_same_responses(responses, sizes) -> None:
    client, server, data, sent = ClientSide(), ServerSide(), b"", []
    for payload, code, message in responses:
        stream_id, _, _ = client.request("", "", b"")
        text = message if code else ""
        body = b"" if code else payload
        data += server.respond(stream_id, body, code, text)
        sent.append((stream_id, body, code, text))
    got = []
    for fragment in fragments(sizes, data):
        got += [(r.stream_id, r.payload, r.code, r.message) for r in client.receive(fragment)]
    assert got == sent


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_garbage_on_the_trunk_is_a_protocol_error_or_incomplete(pieces) -> None:
    demux, server, client = Demux((1, 2)), ServerSide(), ClientSide()
    for _ in range(4):
        client.request("", "", b"")
    for piece in pieces:
        try:
            chunks = demux.receive(piece)
        except RemoteProtocolError:
            return
        for conn_id, chunk in chunks:
            for answer in server.receive(chunk) if conn_id == 1 else client.receive(chunk):
                assert isinstance(answer, (Request, Response, Data))


@given(st.binary(max_size=200))
def test_any_bytes_on_a_ttrpc_connection_never_raise_on_the_server(data) -> None:
    for answer in ServerSide().receive(data):
        assert isinstance(answer, (Request, Response, Data))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_envelope_or_a_protocol_error(data) -> None:
    for decode in (decode_request, decode_response):
        try:
            decode(data)
        except RemoteProtocolError as error:
            assert str(error)


@given(st.binary(max_size=200))
def test_reading_any_bytes_as_fields_ends(data) -> None:
    try:
        list(wire.iter_fields(data))
    except RemoteProtocolError as error:
        assert str(error)


@given(st.integers(0, 2**64 - 1))
def test_varints_round_trip(value) -> None:
    assert wire.read_varint(wire.varint(value), 0) == (value, len(wire.varint(value)))


@given(NAMES, NAMES, st.binary(max_size=50), st.integers(0, 2**63 - 1), st.lists(st.tuples(NAMES, NAMES), max_size=3))
def test_request_envelopes_round_trip(service, method, payload, timeout_ns, metadata) -> None:
    r = decode_request(encode_request(request_prefix(service, method), payload, timeout_ns, metadata))
    assert (r.service, r.method, r.payload, r.timeout_ns, r.metadata) == (
        service,
        method,
        payload,
        timeout_ns,
        tuple(metadata),
    )


@given(st.binary(max_size=50), st.integers(0, 16), NAMES)
def test_response_envelopes_round_trip(payload, code, message) -> None:
    r = decode_response(encode_response(payload, code, message))
    assert (r.payload, r.code, r.message) == ((b"", code, message) if code else (payload, 0, ""))


@given(st.integers(1, 3), st.binary(max_size=20), st.binary(max_size=20))
def test_unknown_envelope_fields_are_skipped_at_any_position(number, before, payload) -> None:
    extra = (
        wire.bytes_field(100 + number, before)
        + wire.varint_field(200, 7)
        + wire.tag(99, 5)
        + b"abcd"
        + wire.tag(98, 1)
        + bytes(8)
    )
    data = extra + encode_request(request_prefix("s", "m"), payload, 5) + extra
    r = decode_request(data)
    assert (r.service, r.method, r.payload, r.timeout_ns) == ("s", "m", payload, 5)


@given(st.integers(0, 20_000))
def test_a_message_is_split_as_a_go_peer_requires(length) -> None:
    data = mux.cut(2, bytes(length))
    first = struct.unpack(">II", data[:8])
    assert first == (2, min(length, 4096))
    remainder = data[8 + first[1] :]
    assert bool(remainder) == (length > 4096), "one frame, or one of 4096 bytes and one with the rest"
    if remainder:
        assert struct.unpack(">II", remainder[:8]) == (2, length - 4096)


@given(st.lists(st.one_of(st.binary(max_size=20), st.integers(4000, 4200).map(bytes)), max_size=6))
def test_a_message_in_pieces_is_split_like_the_whole_message(pieces) -> None:
    assert mux.cut(2, *pieces) == mux.cut(2, b"".join(pieces))


@given(st.binary(max_size=12), NAMES, st.binary(max_size=20), st.integers(0, 9))
def test_a_request_is_decoded_from_an_offset(before, name, payload, timeout_ns) -> None:
    data = encode_request(request_prefix(name, "m"), payload, timeout_ns)
    for _ in range(2):  # the second time its names are known
        r = decode_request(before + data, len(before))
        assert (r.service, r.method, r.payload, r.timeout_ns) == (name, "m", payload, timeout_ns)
