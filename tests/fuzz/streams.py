"""Targets for what comes to the engine's streaming server: HTTP, WebSockets, SPDY, and Kubernetes's protocols in them.

What is documented is one RemoteProtocolError of what was read, and Refused of a request. Whatever comes, an answer can
be made of it, is bounded, and pieces of any size mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st

from nri.engine.streaming.channels import (
    ClientGone,
    CommandChannels,
    ForwardChannels,
    Input,
    PortClosed,
    PortData,
    PortOpened,
    Status,
    requested_streams,
)
from nri.engine.streaming.http import Refused, RequestReader, negotiate
from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import control
from nri.engine.streaming.spdy_channels import COMMAND_PROTOCOLS as SPDY_PROTOCOLS
from nri.engine.streaming.spdy_channels import SpdyCommand, SpdyForward, TunnelForward
from nri.engine.streaming.websocket import COMMAND_PROTOCOLS as WEBSOCKET_PROTOCOLS
from nri.engine.streaming.websocket import WebSocketCommand, WebSocketForward
from nri.errors import RemoteProtocolError
from tests.fuzz import inputs
from tests.fuzz.engine import Target
from tests.support.stream_clients import SpdyClient, WebSocketClient

__all__ = ["TARGETS"]

_REQUESTS = [
    (
        b"POST /exec/abc?a=b HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        b"X-Stream-Protocol-Version: v4.channel.k8s.io, v3.channel.k8s.io\r\nContent-Length: 0\r\n\r\n\x80\x03\x00\x06"
    ),
    (
        b"GET /attach/abc HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n\x82\x81"
    ),
]


def _command_streams() -> bytes:
    client = SpdyClient()
    opened = [client.open({"streamtype": kind})[1] for kind in ("error", "stdin", "stdout", "resize")]
    output = client.send(3, b"in") + client.send(7, b'{"Width":80,"Height":25}') + client.send(3, b"", end=True)
    return b"".join(opened) + output + control(frames.PING, 1) + client.let_go(1) + control(frames.GOAWAY, 0, 0)


def _forward_streams() -> bytes:
    client, data = SpdyClient(), b""
    for key in ("0", "1"):
        headers = {"port": "80", "requestid": key}
        error, opens_error = client.open({"streamtype": "error", **headers})
        stream, opens_data = client.open({"streamtype": "data", **headers})
        data += opens_error + client.send(error, b"", end=True) + opens_data + client.send(stream, b"in")
    return data + client.send(3, b"", end=True) + client.let_go(7) + control(frames.SETTINGS, 1, 7, 1000)


def _messages(*messages: bytes | str) -> bytes:
    client = WebSocketClient()
    return b"".join(client.send(message) for message in messages) + client.ping(b"p") + client.close()


_SPDY = [_command_streams(), _forward_streams(), control(frames.WINDOW_UPDATE, 1, 9) + control(frames.HEADERS, 1)]
_WEBSOCKET = [
    _messages(b"\0in", b"\4" + b'{"Width":80,"Height":25}', b"\xff\0", b""),
    _messages("0aW4=", "4eyJXaWR0aCI6MSwiSGVpZ2h0IjoyfQ==", "", "9"),
    _messages(*(_forward_streams()[at : at + 50] for at in range(0, 300, 50))),
]


def _pieces(data: bytes) -> list[bytes]:
    """The input as it may come: the first byte says in pieces of how many."""
    size = data[0] % 64 + 1 if data else 1
    return [data[start : start + size] for start in range(1, len(data), size)]


def _request(data: bytes) -> None:
    reader = RequestReader()
    for piece in _pieces(data):
        if request := reader.receive(piece):
            assert "?" not in request.path
            upgrade = negotiate(request, SPDY_PROTOCOLS, WEBSOCKET_PROTOCOLS)
            assert upgrade.protocol in (*SPDY_PROTOCOLS, *WEBSOCKET_PROTOCOLS)
            assert upgrade.answer.startswith(b"HTTP/1.1 101 ") and upgrade.answer.endswith(b"\r\n\r\n")
            return


def _command(make: Callable[[], CommandChannels], data: bytes) -> None:
    def said(pieces: list[bytes]) -> tuple[bytes, list[object]]:
        other_entries: list[object] = []
        channels, typed = make(), b""
        for piece in pieces:
            for event in channels.receive(piece):
                if isinstance(event, Input):
                    typed += event.data
                elif event not in other_entries:
                    other_entries.append(event)
        channels.write(1, b"out")
        channels.finish(Status(3))
        assert isinstance(channels.take(), bytes)
        return typed, other_entries

    (typed, others_typed), (typed_at_once, others_at_once) = said(_pieces(data)), said([data[1:]])
    assert (ClientGone() in others_typed) == (ClientGone() in others_at_once)
    if (
        ClientGone() in others_typed
    ):  # a text that breaks off in its middle is handed on up to there, if it came in pieces
        assert typed.startswith(typed_at_once) or typed_at_once.startswith(typed)
    else:
        assert (typed, others_typed) == (typed_at_once, others_at_once)


def _forward(make: Callable[[], ForwardChannels], data: bytes) -> None:
    channels = make()
    for piece in _pieces(data):
        for event in channels.receive(piece):
            if isinstance(event, PortOpened):
                assert 0 < event.port < 65536
                channels.send(event.key, b"out"[: channels.send_window(event.key)])
            elif isinstance(event, PortData):
                channels.consumed(event.key, len(event.data))
            elif isinstance(event, PortClosed):
                channels.close(event.key, "over")
        channels.expire(float(len(piece)))
    channels.finish()
    assert isinstance(channels.take(), bytes)


_STREAMS = requested_streams(stdin=True, stdout=True, stderr=False, tty=True)
_spdy_bytes = inputs.spoiled([b"\x1f" + data for data in _SPDY]) | st.binary(max_size=60)
_websocket_bytes = inputs.spoiled([b"\x1f" + data for data in _WEBSOCKET]) | st.binary(max_size=60)
_BROKEN = (RemoteProtocolError,)

TARGETS = (
    Target("stream-request", inputs.spoiled([b"\x1f" + data for data in _REQUESTS]), _request, (*_BROKEN, Refused)),
    Target("spdy-command", _spdy_bytes, partial(_command, partial(SpdyCommand, SPDY_PROTOCOLS[0], _STREAMS)), _BROKEN),
    Target("spdy-forward", _spdy_bytes, partial(_forward, SpdyForward), _BROKEN),
    Target("spdy-tunnel", _websocket_bytes, partial(_forward, TunnelForward), _BROKEN),
    Target(
        "websocket-command",
        _websocket_bytes,
        partial(_command, partial(WebSocketCommand, "v5.channel.k8s.io", _STREAMS)),
    ),
    Target(
        "websocket-base64",
        _websocket_bytes,
        partial(_command, partial(WebSocketCommand, "v4.base64.channel.k8s.io", _STREAMS)),
    ),
    Target("websocket-forward", _websocket_bytes, partial(_forward, partial(WebSocketForward, "", [80, 81]))),
)
