"""Streams that go on after their request, as pure state: which half is open, and what a frame means to it. No I/O.

The request says in its flags whether the client will send data (REMOTE_OPEN) or nothing more (REMOTE_CLOSED). Data
frames carry messages as they are; one with NO_DATA carries none. The client's last one has REMOTE_CLOSED. The server
ends the whole stream, both halves of it: with such a data frame, or with a response, which is the only message of a
server that does not stream, or a status. Numbers and requests are `nri.ttrpc.connection`.

Safe for one thread that receives beside others that send.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, RemoteProtocolError
from nri.ttrpc import frames
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import Response, decode_response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["ClientStreams", "Data", "ServerStreams", "refusal", "response_of", "too_long"]

#: How many streams a server remembers that have ended, because data for them may have crossed their end.
_ENDED_KEPT: Final = 128
_CLOSE: Final = frames.REMOTE_CLOSED | frames.NO_DATA


class Data:
    """One message of a stream, or its end: `payload` is None where there is no message, `last` ends the peer's half."""

    __slots__ = ("last", "payload", "stream_id")

    def __init__(self, stream_id: int, payload: bytes | None, *, last: bool = False) -> None:
        self.stream_id = stream_id
        self.payload = payload
        self.last = last

    def __repr__(self) -> str:
        what = "no data" if self.payload is None else f"{len(self.payload)} bytes"
        return f"Data(stream {self.stream_id}, {what}{', last' if self.last else ''})"


def refusal(stream_id: int, message: str) -> Response:
    """The answer to a frame that breaks the rules."""
    return Response(code=Code.INVALID_ARGUMENT, message=message, stream_id=stream_id)


def too_long(stream_id: int, length: int) -> Response:
    """The answer to, or the outcome of, a frame with more data than is allowed."""
    text = f"message length {length} exceed maximum message size of {frames.MAX_DATA}"
    return Response(code=Code.RESOURCE_EXHAUSTED, message=text, stream_id=stream_id)


def response_of(stream_id: int, kind: int, data: bytes | None, length: int) -> Response:
    """The response in a frame, for the call that waits for it; a broken one fails that call and nothing else."""
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
        self._open: dict[int, bool] = {}  # -> whether the server streams
        self._sending: set[int] = set()

    def add(self, stream_id: int, *, sends: bool, receives: bool) -> None:
        """Note a stream that has just been asked for."""
        self._open[stream_id] = receives
        if sends:
            self._sending.add(stream_id)

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._open

    def forget(self, stream_id: int) -> None:
        """The stream is over, or given up: what comes late for it will be dropped."""
        self._open.pop(stream_id, None)
        self._sending.discard(stream_id)

    def data(self, stream_id: int, payload: bytes) -> bytes:
        """The frame of one of our messages. LocalProtocolError if our half is closed; OversizedMessage over 4 MiB."""
        if stream_id not in self._sending:
            ended = "this half of the stream is closed" if stream_id in self._open else "the stream is over"
            raise LocalProtocolError(f"nothing can be sent any more: {ended}")
        return frames.pack(stream_id, frames.DATA, payload)

    def close(self, stream_id: int) -> bytes:
        """The frame that says that we send nothing more; empty if that is said already, or the stream is over."""
        if stream_id not in self._sending:
            return b""
        self._sending.discard(stream_id)
        return frames.pack(stream_id, frames.DATA, b"", _CLOSE)

    def receive(self, stream_id: int, kind: int, flags: int, data: bytes | None, length: int) -> Response | Data | None:
        """Take in a frame, and return what it brings its stream; None for nothing.

        A response ends the stream, and so does data that is the last.
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
        #: Stream id -> whether the client may still send.
        self.open: dict[int, bool] = {}
        self.ended: dict[int, None] = {}  # the last ones that have ended, in this order

    def add(self, stream_id: int, flags: int) -> None:
        """Note a stream that has just been asked for, if it is one that goes on."""
        if flags & (frames.REMOTE_OPEN | frames.REMOTE_CLOSED):
            self.open[stream_id] = not flags & frames.REMOTE_CLOSED

    def end(self, stream_id: int) -> bool:
        """Note that a stream is over. False if it was over already, or is none that goes on."""
        if self.open.pop(stream_id, None) is None:
            return False
        self.ended[stream_id] = None
        if len(self.ended) > _ENDED_KEPT:
            self.ended.pop(list(self.ended)[0], None)  # noqa: RUF015 - an iterator may not be shared by threads
        return True

    def data(self, stream_id: int, payload: bytes) -> bytes:
        """The frame of one of our messages. LocalProtocolError if the stream is over; OversizedMessage over 4 MiB."""
        if stream_id not in self.open:
            raise LocalProtocolError("nothing can be sent any more: the stream is over")
        return frames.pack(stream_id, frames.DATA, payload)

    def close(self, stream_id: int) -> bytes:
        """The frame that ends a stream after its last message; empty if it is over already."""
        return frames.pack(stream_id, frames.DATA, b"", _CLOSE) if self.end(stream_id) else b""

    def receive(self, stream_id: int, flags: int, data: bytes | None, length: int) -> Response | Data | None:
        """Take in a data frame, and return what it brings its stream; None for nothing.

        A Response is to be sent as it is; the stream is over then.
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
