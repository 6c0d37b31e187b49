"""One side of a SPDY/3.1 connection without its socket: bytes in, events out, bytes to send kept.

Streams are opened by the client alone, and only so many at a time (below, "the client" is the peer; a client's
own side has `open` besides); pings are answered here; a stream is gone
when both sides have ended it or either has reset it. Go's peers (moby/spdystream) know no windows: they neither keep
to ours nor ever open theirs. So sending is not held to a window until the peer shows, by SETTINGS or WINDOW_UPDATE,
that it has them; what came in is reported as consumed in any case, which the others pass over.
Source: the SPDY/3.1 draft, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import Control, FrameReader, Payload, control, data_frame
from nri.engine.streaming.spdy.headers import HeaderPacker, HeaderReader
from nri.errors import RemoteProtocolError

#: How many streams may be open at a time; a forwarded connection has two.
STREAM_LIMIT: Final = 1000
_NO_WINDOW: Final = 1 << 30
_WINDOW_LIMIT: Final = 1 << 31
_INITIAL_WINDOW_SETTING: Final = 7


class Opened(NamedTuple):
    """The client has opened a stream; it waits for `Connection.reply` or `Connection.reset`."""

    stream: int
    headers: Mapping[str, str]


class Data(NamedTuple):
    """Bytes on a stream; `Connection.consumed` is called when they are done with."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """The client sends no more on a stream."""

    stream: int


class Reset(NamedTuple):
    """The client has let go of a stream, both ways."""

    stream: int


Event = Opened | Data | Ended | Reset


class _Stream:
    """One stream: which halves are open, what may be sent, and what was consumed and not told yet."""

    __slots__ = ("consumed", "receives", "sends", "window")

    def __init__(self, window: int, *, sends: bool) -> None:
        self.receives, self.sends = True, sends
        self.window, self.consumed = window, 0


class Connection:
    """The state of one connection.

    Args:
        client: it is the side that opens streams.

    Attributes:
        gone_away: the client opens no more streams.
    """

    def __init__(self, *, client: bool = False) -> None:
        self.gone_away = False
        self._peers = 0 if client else 1
        self._reader, self._headers, self._packer = FrameReader(), HeaderReader(), HeaderPacker()
        self._out = bytearray()
        self._streams: dict[int, _Stream] = {}
        self._last = self._consumed = 0
        self._windows = False
        self._initial = self._window = frames.WINDOW
        self._steps: dict[int, Callable[[Control], Iterator[Event]]] = {
            frames.SYN_STREAM: self._opened,
            frames.RST_STREAM: self._reset,
            frames.SETTINGS: self._settings,
            frames.PING: self._ping,
            frames.GOAWAY: self._goaway,
            frames.HEADERS: self._more_headers,
            frames.SYN_REPLY: self._more_headers,
            frames.WINDOW_UPDATE: self._opened_window,
        }

    def receive(self, data: bytes) -> Iterator[Event]:
        """Take bytes of the client; yields what happened. Raises RemoteProtocolError, then it is over."""
        for frame in self._reader.receive(data):
            if isinstance(frame, Payload):
                yield from self._data(frame)
            elif step := self._steps.get(frame.kind):  # kinds that are not known are passed over
                yield from step(frame)

    def take(self) -> bytes:
        """Take out the bytes that are to be sent."""
        data = bytes(self._out)
        self._out.clear()
        return data

    # --- what the server does --------------------------------------------------------------------------------------

    def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream, as a client; its number. The server's answer to it is passed over."""
        self._last = stream = self._last + 2 if self._last else 1
        self._streams[stream] = _Stream(self._initial, sends=True)
        self._out += control(frames.SYN_STREAM, stream, 0, rest=bytes(2) + self._packer.pack(headers))
        return stream

    def reply(self, stream: int) -> None:
        """Accept a stream."""
        if stream in self._streams:
            self._out += control(frames.SYN_REPLY, stream, rest=self._packer.pack({}))

    def room(self, stream: int) -> int:
        """The number of bytes that may be sent on a stream now; 0 also if it is gone."""
        found = self._streams.get(stream)
        if found is None or not found.sends:
            return 0
        return max(0, min(found.window, self._window)) if self._windows else _NO_WINDOW

    def is_open(self, stream: int) -> bool:
        """Whether something can still be sent on a stream."""
        return stream in self._streams and self._streams[stream].sends

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes on a stream, or its end, or both; on one that is gone nothing happens."""
        found = self._streams.get(stream)
        if found is None or not found.sends or not (data or end):
            return
        found.window -= len(data)
        self._window -= len(data)
        self._out += data_frame(stream, data, fin=end)
        if end:
            found.sends = False
            self._forget(stream)

    def consumed(self, stream: int, size: int) -> None:
        """Say that bytes of :class:`Data` are done with, so that the client may send as many more."""
        self._consumed += size
        if self._consumed >= frames.WINDOW // 2:
            self._out += control(frames.WINDOW_UPDATE, 0, self._consumed)
            self._consumed = 0
        found = self._streams.get(stream)
        if found is None or not found.receives:
            return
        found.consumed += size
        if found.consumed >= frames.WINDOW // 2:
            self._out += control(frames.WINDOW_UPDATE, stream, found.consumed)
            found.consumed = 0

    def reset(self, stream: int, status: int = frames.CANCEL) -> None:
        """Let go of a stream, both ways."""
        if self._streams.pop(stream, None) is not None:
            self._out += control(frames.RST_STREAM, stream, status)

    def go_away(self) -> None:
        """Say that no more streams are taken."""
        self._out += control(frames.GOAWAY, self._last, 0)

    # --- what the client does --------------------------------------------------------------------------------------

    def _data(self, piece: Payload) -> Iterator[Event]:
        found = self._streams.get(piece.stream)
        if found is None or not found.receives:
            if not 0 < piece.stream <= self._last:
                raise RemoteProtocolError(f"SPDY data on stream {piece.stream}, which was never opened")
            self.consumed(0, len(piece.data))  # of one that we have reset meanwhile
            return
        if piece.data:
            yield Data(piece.stream, piece.data)
        if piece.fin:
            yield from self._end(piece.stream)

    def _end(self, stream: int) -> Iterator[Event]:
        found = self._streams.get(stream)
        if found is not None and found.receives:
            found.receives = False
            yield Ended(stream)
            self._forget(stream)

    def _forget(self, stream: int) -> None:
        found = self._streams.get(stream)
        if found is not None and not (found.sends or found.receives):
            del self._streams[stream]

    def _opened(self, frame: Control) -> Iterator[Event]:
        stream, headers = frame.stream(), self._headers.read(frame.payload[10:])
        if not self._peers or not stream & 1 or stream <= self._last:
            raise RemoteProtocolError(f"SPDY stream {stream} is opened after {self._last}")
        self._last = stream
        if self.gone_away or len(self._streams) >= STREAM_LIMIT:
            self._out += control(frames.RST_STREAM, stream, frames.REFUSED_STREAM)
            return
        self._streams[stream] = _Stream(self._initial, sends=not frame.flags & frames.UNIDIRECTIONAL)
        yield Opened(stream, headers)
        if frame.flags & frames.FIN:
            yield from self._end(stream)

    def _more_headers(self, frame: Control) -> Iterator[Event]:
        """Nothing that Kubernetes uses; but each block is part of the compression."""
        self._headers.read(frame.payload[4:])
        if frame.flags & frames.FIN:
            yield from self._end(frame.stream())

    def _reset(self, frame: Control) -> Iterator[Event]:
        if self._streams.pop(frame.stream(), None) is not None:
            yield Reset(frame.stream())

    def _ping(self, frame: Control) -> Iterator[Event]:
        if frame.number(0) & 1 == self._peers:  # another one would answer one of ours
            self._out += control(frames.PING, frame.number(0))
        yield from ()

    def _goaway(self, _: Control) -> Iterator[Event]:
        self.gone_away = True
        yield from ()

    def _settings(self, frame: Control) -> Iterator[Event]:
        count = frame.number(0)
        if len(frame.payload) != 4 + 8 * count:
            raise RemoteProtocolError(f"SPDY settings: {count} in {len(frame.payload)} bytes")
        for at in range(4, len(frame.payload), 8):
            if frame.number(at) & 0xFFFFFF == _INITIAL_WINDOW_SETTING:
                change = min(frame.number(at + 4), _WINDOW_LIMIT - 1) - self._initial
                self._initial += change
                self._windows = True
                for each in self._streams.values():
                    each.window += change
        yield from ()

    def _opened_window(self, frame: Control) -> Iterator[Event]:
        stream, more = frame.stream(), frame.number(4) & ~_WINDOW_LIMIT
        self._windows = True
        if stream == 0:
            self._window = min(self._window + more, _WINDOW_LIMIT)
        elif found := self._streams.get(stream):
            found.window = min(found.window + more, _WINDOW_LIMIT)
        yield from ()
