"""Kubernetes's protocols over SPDY: the streams of a command, and of port forwarding.

A command has one stream for each of error, stdin, stdout, stderr and resize, named by a header; it starts when all
requested streams are open. In v4 the outcome is JSON, in older protocols text, for failures only; v3 added resizing.

Port forwarding has two streams for each connection, one for its bytes and one for its error. The two have the same
``requestid`` or, from old clients, consecutive ids; a connection starts when both exist, within 30 seconds. The error
stream ends with the connection, and carries a text if it fails. Newer clients tunnel the same bytes in a WebSocket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from nri.engine.streaming import spdy
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
    PortClosed,
    PortData,
    PortHalfClosed,
    PortOpened,
    SizeReader,
    Status,
)
from nri.engine.streaming.websocket import MessageSocket

#: The protocols of remote commands over SPDY, the preferred first.
COMMAND_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_RESIZABLE = COMMAND_PROTOCOLS[:2]
_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class SpdyCommand:
    """The streams of one command; `requested` are those of the CRI request."""

    def __init__(self, protocol: str, requested: AbstractSet[int]) -> None:
        self._json = protocol == COMMAND_PROTOCOLS[0]
        self._missing = set(requested if protocol in _RESIZABLE else requested - {RESIZE})
        self._requested = requested
        self._spdy = spdy.Connection()
        self._streams: dict[int, int] = {}
        self._types: dict[int, int] = {}
        self._sizes = SizeReader()
        self.ready = False

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Receive bytes of the client, and yield events."""
        for event in self._spdy.receive(data):
            kind = self._types.get(event.stream)
            if isinstance(event, spdy.StreamOpened):
                self._open(event)
            elif isinstance(event, spdy.Data):
                if kind == STDIN and STDIN in self._requested:
                    yield Input(event.data)
                    continue
                self._spdy.consumed(event.stream, len(event.data))
                if kind == RESIZE:
                    yield from self._sizes.receive(event.data)
            elif kind == STDIN:
                yield InputEnd()
            elif kind == ERROR and isinstance(event, spdy.Reset):
                yield ClientGone()  # the client can no longer read the outcome

    def _open(self, event: spdy.StreamOpened) -> None:
        kind = _TYPES.get(event.headers.get("streamtype", ""))
        if kind is None or kind in self._streams:
            self._spdy.reset(event.stream, spdy.PROTOCOL_ERROR)
            return
        self._streams[kind], self._types[event.stream] = event.stream, kind
        self._spdy.reply(event.stream)
        self._missing.discard(kind)
        self.ready = not self._missing

    def consumed(self, size: int) -> None:
        """Report that the program has taken `size` bytes of input."""
        self._spdy.consumed(self._streams.get(STDIN, 0), size)

    def send_window(self, stream: int) -> int:
        """The number of bytes that may be sent; unlimited if the client does not want the stream."""
        number = self._streams.get(stream, 0)
        return self._spdy.send_window(number) if self._spdy.is_open(number) else 1 << 30

    def write(self, stream: int, data: bytes) -> None:
        """Send output."""
        if stream in self._requested:
            self._spdy.send(self._streams.get(stream, 0), data)

    def finish(self, status: Status) -> None:
        """Send the outcome on the error stream, and end all streams. Very old clients do not wait for the outcome."""
        self._spdy.send(self._streams.get(ERROR, 0), status.json() if self._json else status.text(), end=True)
        for kind in (STDOUT, STDERR, STDIN, RESIZE):
            self._spdy.send(self._streams.get(kind, 0), b"", end=True)
        self._spdy.go_away()

    def take(self) -> bytes:
        """Take out the bytes to send."""
        return self._spdy.take()


FORWARD_PROTOCOL = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{FORWARD_PROTOCOL}"
#: How long a connection may be without its second stream.
CREATION_S = 30.0
#: The maximum number of connections of one client at the same time.
MAX_PAIRS = 500
_MAX_TEXT_LENGTH = 16384
_MAX_KEY_LENGTH = 128


@dataclass(slots=True)
class _Pair:
    """The ids of a connection's two streams, 0 for a missing stream, and since when a stream is missing."""

    port: int
    data: int = 0
    error: int = 0
    began: float | None = None


class SpdyForward:
    """The connections of one port forwarding."""

    halves = True

    def __init__(self) -> None:
        self._spdy = spdy.Connection()
        self._pairs: dict[str, _Pair] = {}
        self._keys: dict[int, str] = {}

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Receive bytes of the client, and yield events."""
        for event in self._spdy.receive(data):
            if isinstance(event, spdy.StreamOpened):
                yield from self._open(event)
                continue
            key = self._keys.get(event.stream, "")
            pair = self._pairs.get(key)
            if pair is not None and isinstance(event, spdy.Reset):
                yield PortClosed(key)
            elif pair is None or event.stream != pair.data:
                if isinstance(event, spdy.Data):
                    self._spdy.consumed(event.stream, len(event.data))
            else:
                yield PortData(key, event.data) if isinstance(event, spdy.Data) else PortHalfClosed(key)

    def _open(self, event: spdy.StreamOpened) -> Iterator[ForwardEvent]:
        port, kind = _port(event.headers), event.headers.get("streamtype")
        key = event.headers.get("requestid") or f"stream {event.stream - (2 if kind == 'data' else 0)}"
        if not port or kind not in ("data", "error") or len(key) > _MAX_KEY_LENGTH:
            self._spdy.reset(event.stream, spdy.PROTOCOL_ERROR)
            return
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            self._spdy.reset(event.stream, spdy.REFUSED_STREAM)
            return
        pair = self._pairs.setdefault(key, _Pair(port))
        if getattr(pair, kind):
            self._spdy.reset(event.stream, spdy.PROTOCOL_ERROR)
            return
        setattr(pair, kind, event.stream)
        self._keys[event.stream] = key
        self._spdy.reply(event.stream)
        if pair.data and pair.error:
            yield PortOpened(key, _port(event.headers) if kind == "data" else pair.port)
        elif kind == "data":
            pair.port = port

    def consumed(self, key: str, size: int) -> None:
        """Report that a port has taken `size` bytes of a connection."""
        self._spdy.consumed(self._pairs[key].data if key in self._pairs else 0, size)

    def send_window(self, key: str) -> int:
        """The number of bytes that may be sent on a connection now."""
        return self._spdy.send_window(self._pairs[key].data) if key in self._pairs else 0

    def send(self, key: str, data: bytes) -> None:
        """Send bytes from the port."""
        if pair := self._pairs.get(key):
            self._spdy.send(pair.data, data)

    def end(self, key: str) -> None:
        """Report that the port sends no more."""
        if pair := self._pairs.get(key):
            self._spdy.send(pair.data, b"", end=True)

    def close(self, key: str, error: str = "") -> None:
        """Close a connection, after sending the error on its error stream."""
        pair = self._pairs.pop(key, None)
        if pair is None:
            return
        self._keys.pop(pair.data, None)
        self._keys.pop(pair.error, None)
        self._spdy.send(pair.error, error[:_MAX_TEXT_LENGTH].encode(errors="replace"), end=True)
        if error:
            self._spdy.reset(pair.data, spdy.INTERNAL_ERROR)
        else:
            self._spdy.send(pair.data, b"", end=True)

    def expire(self, now: float) -> None:
        """Close the connections whose second stream was not opened in time."""
        for key, pair in [*self._pairs.items()]:
            if pair.data and pair.error:
                continue
            pair.began = now if pair.began is None else pair.began
            if now - pair.began > CREATION_S:
                self.close(key, "the second stream of the connection was not opened in time")

    @property
    def over(self) -> bool:
        """Whether all connections are closed, and the client will open no more streams."""
        return self._spdy.gone_away and not self._pairs

    def finish(self) -> None:
        """Announce that no more streams are accepted."""
        self._spdy.go_away()

    def take(self) -> bytes:
        """Take out the bytes to send."""
        return self._spdy.take()


def _port(headers: Mapping[str, str]) -> int:
    """Return the port of a stream, or 0 if it is invalid."""
    text = headers.get("port", "")
    port = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return port if port < 65536 else 0


class TunnelForward(SpdyForward):
    """Port forwarding by SPDY inside the messages of a WebSocket, which may split it anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = MessageSocket()

    def receive(self, data: bytes) -> Iterator[ForwardEvent]:
        """Receive bytes of the client, and yield events."""
        for piece in self._socket.receive(data):
            yield from super().receive(piece.data)
        if self._socket.closed:
            yield ClientGone()

    def finish(self) -> None:
        """Announce that no more streams are accepted, and close the WebSocket."""
        super().finish()
        self._forward()
        self._socket.close()

    def take(self) -> bytes:
        """Take out the bytes to send."""
        self._forward()
        return self._socket.take()

    def _forward(self) -> None:
        if data := super().take():
            self._socket.send(data)
