"""The two ends of a connection as pure state: stream ids, responses and protocol errors."""

from __future__ import annotations

import pytest

from nri.errors import LocalProtocolError, NriError
from nri.ttrpc import Code, connection, frames
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, Response, encode_request, request_prefix


def sent(client: ClientSide, service: str = "s", method: str = "m", payload: bytes = b"") -> bytes:
    """A request as it is on the wire."""
    return b"".join(client.request(service, method, payload)[1])


def test_a_refused_request_uses_no_stream_id() -> None:
    client = ClientSide()
    with pytest.raises(NriError):
        client.request("", "", bytes(frames.MAX_DATA + 1))
    assert client.request("", "", b"")[0] == 1


def test_a_late_response_is_dropped() -> None:
    client, server = ClientSide(), ServerSide()
    stream_id, _, _ = client.request("", "", b"")
    client.forget(stream_id)
    assert client.receive(server.respond(stream_id, b"late")) == []


def test_a_request_arrives_unchanged() -> None:
    client = ClientSide()
    _, pieces, length = client.request("s", "m", b"abc", 5, [("k", "v")])
    frame = b"".join(pieces)
    assert len(frame) == length
    (request,) = ServerSide().receive(frame)
    assert isinstance(request, Request)
    assert (request.service, request.method, request.payload, request.timeout_ns) == ("s", "m", b"abc", 5)
    assert (list(request.metadata), request.stream_id) == ([("k", "v")], 1)


def test_stream_ids_are_odd_and_increase() -> None:
    client = ClientSide()
    assert [client.request("s", "m", b"")[0] for _ in range(3)] == [1, 3, 5]


def test_an_error_after_the_last_stream_id_names_the_next_step() -> None:
    client = ClientSide()
    client.next_id = (1 << 32) + 1
    with pytest.raises(LocalProtocolError, match="stream ids are used up: connect again"):
        client.request("s", "m", b"")


def test_a_response_is_delivered_once() -> None:
    client, server = ClientSide(), ServerSide()
    stream_id, _, _ = client.request("s", "m", b"")
    answer = server.respond(stream_id, b"yes")
    (response,) = client.receive(answer)
    assert isinstance(response, Response)
    assert (response.stream_id, response.payload) == (stream_id, b"yes")
    assert client.receive(answer) == []


def test_the_only_response_is_read_directly_and_ends_its_stream() -> None:
    client, server = ClientSide(), ServerSide()
    stream_id, _, _ = client.request("s", "m", b"")
    answer = server.respond(stream_id, b"yes")
    assert client.receive_sole(stream_id, answer) == b"yes"
    assert client.receive(answer) == [], "the stream has ended"


@pytest.mark.parametrize(
    "chunk",
    [
        b"\x00\x00",
        frames.pack(3, frames.RESPONSE, b"\x12\x01a"),
        frames.pack(1, frames.DATA, b"\x12\x01a"),
        frames.pack(1, frames.RESPONSE, b"\x12\x01a") * 2,
        frames.pack(1, frames.RESPONSE, b"\x0a\x02\x08\x05"),
        frames.pack(1, frames.RESPONSE, b"\x12" + b"\xff" * 11),
    ],
    ids=["a part of a header", "another stream", "no response", "two", "a status", "broken"],
)
def test_other_bytes_than_the_only_response_are_left_for_the_parser(chunk: bytes) -> None:
    client = ClientSide()
    client.request("s", "m", b"")
    assert client.receive_sole(1, chunk) is None
    if len(chunk) > frames.HEADER_LENGTH and frames.unpack_header(chunk)[1] == 1:
        assert client.receive(chunk), "it was taken all the same"


def test_inside_a_frame_the_fast_path_is_not_used() -> None:
    client, server = ClientSide(), ServerSide()
    for _ in range(2):
        client.request("s", "m", b"")
    first, second = server.respond(1, b"one"), server.respond(3, b"two")
    assert client.receive(first[:-1]) == []
    assert client.receive_sole(3, second) is None


@pytest.mark.parametrize(
    ("stream_id", "text"),
    [
        (2, "StreamID must be odd for client initiated streams"),
        (1, "StreamID cannot be re-used and must increment"),
    ],
)
def test_a_request_with_a_wrong_stream_id_is_refused_and_leaves_the_connection_usable(
    stream_id: int, text: str
) -> None:
    client, server = ClientSide(), ServerSide()
    server.receive(sent(client))
    data = encode_request(request_prefix("s", "m"), b"")
    (refusal,) = server.receive(frames.pack(stream_id, frames.REQUEST, data))
    assert isinstance(refusal, Response)
    assert (refusal.stream_id, refusal.code, refusal.message) == (stream_id, Code.INVALID_ARGUMENT, text)
    assert isinstance(server.receive(sent(client))[0], Request)


def test_an_invalid_request_is_refused_also_in_parts() -> None:
    for step in (1, 100):
        frame = frames.pack(1, frames.REQUEST, b"\xff\xff\xff")
        server = ServerSide()
        (refusal,) = [item for at in range(0, len(frame), step) for item in server.receive(frame[at : at + step])]
        assert isinstance(refusal, Response)
        assert refusal.message.startswith("unmarshal request error: ")


def test_an_oversized_request_affects_no_other_request() -> None:
    server = ServerSide()
    length = frames.MAX_DATA + 1
    complete = frames.pack_header(length, 1, frames.REQUEST, 0) + bytes(length)
    (refusal,) = server.receive(complete)
    assert isinstance(refusal, Response)
    assert refusal.code == Code.RESOURCE_EXHAUSTED
    client = ClientSide()
    client.request("s", "m", b"")
    assert isinstance(server.receive(sent(client))[0], Request)


def test_frames_of_unknown_types_are_ignored() -> None:
    server = ServerSide()
    assert server.receive(frames.pack(1, 9, b"x") + frames.pack(1, frames.RESPONSE, b"")) == []


def test_an_oversized_reply_becomes_a_status() -> None:
    client, server = ClientSide(), ServerSide()
    client.request("s", "m", b"")
    (response,) = client.receive(server.respond(1, bytes(frames.MAX_DATA)))
    assert isinstance(response, Response)
    assert response.code == Code.RESOURCE_EXHAUSTED
    assert response.message == "message length 4194309 exceed maximum message size of 4194304"


def test_the_cache_of_method_names_is_bounded() -> None:
    client = ClientSide()
    for number in range(1100):
        client.request("s", f"m{number}", b"")
    assert len(connection.prefixes) <= 1025
