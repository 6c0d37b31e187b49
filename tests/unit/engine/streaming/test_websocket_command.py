"""Exec and attach over a WebSocket: channels by the first byte, base64, and v5's end of input."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.channels import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    ClientGone,
    Input,
    InputEnd,
    Resize,
    Status,
)
from nri.engine.streaming.websocket import COMMAND_PROTOCOLS, ChannelReader, Piece, WebSocketCommand
from tests.support.stream_clients import WebSocketClient

ALL = frozenset({STDIN, STDOUT, STDERR, ERROR, RESIZE})


def begun(protocol: str, streams: frozenset[int] = ALL) -> tuple[WebSocketClient, WebSocketCommand]:
    client, server = WebSocketClient(), WebSocketCommand(protocol, streams)
    assert server.ready
    first = client.read(server.take())
    assert first == [b"1" if "base64" in protocol else b"\x01"], "an empty message confirms the connection"
    return client, server


@pytest.mark.parametrize("protocol", COMMAND_PROTOCOLS)
def test_channels_are_separated_in_both_directions(protocol: str) -> None:
    client, server = begun(protocol)
    base64 = "base64" in protocol

    def message(channel: int, data: bytes) -> bytes | str:
        return f"{channel}{b64encode(data).decode()}" if base64 else bytes((channel,)) + data

    data = client.send(message(0, b"in")) + client.send(message(4, b'{"Width":1,"Height":2}')) + client.send(b"")
    data += client.send(message(9, b"nobody")) + client.send(message(1, b"not a client's"))
    assert [*server.receive(data)] == [Input(b"in"), Resize(1, 2)]
    server.write(STDOUT, b"out\xff")
    server.write(STDERR, b"err")
    server.finish(Status(3))
    messages = client.read(server.take())
    sent = [message(1, b"out\xff"), message(2, b"err")]
    assert messages[:2] == [entry.encode() if isinstance(entry, str) else entry for entry in sent]
    outcome = messages[2][:1], messages[2][1:]
    assert outcome[0] == (b"3" if base64 else b"\x03") and client.closed == 1000
    if protocol.startswith("v"):
        text = __import__("base64").b64decode(outcome[1]) if base64 else outcome[1]
        assert json.loads(text)["details"]["causes"][0]["message"] == "3"


def test_success_is_a_message_since_v4_and_no_message_before() -> None:
    for protocol, messages in (("v4.channel.k8s.io", 1), ("channel.k8s.io", 0)):
        client, server = begun(protocol)
        server.finish(Status())
        assert len(client.read(server.take())) == messages and client.closed == 1000


def test_only_v5_can_end_the_input() -> None:
    client, server = begun("v5.channel.k8s.io")
    assert [*server.receive(client.send(b"\xff\x00"))] == [InputEnd()]
    assert [*server.receive(client.send(b"\xff\x04") + client.send(b"\xff") + client.send(b"\xff\x00\x00"))] == []
    client, server = begun("v4.channel.k8s.io")
    assert [*server.receive(client.send(b"\xff\x00"))] == []


def test_a_close_of_the_client_ends_the_command() -> None:
    client, server = begun("v5.channel.k8s.io")
    assert [*server.receive(client.close())] == [ClientGone()]
    assert [*server.receive(b"")] == [ClientGone()]


def test_streams_that_were_not_requested_carry_no_data() -> None:
    client, server = WebSocketClient(), WebSocketCommand("v5.channel.k8s.io", frozenset({STDERR, ERROR}))
    server.write(STDOUT, b"dropped")
    assert client.read(server.take()) == [b"\x02"] and server.send_window(STDOUT) > 0
    assert [*server.receive(client.send(b"\x00in"))] == []
    server.consumed(2)


@given(st.binary(max_size=200), st.integers(1, 30))
def test_base64_is_read_in_parts_of_any_size(data: bytes, size: int) -> None:
    text, reader, received = b"0" + b64encode(data), ChannelReader(base64=True), b""
    cuts = range(0, len(text), size)
    for at in cuts:
        channel, more = reader.read(Piece(text[at : at + size], at == 0, at == cuts[-1]))
        assert channel == 0
        received += more
    assert received == data


def test_invalid_base64_is_ignored_and_the_next_message_is_read() -> None:
    reader = ChannelReader(base64=True)
    assert reader.read(Piece(b"0!!!!", True, True)) == (0, b"")
    assert reader.read(Piece(b"0abc", True, True)) == (0, b"")
    assert reader.read(Piece(b"", True, True)) == (-1, b"")
    assert reader.read(Piece(b"4aGk=", True, True)) == (4, b"hi")
