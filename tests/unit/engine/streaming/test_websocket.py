"""WebSocket messages, pings, closes and protocol errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.websocket import MessageSocket, Piece
from tests.support.stream_clients import WebSocketClient


@given(st.lists(st.binary(max_size=300) | st.text(max_size=100), max_size=5), st.integers(1, 100))
def test_messages_are_equal_for_any_split_of_the_bytes(sent: list[bytes | str], size: int) -> None:
    client, server = WebSocketClient(), MessageSocket()
    data = b"".join(client.send(message) for message in sent)
    messages, buffer, begun = [], b"", False
    for at in range(0, len(data), size):
        for piece in server.receive(data[at : at + size]):
            assert piece.first == (not begun)
            buffer, begun = buffer + piece.data, not piece.last
            if piece.last:
                messages.append(buffer)
                buffer = b""
    assert messages == [message.encode() if isinstance(message, str) else message for message in sent]


def test_a_message_can_have_several_frames() -> None:
    client, server = WebSocketClient(), MessageSocket()
    data = client.send(b"a", last=False) + client.ping(b"between") + client.send(b"b")
    assert [*server.receive(data)] == [Piece(b"a", True, False), Piece(b"b", False, True)]
    client.read(server.take())
    assert client.pongs == [b"between"]


def test_the_first_part_of_a_long_message_is_returned_at_once() -> None:
    server = MessageSocket()
    (piece,) = server.receive(b"\x82\xff" + (1 << 40).to_bytes(8, "big") + bytes(4) + b"begin")
    assert piece == Piece(b"begin", True, False)


def test_messages_arrive_completely_until_the_close() -> None:
    client, server = WebSocketClient(), MessageSocket()
    server.send(b"\x01\xff")
    server.send(b"aGk=", text=True)
    server.close()
    server.close()
    server.send(b"late")
    assert client.read(server.take()) == [b"\x01\xff", b"aGk="] and client.closed == 1000


def test_a_clients_close_is_answered() -> None:
    client, server = WebSocketClient(), MessageSocket()
    assert [*server.receive(client.close())] == [] and server.closed
    client.read(server.take())
    assert client.closed == 1000 and [*server.receive(b"more")] == []


@pytest.mark.parametrize(
    "data", [b"\x82\x01x", b"\xc2\x80" + bytes(4), b"\x83\x80" + bytes(4), b"\x81\x81" + bytes(4) + b"\xff"]
)
def test_a_protocol_error_ends_the_connection_with_its_code(data: bytes) -> None:
    client, server = WebSocketClient(), MessageSocket()
    assert [*server.receive(data)] == [] and server.closed
    client.read(server.take())
    assert client.closed in (1002, 1007)
