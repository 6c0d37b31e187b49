"""Exec and attach over a WebSocket: the first byte of each message says its channel.

Rules: channels are numbered as descriptors are, then comes the outcome and the terminal's size; v5 adds channel 255,
which ends the channel of its second byte; in a base64 protocol messages are texts, and the first character is a digit.
A message is handed on piece by piece, however long it is.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from nri.engine.streaming.channels.command import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    ClientGone,
    CommandEvent,
    Input,
    InputEnd,
    SizeReader,
)
from nri.engine.streaming.channels.status import Status
from nri.engine.streaming.web.websocket import MessageSocket, Piece

__all__ = ["PROTOCOLS", "ChannelReader", "ChannelSocket", "WebSocketCommand"]

#: The protocols of remote commands over WebSockets, the best first; the last one is that of no protocol at all.
PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
CLOSE = 255


class ChannelReader:
    """Takes the channel off messages, and base64 off what follows it."""

    def __init__(self, *, base64: bool) -> None:
        self._base64 = base64
        self._channel = -1
        self._kept = b""

    def read(self, piece: Piece) -> tuple[int, bytes]:
        """The channel of a piece and its bytes; -1 as long as nothing of a message has come, or if it has none."""
        data = self._kept + piece.data
        self._kept = b""
        if piece.first:
            self._channel = -1
        if self._channel < 0 and data:
            self._channel = data[0] - (ord("0") if self._base64 else 0)
            data = data[1:]
        if self._base64:
            data = self._decoded(data, last=piece.last)
        return self._channel, data

    def _decoded(self, data: bytes, *, last: bool) -> bytes:
        whole = len(data) if last else len(data) // 4 * 4
        self._kept = data[whole:]
        try:
            return binascii.a2b_base64(data[:whole], strict_mode=True)
        except binascii.Error:
            return b""  # other servers pass over what they cannot read, too


class ChannelSocket:
    """A WebSocket whose messages have channels."""

    def __init__(self, protocol: str) -> None:
        self._base64 = "base64" in protocol
        self._reader = ChannelReader(base64=self._base64)
        self.socket = MessageSocket()

    def receive(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take bytes of the client; yields channels with bytes for them."""
        for piece in self.socket.receive(data):
            channel, found = self._reader.read(piece)
            if channel >= 0:
                yield channel, found

    def send(self, channel: int, data: bytes) -> None:
        """Send a message on a channel."""
        if self._base64:
            self.socket.send(b"%c" % (ord("0") + channel) + b64encode(data), text=True)
        else:
            self.socket.send(bytes((channel,)) + data)


class WebSocketCommand:
    """The channels of one command; `wanted` are those that the request asks for."""

    def __init__(self, protocol: str, wanted: AbstractSet[int]) -> None:
        self._json = protocol.startswith(("v4.", "v5."))
        self._closes = protocol.startswith("v5.")
        self._wanted = wanted
        self._channels = ChannelSocket(protocol)
        self._sizes = SizeReader()
        self.ready = True
        # An empty message says that the connection is made; some clients wait for it.
        self._channels.send(next((each for each in (STDOUT, STDERR) if each in wanted), ERROR), b"")

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Take bytes of the client; yields what they mean."""
        for channel, found in self._channels.receive(data):
            if self._closes and channel == CLOSE:
                if found == b"\0":
                    yield InputEnd()
            elif channel == STDIN and STDIN in self._wanted:
                if found:
                    yield Input(found)
            elif channel == RESIZE:
                yield from self._sizes.receive(found)
        if self._channels.socket.closed:
            yield ClientGone()

    def consumed(self, size: int) -> None:
        """Nothing: the socket itself has the only window."""

    def room(self, stream: int) -> int:  # noqa: ARG002 - the interface's
        """No window, no limit."""
        return 1 << 30

    def write(self, stream: int, data: bytes) -> None:
        """Send output."""
        if stream in self._wanted:
            self._channels.send(stream, data)

    def finish(self, status: Status) -> None:
        """Send the outcome, and close."""
        outcome = status.json() if self._json else status.text()
        if outcome:
            self._channels.send(ERROR, outcome)
        self._channels.socket.close()

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        return self._channels.socket.take()
