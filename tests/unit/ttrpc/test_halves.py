"""The frames that a stream accepts, and the handling of all other frames."""

from __future__ import annotations

import pytest

from nri.errors import LocalProtocolError, OversizedMessage
from nri.ttrpc import Code, frames
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.frames import DATA, NO_DATA, REMOTE_CLOSED, REMOTE_OPEN, RESPONSE
from nri.ttrpc.halves import Data


def opened(*, sends: bool = True, receives: bool = True, payload: bytes = b"") -> tuple[ClientSide, ServerSide, int]:
    client, server = ClientSide(), ServerSide()
    stream_id, frame = client.open(Request("s", "m", payload), sends=sends, receives=receives)
    (request,) = server.receive(b"".join(frame))
    assert isinstance(request, Request)
    return client, server, stream_id


@pytest.mark.parametrize(
    ("sends", "payload", "flags"),
    [
        (True, b"", REMOTE_OPEN | NO_DATA),  # Rust's library takes an empty request for a message without NO_DATA
        (True, b"x", REMOTE_OPEN),
        (False, b"", REMOTE_CLOSED),
        (False, b"x", REMOTE_CLOSED),
    ],
)
def test_the_flags_of_a_request_show_which_side_continues(sends: bool, payload: bytes, flags: int) -> None:
    _, frame = ClientSide().open(Request("s", "m", payload), sends=sends, receives=True)
    assert frames.unpack_header(frame[0])[3] == flags


def test_the_bytes_of_a_stream_equal_the_references() -> None:
    client, server, stream_id = opened()
    assert client.streams.data(stream_id, b"ab").hex() == "000000020000000103006162"
    assert client.streams.close(stream_id).hex() == "00000000000000010305"
    assert server.streams.data(stream_id, b"").hex() == "00000000000000010300"
    assert server.streams.close(stream_id).hex() == "00000000000000010305"


def test_data_that_arrives_after_the_end_of_its_stream_is_dropped() -> None:
    client, server, stream_id = opened()
    late = client.streams.data(stream_id, b"late")
    server.streams.close(stream_id)
    assert server.receive(late) == []


def test_a_server_remembers_a_bounded_number_of_ended_streams() -> None:
    client, server = ClientSide(), ServerSide()
    stream_ids = []
    for _ in range(300):
        stream_id, frame = client.open(Request("s", "m", b""), sends=True, receives=True)
        server.receive(b"".join(frame))
        server.streams.close(stream_id)
        stream_ids.append(stream_id)
    assert not server.streams.open
    assert len(server.streams.ended) <= 128
    assert server.receive(frames.pack(stream_ids[-1], DATA, b"x")) == []
    (refused,) = server.receive(frames.pack(stream_ids[0], DATA, b"x"))
    assert isinstance(refused, Response)


@pytest.mark.parametrize("stream_id", [1, 7])
def test_data_without_a_stream_is_refused(stream_id: int) -> None:
    """Stream 1 was a unary call; stream 7 was never opened."""
    client, server = ClientSide(), ServerSide()
    server.receive(b"".join(client.request("s", "m", b"")[1]))
    (refused,) = server.receive(frames.pack(stream_id, DATA, b"x"))
    assert isinstance(refused, Response)
    assert (refused.code, refused.message) == (Code.INVALID_ARGUMENT, "StreamID is no longer active")


def test_data_after_the_end_of_the_clients_half_is_refused() -> None:
    client, server, stream_id = opened()
    (end,) = server.receive(client.streams.close(stream_id))
    assert isinstance(end, Data)
    assert end.last
    (refused,) = server.receive(frames.pack(stream_id, DATA, b"x"))
    assert isinstance(refused, Response)
    assert refused.code == Code.INVALID_ARGUMENT


def test_the_last_message_can_have_the_end_flag() -> None:
    client, server, stream_id = opened()
    (data,) = server.receive(frames.pack(stream_id, DATA, b"x", REMOTE_CLOSED))
    assert isinstance(data, Data)
    assert (data.payload, data.last) == (b"x", True)
    (reply,) = client.receive(frames.pack(stream_id, DATA, b"y", REMOTE_CLOSED))
    assert isinstance(reply, Data)
    assert (reply.payload, reply.last) == (b"y", True)


def test_an_empty_frame_without_the_end_flag_is_ignored() -> None:
    client, server, stream_id = opened()
    assert server.receive(frames.pack(stream_id, DATA, b"", NO_DATA)) == []
    assert client.receive(frames.pack(stream_id, DATA, b"", NO_DATA)) == []


def test_an_oversized_frame_fails_only_its_stream() -> None:
    client, server, stream_id = opened()
    long = frames.pack_header(frames.MAX_DATA + 1, stream_id, DATA, 0) + bytes(frames.MAX_DATA + 1)
    (failed,) = client.receive(long)
    (refused,) = server.receive(long)
    for response in (failed, refused):
        assert isinstance(response, Response)
        assert response.code == Code.RESOURCE_EXHAUSTED
    assert stream_id not in client.streams
    other, frame = client.open(Request("s", "m", b""), sends=True, receives=True)
    assert isinstance(server.receive(b"".join(frame))[0], Request)
    assert len(client.receive(server.streams.data(other, b"x"))) == 1


def test_data_of_a_server_that_does_not_stream_fails_the_stream() -> None:
    client, server, stream_id = opened(receives=False)
    (failed,) = client.receive(server.streams.data(stream_id, b"x"))
    assert isinstance(failed, Response)
    assert failed.code == Code.INTERNAL


def test_a_broken_response_fails_its_stream() -> None:
    client, _, stream_id = opened()
    (failed,) = client.receive(frames.pack(stream_id, RESPONSE, b"\xff"))
    assert isinstance(failed, Response)
    assert "unmarshal response error" in failed.message


def test_a_closed_stream_sends_no_frame() -> None:
    client, server, stream_id = opened()
    assert client.streams.close(stream_id)
    assert client.streams.close(stream_id) == b""
    with pytest.raises(LocalProtocolError):
        client.streams.data(stream_id, b"x")
    server.respond(stream_id, b"", Code.ABORTED, "no")
    assert server.streams.close(stream_id) == b""
    with pytest.raises(LocalProtocolError):
        server.streams.data(stream_id, b"x")


def test_an_oversized_message_is_refused_and_leaves_the_stream_open() -> None:
    client, server, stream_id = opened()
    for streams in (client.streams, server.streams):
        with pytest.raises(OversizedMessage):
            streams.data(stream_id, bytes(frames.MAX_DATA + 1))
        assert streams.data(stream_id, b"x")


def test_the_text_of_a_data_frame_is_readable() -> None:
    assert repr(Data(3, None, last=True)) == "Data(stream 3, no data, last)"
    assert repr(Data(3, b"abc")) == "Data(stream 3, 3 bytes)"
