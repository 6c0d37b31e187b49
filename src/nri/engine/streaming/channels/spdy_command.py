"""Exec and attach over SPDY: one stream for each of error, stdin, stdout, stderr and resize, told by a header.

Rules: the command begins when all streams are open that the request asks for; in v4 the outcome is JSON, before it a
text that only failures have; resizing came with v3.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from nri.engine.streaming import spdy
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

__all__ = ["PROTOCOLS", "SpdyCommand"]

#: The protocols of remote commands over SPDY, the best first.
PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_RESIZABLE = PROTOCOLS[:2]
_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class SpdyCommand:
    """The streams of one command; `wanted` are those that the request asks for."""

    def __init__(self, protocol: str, wanted: AbstractSet[int]) -> None:
        self._json = protocol == PROTOCOLS[0]
        self._missing = set(wanted if protocol in _RESIZABLE else wanted - {RESIZE})
        self._wanted = wanted
        self._spdy = spdy.Connection()
        self._streams: dict[int, int] = {}
        self._types: dict[int, int] = {}
        self._sizes = SizeReader()
        self.ready = False

    def receive(self, data: bytes) -> Iterator[CommandEvent]:
        """Take bytes of the client; yields what they mean."""
        for event in self._spdy.receive(data):
            kind = self._types.get(event.stream)
            if isinstance(event, spdy.Opened):
                self._open(event)
            elif isinstance(event, spdy.Data):
                if kind == STDIN and STDIN in self._wanted:
                    yield Input(event.data)
                    continue
                self._spdy.consumed(event.stream, len(event.data))
                if kind == RESIZE:
                    yield from self._sizes.receive(event.data)
            elif kind == STDIN:
                yield InputEnd()
            elif kind == ERROR and isinstance(event, spdy.Reset):
                yield ClientGone()  # nobody is left who could read the outcome

    def _open(self, event: spdy.Opened) -> None:
        kind = _TYPES.get(event.headers.get("streamtype", ""))
        if kind is None or kind in self._streams:
            self._spdy.reset(event.stream, spdy.PROTOCOL_ERROR)
            return
        self._streams[kind], self._types[event.stream] = event.stream, kind
        self._spdy.reply(event.stream)
        self._missing.discard(kind)
        self.ready = not self._missing

    def consumed(self, size: int) -> None:
        """So many bytes of input are done with."""
        self._spdy.consumed(self._streams.get(STDIN, 0), size)

    def room(self, stream: int) -> int:
        """The number of bytes that may be sent; what goes to no client is always taken."""
        found = self._streams.get(stream, 0)
        return self._spdy.room(found) if self._spdy.is_open(found) else 1 << 30

    def write(self, stream: int, data: bytes) -> None:
        """Send output."""
        if stream in self._wanted:
            self._spdy.send(self._streams.get(stream, 0), data)

    def finish(self, status: Status) -> None:
        """Send the outcome on the stream for errors, and end all; clients of the first protocol may not wait for it."""
        self._spdy.send(self._streams.get(ERROR, 0), status.json() if self._json else status.text(), end=True)
        for kind in (STDOUT, STDERR, STDIN, RESIZE):
            self._spdy.send(self._streams.get(kind, 0), b"", end=True)
        self._spdy.go_away()

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        return self._spdy.take()
