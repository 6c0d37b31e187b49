"""The state of a SPDY/3.1 connection, for a client or a server. The caller owns the socket.

Only the client opens streams. Peers written with Go's moby/spdystream have no flow control: they ignore windows and
never enlarge them. So a window limits sending only after the peer has sent SETTINGS or WINDOW_UPDATE. Received bytes
are always reported as consumed, because other peers need the report.

Source: the SPDY/3.1 draft, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import Control, FrameReader, Payload, control, data_frame
from nri.engine.streaming.spdy.headers import HeaderPacker, HeaderReader
from nri.errors import RemoteProtocolError

#: The maximum number of open streams. A forwarded connection has two streams.
MAX_STREAMS: Final = 1000
_NO_WINDOW: Final = 1 << 30
_WINDOW_LIMIT: Final = 1 << 31
_INITIAL_WINDOW_SETTING: Final = 7


class StreamOpened(NamedTuple):
    """The client has opened a stream. The caller answers with `Connection.reply` or `Connection.reset`."""

    stream: int
    headers: Mapping[str, str]


class Data(NamedTuple):
    """Bytes of a stream. The caller reports them with `Connection.consumed` after processing."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The client has ended its direction of a stream."""

    stream: int


class Reset(NamedTuple):
    """The client has closed a stream in both directions."""

    stream: int


Event = StreamOpened | Data | StreamEnded | Reset


class _Stream:
    """A stream: its open directions, its send window, and the number of consumed bytes without a report."""

    __slots__ = ("consumed", "receives", "sends", "window")

    def __init__(self, window: int, *, sends: bool) -> None:
        self.receives, self.sends = True, sends
        self.window, self.consumed = window, 0


class Connection:
    """A connection with its streams.

    Attributes:
        gone_away: whether the client has announced that it will not open more streams.
    """

    def __init__(self, *, client: bool = False) -> None:
        """Start as a client, which opens streams, or as a server."""
        self.gone_away = False
        self._peers = 0 if client else 1
        self._reader, self._headers, self._packer = FrameReader(), HeaderReader(), HeaderPacker()
        self._output = bytearray()
        self._streams: dict[int, _Stream] = {}
        self._last_stream = self._consumed_bytes = 0
        self._windows = False
        self._initial = self._window = frames.WINDOW
        self._steps: dict[int, Callable[[Control], Iterator[Event]]] = {
            frames.SYN_STREAM: self._open_stream,
            frames.RST_STREAM: self._reset,
            frames.SETTINGS: self._settings,
            frames.PING: self._ping,
            frames.GOAWAY: self._goaway,
            frames.HEADERS: self._more_headers,
            frames.SYN_REPLY: self._more_headers,
            frames.WINDOW_UPDATE: self._opened_window,
        }

    def receive(self, data: bytes) -> Iterator[Event]:
        """Read bytes of the peer and yield events. Raises RemoteProtocolError, which ends the connection."""
        for frame in self._reader.receive(data):
            if isinstance(frame, Payload):
                yield from self._data(frame)
            elif step := self._steps.get(frame.kind):  # unknown kinds are ignored
                yield from step(frame)

    def take(self) -> bytes:
        """Return the bytes to send, and forget them."""
        data = bytes(self._output)
        self._output.clear()
        return data

    # --- sending ---

    def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream as a client and return its id. The reply of the server is ignored."""
        self._last_stream = stream = self._last_stream + 2 if self._last_stream else 1
        self._streams[stream] = _Stream(self._initial, sends=True)
        self._output += control(frames.SYN_STREAM, stream, 0, tail=bytes(2) + self._packer.pack(headers))
        return stream

    def reply(self, stream: int) -> None:
        """Accept a stream."""
        if stream in self._streams:
            self._output += control(frames.SYN_REPLY, stream, tail=self._packer.pack({}))

    def send_window(self, stream: int) -> int:
        """The number of bytes that a stream may send now: 0 if the stream is closed."""
        state = self._streams.get(stream)
        if state is None or not state.sends:
            return 0
        return max(0, min(state.window, self._window)) if self._windows else _NO_WINDOW

    def is_open(self, stream: int) -> bool:
        """Whether a stream can still send."""
        return stream in self._streams and self._streams[stream].sends

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes on a stream, and end it if `end` is true. No effect on a closed stream."""
        state = self._streams.get(stream)
        if state is None or not state.sends or not (data or end):
            return
        state.window -= len(data)
        self._window -= len(data)
        self._output += data_frame(stream, data, fin=end)
        if end:
            state.sends = False
            self._forget_stream(stream)

    def consumed(self, stream: int, size: int) -> None:
        """Report to the peer that bytes of :class:`Data` are processed, so that the window grows again."""
        self._consumed_bytes += size
        if self._consumed_bytes >= frames.WINDOW // 2:
            self._output += control(frames.WINDOW_UPDATE, 0, self._consumed_bytes)
            self._consumed_bytes = 0
        state = self._streams.get(stream)
        if state is None or not state.receives:
            return
        state.consumed += size
        if state.consumed >= frames.WINDOW // 2:
            self._output += control(frames.WINDOW_UPDATE, stream, state.consumed)
            state.consumed = 0

    def reset(self, stream: int, status: int = frames.CANCEL) -> None:
        """Close a stream in both directions."""
        if self._streams.pop(stream, None) is not None:
            self._output += control(frames.RST_STREAM, stream, status)

    def go_away(self) -> None:
        """Announce to the peer that new streams are refused."""
        self._output += control(frames.GOAWAY, self._last_stream, 0)

    # --- receiving ---

    def _data(self, piece: Payload) -> Iterator[Event]:
        state = self._streams.get(piece.stream)
        if state is None or not state.receives:
            if not 0 < piece.stream <= self._last_stream:
                raise RemoteProtocolError(f"SPDY data on stream {piece.stream}, which was not opened")
            self.consumed(0, len(piece.data))  # this side has reset the stream meanwhile
            return
        if piece.data:
            yield Data(piece.stream, piece.data)
        if piece.fin:
            yield from self._end_receiving(piece.stream)

    def _end_receiving(self, stream: int) -> Iterator[Event]:
        state = self._streams.get(stream)
        if state is not None and state.receives:
            state.receives = False
            yield StreamEnded(stream)
            self._forget_stream(stream)

    def _forget_stream(self, stream: int) -> None:
        state = self._streams.get(stream)
        if state is not None and not (state.sends or state.receives):
            del self._streams[stream]

    def _open_stream(self, frame: Control) -> Iterator[Event]:
        stream, headers = frame.stream(), self._headers.read(frame.payload[10:])
        if not self._peers or not stream & 1 or stream <= self._last_stream:
            raise RemoteProtocolError(f"SPDY stream {stream} is opened after {self._last_stream}")
        self._last_stream = stream
        if self.gone_away or len(self._streams) >= MAX_STREAMS:
            self._output += control(frames.RST_STREAM, stream, frames.REFUSED_STREAM)
            return
        self._streams[stream] = _Stream(self._initial, sends=not frame.flags & frames.UNIDIRECTIONAL)
        yield StreamOpened(stream, headers)
        if frame.flags & frames.FIN:
            yield from self._end_receiving(stream)

    def _more_headers(self, frame: Control) -> Iterator[Event]:
        """Decompress headers without using them, because all blocks share one state of compression."""
        self._headers.read(frame.payload[4:])
        if frame.flags & frames.FIN:
            yield from self._end_receiving(frame.stream())

    def _reset(self, frame: Control) -> Iterator[Event]:
        if self._streams.pop(frame.stream(), None) is not None:
            yield Reset(frame.stream())

    def _ping(self, frame: Control) -> Iterator[Event]:
        if frame.number(0) & 1 == self._peers:  # otherwise it is an answer to a ping of this side
            self._output += control(frames.PING, frame.number(0))
        yield from ()

    def _goaway(self, _: Control) -> Iterator[Event]:
        self.gone_away = True
        yield from ()

    def _settings(self, frame: Control) -> Iterator[Event]:
        count = frame.number(0)
        if len(frame.payload) != 4 + 8 * count:
            raise RemoteProtocolError(f"SPDY settings: {count} in {len(frame.payload)} bytes")
        for offset in range(4, len(frame.payload), 8):
            if frame.number(offset) & 0xFFFFFF == _INITIAL_WINDOW_SETTING:
                change = min(frame.number(offset + 4), _WINDOW_LIMIT - 1) - self._initial
                self._initial += change
                self._windows = True
                for state in self._streams.values():
                    state.window += change
        yield from ()

    def _opened_window(self, frame: Control) -> Iterator[Event]:
        stream, more = frame.stream(), frame.number(4) & ~_WINDOW_LIMIT
        self._windows = True
        if stream == 0:
            self._window = min(self._window + more, _WINDOW_LIMIT)
        elif state := self._streams.get(stream):
            state.window = min(state.window + more, _WINDOW_LIMIT)
        yield from ()
