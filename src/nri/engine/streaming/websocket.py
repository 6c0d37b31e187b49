"""WebSockets after the handshake, and the protocols of Kubernetes over WebSockets. The caller owns the socket.

The library wsproto parses frames. A long message is returned in parts. The first byte of a message is its channel. In
the base64 protocols a message is text, and its channel is a digit.

- Commands: channels 0, 1 and 2 are the standard streams, channel 3 is the outcome, channel 4 is the size of the
  terminal. In v5 a message on channel 255 ends the channel that is its second byte.
- Port forwarding: channel 2n has the bytes of port n, and channel 2n+1 has its error. The first message of each channel
  is the port number: two bytes, little-endian. Each port has one connection. Both its directions end together.

Sources: RFC 6455; Kubernetes's ``v4.channel.k8s.io``.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from nri.engine.streaming.channels import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    ClientGone,
    CommandEvent,
    ForwardEvent,
    Input,
    InputEnd,
    PortData,
    PortOpened,
    SizeReader,
    Status,
)


class Piece(NamedTuple):
    """A part of a message. `first` and `last` are true for the first and the last part."""

    data: bytes
    first: bool
    last: bool


class MessageSocket:
    """A WebSocket connection. `closed` becomes true when one side closes the WebSocket."""

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.SERVER)
        self._output = bytearray()
        self._inside = False
        self.closed = False

    def receive(self, data: bytes) -> Iterator[Piece]:
        """Read bytes of the client and yield parts of messages, text as UTF-8."""
        if self.closed:
            return
        self._connection.receive_data(data)
        for event in self._connection.events():
            if isinstance(event, Ping):
                self._output += self._connection.send(event.response())
            elif isinstance(event, CloseConnection):  # wsproto also returns it after a violation of the protocol
                self.closed = True
                if self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                    self._output += self._connection.send(event.response())
                return
            elif isinstance(event, BytesMessage | TextMessage):
                yield self._data_piece(event)

    def _data_piece(self, event: BytesMessage | TextMessage) -> Piece:
        data = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
        piece = Piece(data, not self._inside, event.message_finished)
        self._inside = not event.message_finished
        return piece

    def send(self, data: bytes, *, text: bool = False) -> None:
        """Send a message. No effect if the WebSocket is closed."""
        if not self.closed:
            message = TextMessage(data=data.decode("ascii")) if text else BytesMessage(data=data)
            self._output += self._connection.send(message)

    def close(self) -> None:
        """Close the connection normally."""
        if not self.closed:
            self.closed = True
            self._output += self._connection.send(CloseConnection(code=1000))

    def take(self) -> bytes:
        """Return the bytes to send, and forget them."""
        data = bytes(self._output)
        self._output.clear()
        return data


#: The protocols of remote commands over WebSockets, in order of preference. "" is for requests without a protocol.
COMMAND_PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
CLOSE = 255


class ChannelReader:
    """A parser of messages into channel and content. It decodes base64 if the protocol uses base64."""

    def __init__(self, *, base64: bool) -> None:
        self._base64 = base64
        self._channel = -1
        self._pending = b""

    def read(self, piece: Piece) -> tuple[int, bytes]:
        """Return the channel and the content of a part. The channel is -1 until the first byte has arrived."""
        data = self._pending + piece.data
        self._pending = b""
        if piece.first:
            self._channel = -1
        if self._channel < 0 and data:
            self._channel = data[0] - (ord("0") if self._base64 else 0)
            data = data[1:]
        if self._base64:
            data = self._decode(data, last=piece.last)
        return self._channel, data

    def _decode(self, data: bytes, *, last: bool) -> bytes:
        end = len(data) if last else len(data) // 4 * 4
        self._pending = data[end:]
        try:
            return binascii.a2b_base64(data[:end], strict_mode=True)
        except binascii.Error:
            return b""  # containerd and CRI-O ignore invalid base64, too


class ChannelSocket:
    """A WebSocket whose messages have channels."""

    def __init__(self, protocol: str) -> None:
        self._base64 = "base64" in protocol
        self._reader = ChannelReader(base64=self._base64)
        self.socket = MessageSocket()

    def receive(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Read bytes of the client and yield pairs of channel and content."""
        for piece in self.socket.receive(data):
            channel, content = self._reader.read(piece)
            if channel >= 0:
                yield channel, content

    def send(self, channel: int, data: bytes) -> None:
        """Send a message on a channel."""
        if self._base64:
            self.socket.send(b"%c" % (ord("0") + channel) + b64encode(data), text=True)
        else:
            self.socket.send(bytes((channel,)) + data)


class WebSocketCommand:
    """A remote command over a WebSocket. `requested` has the streams that the CRI request names."""

    def __init__(self, protocol: str, requested: AbstractSet[int]) -> None:
        self._json = protocol.startswith(("v4.", "v5."))
        self._supports_close = protocol.startswith("v5.")
        self._requested = requested
        self._channels = ChannelSocket(protocol)
        self._sizes = SizeReader()
        self.ready = True
        # Some clients wait for a first message before they send.
        self._channels.send(next((stream for stream in (STDOUT, STDERR) if stream in requested), ERROR), b"")

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Read bytes of the client and yield events."""
        for channel, content in self._channels.receive(data):
            if self._supports_close and channel == CLOSE:
                if content == b"\0":
                    yield InputEnd()
            elif channel == STDIN and STDIN in self._requested:
                if content:
                    yield Input(content)
            elif channel == RESIZE:
                yield from self._sizes.receive(content)
        if self._channels.socket.closed:
            yield ClientGone()

    def consumed(self, size: int) -> None:
        """Do nothing, because a WebSocket has no window."""

    def send_window(self, stream: int) -> int:  # noqa: ARG002 - the interface's
        """A large number, because a WebSocket has no window."""
        return 1 << 30

    def write(self, stream: int, data: bytes) -> None:
        """Send output."""
        if stream in self._requested:
            self._channels.send(stream, data)

    def finish(self, status: Status) -> None:
        """Send the outcome, then close the WebSocket."""
        outcome = status.json() if self._json else status.text()
        if outcome:
            self._channels.send(ERROR, outcome)
        self._channels.socket.close()

    def take(self) -> bytes:
        """Return the bytes to send, and forget them."""
        return self._channels.socket.take()


#: The protocols of port forwarding, in order of preference. "" is for requests without a protocol.
FORWARD_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
#: The maximum number of ports in one request, because a channel is one byte, or one character.
MAX_PORTS = 32


class WebSocketForward:
    """Port forwarding over a WebSocket."""

    halves = False

    def __init__(self, protocol: str, ports: Sequence[int]) -> None:
        self._channels = ChannelSocket(protocol)
        self._open = {str(number): 2 * number for number in range(len(ports))}
        self._unopened = [PortOpened(str(number), port) for number, port in enumerate(ports)]
        for number, port in enumerate(ports):
            for channel in (2 * number, 2 * number + 1):
                self._channels.send(channel, port.to_bytes(2, "little"))

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Read bytes of the client and yield events. The first call also yields the opened connections."""
        while self._unopened:
            yield self._unopened.pop(0)
        for channel, content in self._channels.receive(data):
            if content and not channel & 1 and str(channel // 2) in self._open:
                yield PortData(str(channel // 2), content)
        if self._channels.socket.closed:
            yield ClientGone()

    def consumed(self, key: str, size: int) -> None:
        """Do nothing, because a WebSocket has no window."""

    def send_window(self, key: str) -> int:
        """A large number for an open connection, because a WebSocket has no window."""
        return 1 << 30 if key in self._open else 0

    def send(self, key: str, data: bytes) -> None:
        """Send bytes of the port to the client."""
        if key in self._open:
            self._channels.send(self._open[key], data)

    def end(self, key: str) -> None:
        """Do nothing, because a channel has no end."""

    def close(self, key: str, error: str = "") -> None:
        """Close a connection and send its error, if there is one."""
        channel = self._open.pop(key, None)
        if channel is not None and error:
            self._channels.send(channel + 1, error.encode(errors="replace"))

    def expire(self, now: float) -> None:
        """Do nothing, because connections are always opened completely."""

    @property
    def over(self) -> bool:
        """Whether all connections are closed."""
        return not self._open

    def finish(self) -> None:
        """Close the WebSocket."""
        self._channels.socket.close()

    def take(self) -> bytes:
        """Return the bytes to send, and forget them."""
        return self._channels.socket.take()
