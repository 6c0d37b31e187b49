"""Streams that continue after their request, as state machines: which half is open, and what a frame means. No I/O.

The flags of a request say whether the client will send data (REMOTE_OPEN) or not (REMOTE_CLOSED). A data frame contains
one message, or with NO_DATA no message. The client's last data frame has REMOTE_CLOSED. The server ends both halves of
the stream: with such a data frame, or with a response, which is the only message of a server that does not stream, or a
status. One thread may receive while others send.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RemoteProtocolError
from nri.ttrpc import frames
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import Response, decode_response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: A server remembers at most this many ended streams, because their last data may arrive late.
_MAX_ENDED: Final = 128
_CLOSE: Final = frames.REMOTE_CLOSED | frames.NO_DATA


class Data:
    """A message of a stream, or its end. `payload` is None without a message; `last` ends the peer's half."""

    __slots__ = ("last", "payload", "stream_id")

    def __init__(self, stream_id: int, payload: bytes | None, *, last: bool = False) -> None:
        self.stream_id = stream_id
        self.payload = payload
        self.last = last

    def __repr__(self) -> str:
        what = "no data" if self.payload is None else f"{len(self.payload)} bytes"
        return f"Data(stream {self.stream_id}, {what}{', last' if self.last else ''})"


def refusal(stream_id: int, message: str) -> Response:
    """The answer to an invalid frame."""
    return Response(code=Code.INVALID_ARGUMENT, message=message, stream_id=stream_id)


def too_long(stream_id: int, length: int) -> Response:
    """The response to a frame with too much data, which is also the outcome of its call."""
    text = f"message length {length} exceed maximum message size of {frames.MAX_DATA}"
    return Response(code=Code.RESOURCE_EXHAUSTED, message=text, stream_id=stream_id)


def response_of(stream_id: int, kind: int, data: bytes | None, length: int) -> Response:
    """Decode a response. An invalid response only becomes an error of its call."""
    if data is None:
        return too_long(stream_id, length)
    if kind != frames.RESPONSE:
        response = Response(code=Code.INTERNAL, message=f"protocol error: message type {kind} on a unary stream")
    else:
        try:
            response = decode_response(data)
        except RemoteProtocolError as error:
            response = Response(code=Code.INTERNAL, message=f"unmarshal response error: {error.reason}")
    response.stream_id = stream_id
    return response


class ClientStreams:
    """The streams of the calling end."""

    __slots__ = ("_open", "_sending")

    def __init__(self) -> None:
        self._open: dict[int, bool] = {}  # stream id -> whether the server streams
        self._sending: set[int] = set()

    def add(self, stream_id: int, *, sends: bool, receives: bool) -> None:
        """Add a stream that was just requested."""
        self._open[stream_id] = receives
        if sends:
            self._sending.add(stream_id)

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._open

    def forget(self, stream_id: int) -> None:
        """Remove a stream that is over or was given up. Late frames are dropped."""
        self._open.pop(stream_id, None)
        self._sending.discard(stream_id)

    def data(self, stream_id: int, payload: bytes) -> bytes:
        """Encode a message. Raises LocalProtocolError if this half is closed, OversizedMessage over 4 MiB."""
        if stream_id not in self._sending:
            ended = "this half of the stream is closed" if stream_id in self._open else "the stream is over"
            raise LocalProtocolError(f"cannot send: {ended}")
        return frames.pack(stream_id, frames.DATA, payload)

    def close(self, stream_id: int) -> bytes:
        """Encode the end of our half. Returns b"" if our half has already ended, or the stream is over."""
        if stream_id not in self._sending:
            return b""
        self._sending.discard(stream_id)
        return frames.pack(stream_id, frames.DATA, b"", _CLOSE)

    def receive(self, stream_id: int, kind: int, flags: int, data: bytes | None, length: int) -> Response | Data | None:
        """Process a frame, and return its content for the stream. Returns None if it has no content.

        A response, or the last data, ends the stream.
        """
        receives = self._open.get(stream_id)
        if receives is None:
            return None
        if kind != frames.DATA or data is None:
            self.forget(stream_id)
            return response_of(stream_id, kind, data, length)
        if not receives:
            self.forget(stream_id)
            text = "protocol error: data from a server that does not stream"
            return Response(code=Code.INTERNAL, message=text, stream_id=stream_id)
        last = bool(flags & frames.REMOTE_CLOSED)
        if last:
            self.forget(stream_id)
        if flags & frames.NO_DATA:
            return Data(stream_id, None, last=True) if last else None
        return Data(stream_id, data, last=last)


class ServerStreams:
    """The streams of the answering end."""

    __slots__ = ("ended", "open")

    def __init__(self) -> None:
        #: For each stream id: whether the client may still send.
        self.open: dict[int, bool] = {}
        self.ended: dict[int, None] = {}  # the last streams that have ended, in this order

    def add(self, stream_id: int, flags: int) -> None:
        """Add a stream that was just requested, if it continues after its request."""
        if flags & (frames.REMOTE_OPEN | frames.REMOTE_CLOSED):
            self.open[stream_id] = not flags & frames.REMOTE_CLOSED

    def end(self, stream_id: int) -> bool:
        """Record the end of a stream. Returns False if the stream is not open."""
        if self.open.pop(stream_id, None) is None:
            return False
        self.ended[stream_id] = None
        if len(self.ended) > _MAX_ENDED:
            self.ended.pop(list(self.ended)[0], None)  # noqa: RUF015 - an iterator may not be shared by threads
        return True

    def data(self, stream_id: int, payload: bytes) -> bytes:
        """Encode a message. Raises LocalProtocolError if the stream is over, OversizedMessage over 4 MiB."""
        if stream_id not in self.open:
            raise LocalProtocolError("cannot send: the stream is over")
        return frames.pack(stream_id, frames.DATA, payload)

    def close(self, stream_id: int) -> bytes:
        """Encode the end of a stream after its last message. Returns b"" if the stream is already over."""
        return frames.pack(stream_id, frames.DATA, b"", _CLOSE) if self.end(stream_id) else b""

    def receive(self, stream_id: int, flags: int, data: bytes | None, length: int) -> Response | Data | None:
        """Process a data frame, and return its content for the stream. Returns None if it has no content.

        A returned Response must be sent; the stream is over then.
        """
        client_open = self.open.get(stream_id)
        if client_open is None:
            return None if stream_id in self.ended else refusal(stream_id, "StreamID is no longer active")
        if data is None:
            return too_long(stream_id, length)
        if not client_open:
            return refusal(stream_id, "data handling error: the client has closed its half of the stream")
        last = bool(flags & frames.REMOTE_CLOSED)
        if last:
            self.open[stream_id] = False
        if flags & frames.NO_DATA:
            return Data(stream_id, None, last=True) if last else None
        return Data(stream_id, data, last=last)
