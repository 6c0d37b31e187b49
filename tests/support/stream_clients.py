"""Clients of the engine's streams: SPDY by our own codec turned round, WebSockets by wsproto's client side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import Control, FrameReader, Payload, control, data_frame
from nri.engine.streaming.spdy.headers import HeaderPacker, HeaderReader


class SpdyClient:
    """Makes a client's bytes, and reads the server's.

    Attributes:
        replied: streams that the server has accepted.
        reset: streams that it has reset, with the reason.
        data: what it sent, by stream.
        ended: streams whose half it has ended.
        others: its other frames.
    """

    def __init__(self) -> None:
        self._packer, self._reader, self._frames = HeaderPacker(), HeaderReader(), FrameReader()
        self._last = -1
        self.replied: list[int] = []
        self.reset: dict[int, int] = {}
        self.data: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.others: list[Control] = []

    def open(self, headers: Mapping[str, str], *, flags: int = 0, stream: int = 0) -> tuple[int, bytes]:
        """The next stream, and the bytes that open it."""
        self._last = stream or self._last + 2
        block = bytes(2) + self._packer.pack(headers)
        return self._last, control(frames.SYN_STREAM, self._last, 0, tail=block, flags=flags)

    def more(self, stream: int, headers: Mapping[str, str], *, flags: int = 0) -> bytes:
        """More headers of a stream, which is open."""
        return control(frames.HEADERS, stream, tail=self._packer.pack(headers), flags=flags)

    @staticmethod
    def send(stream: int, data: bytes, *, end: bool = False) -> bytes:
        return data_frame(stream, data, fin=end)

    @staticmethod
    def let_go(stream: int) -> bytes:
        return control(frames.RST_STREAM, stream, frames.CANCEL)

    def read(self, data: bytes) -> None:
        """Take what the server sent."""
        for frame in self._frames.receive(data):
            if isinstance(frame, Payload):
                if frame.data:
                    self.data.setdefault(frame.stream, bytearray()).extend(frame.data)
                if frame.fin:
                    self.ended.add(frame.stream)
            elif frame.kind == frames.SYN_REPLY:
                assert self._reader.read(frame.payload[4:]) == {}
                self.replied.append(frame.stream())
            elif frame.kind == frames.RST_STREAM:
                self.reset[frame.stream()] = frame.number(4)
            else:
                self.others.append(frame)


class WebSocketClient:
    """Makes a client's bytes, and reads the server's.

    Attributes:
        closed: the code of the server's end, or None.
    """

    def __init__(self) -> None:
        self._connection = Connection(ConnectionType.CLIENT)
        self.closed: int | None = None
        self.pongs: list[bytes] = []

    def send(self, data: bytes | str, *, last: bool = True) -> bytes:
        if isinstance(data, str):
            return self._connection.send(TextMessage(data=data, message_finished=last))
        return self._connection.send(BytesMessage(data=data, message_finished=last))

    def ping(self, data: bytes) -> bytes:
        return self._connection.send(Ping(payload=data))

    def close(self) -> bytes:
        return self._connection.send(CloseConnection(code=1000))

    def read(self, data: bytes) -> list[bytes]:
        """Take what the server sent: whole messages, texts as bytes."""
        return [*self._read(data)]

    def _read(self, data: bytes) -> Iterator[bytes]:
        self._connection.receive_data(data)
        saved = b""
        for event in self._connection.events():
            if isinstance(event, BytesMessage | TextMessage):
                saved += event.data.encode() if isinstance(event.data, str) else event.data
                if event.message_finished:
                    yield saved
                    saved = b""
            elif isinstance(event, Pong):
                self.pongs.append(bytes(event.payload))
            elif isinstance(event, CloseConnection):
                self.closed = event.code
