"""Port forwarding over a WebSocket with a pair of channels for each port."""

from __future__ import annotations

from base64 import b64decode

import pytest

from nri.engine.streaming.channels import ClientGone, PortData, PortOpened
from nri.engine.streaming.websocket import MAX_PORTS, WebSocketForward
from tests.support.stream_clients import WebSocketClient


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""])
def test_each_port_has_two_channels_that_start_with_its_number(protocol: str) -> None:
    client, server = WebSocketClient(), WebSocketForward(protocol, [80, 0x1234])
    messages = client.read(server.take())
    if "base64" in protocol:
        messages = [bytes((message[0] - 48,)) + b64decode(message[1:]) for message in messages]
    assert messages == [b"\0\x50\0", b"\1\x50\0", b"\2\x34\x12", b"\3\x34\x12"]


def test_connections_are_opened_at_once_and_carry_bytes() -> None:
    client, server = WebSocketClient(), WebSocketForward("", [80, 81])
    client.read(server.take())
    assert [*server.receive(b"")] == [PortOpened("0", 80), PortOpened("1", 81)]
    data = client.send(b"\2in") + client.send(b"\1not for errors") + client.send(b"\x09nobody") + client.send(b"\2")
    assert [*server.receive(data)] == [PortData("1", b"in")]
    server.consumed("1", 2)
    server.expire(1e9)
    server.send("1", b"out")
    server.end("1")
    server.close("0", "refused")
    server.close("0", "again")
    server.send("0", b"gone")
    assert client.read(server.take()) == [b"\2out", b"\1refused"]
    assert server.send_window("0") == 0 and server.send_window("1") > 0 and not server.over
    server.close("1")
    assert server.over
    server.finish()
    client.read(server.take())
    assert client.closed == 1000 and [*server.receive(b"")] == [ClientGone()]


def test_channels_of_the_maximum_number_of_ports_are_one_character() -> None:
    client, server = WebSocketClient(), WebSocketForward("v4.base64.channel.k8s.io", [80] * MAX_PORTS)
    assert len(client.read(server.take())) == 2 * MAX_PORTS
    assert 2 * MAX_PORTS + ord("0") < 128
