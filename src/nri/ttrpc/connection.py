"""The two ends of one ttRPC connection as pure state: bytes in, requests or responses out. No I/O, no clock.

`ClientSide` numbers streams and matches responses; `ServerSide` checks the order of stream ids and prepares the answer
to what breaks the rules. A connection goes on after a broken stream, as the reference's does; only bytes that are not
frames at all end it. Threads, sockets and deadlines are in `nri.ttrpc.endpoint`.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, OversizedMessage, RemoteProtocolError
from nri.ttrpc import frames
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_response,
    request_parts,
    request_prefix,
    response_payload,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = ["ClientSide", "ServerSide"]

_LAST_STREAM_ID: Final = (1 << 32) - 1


# Encoded names of services and methods, those called lately.
_prefixes: dict[tuple[str, str], bytes] = {}


def _prefix(service: str, method: str) -> bytes:
    """Encode names, and keep them."""
    if len(_prefixes) > 1024:  # names come from programs; a caller that makes them up must not fill memory
        _prefixes.clear()
    prefix = _prefixes[service, method] = request_prefix(service, method)
    return prefix


class ClientSide:
    """The calling end: requests out, responses in."""

    __slots__ = ("_next_id", "_pending", "_reader")

    def __init__(self) -> None:
        self._reader = frames.FrameReader()
        self._next_id = 1
        self._pending: set[int] = set()

    def request(
        self, service: str, method: str, payload: bytes, timeout_ns: int = 0, metadata: Iterable[tuple[str, str]] = ()
    ) -> tuple[int, list[bytes], int]:
        """Start a stream; returns (stream id, frame in pieces, its length). Frames go out in the order of these calls.

        Raises OversizedMessage, without using up a stream id, when the whole request is over 4 MiB.
        """
        stream_id = self._next_id
        if stream_id > _LAST_STREAM_ID:
            raise LocalProtocolError("stream ids are used up: connect again")
        prefix = _prefixes.get((service, method)) or _prefix(service, method)
        frame = request_parts(prefix, payload, timeout_ns, metadata)
        length = 0
        for piece in frame:
            length += len(piece)
        if length > frames.MAX_DATA:
            raise OversizedMessage(length, frames.MAX_DATA)
        frame.insert(0, frames.pack_header(length, stream_id, frames.REQUEST, 0))
        self._next_id = stream_id + 2
        self._pending.add(stream_id)
        return stream_id, frame, frames.HEADER_LENGTH + length

    def forget(self, stream_id: int) -> None:
        """Give up on a stream: its late response will be dropped."""
        self._pending.discard(stream_id)

    def receive(self, chunk: bytes) -> list[Response]:
        """Responses to pending streams, in the order in which they came; all others are dropped."""
        return [
            _response(stream_id, kind, data, length)
            for stream_id, kind, _, data, length in self._reader.receive(chunk)
            if self._expects(stream_id)
        ]

    def receive_sole(self, stream_id: int, chunk: bytes) -> bytes | None:
        """The reply's bytes, if the chunk is one whole successful response to this stream, as it nearly always is.

        None: `receive` has to look at it. Takes nothing then.
        """
        end = len(chunk)
        if end < frames.HEADER_LENGTH or not self._reader.between:
            return None
        length, of_stream, kind, _ = frames.unpack_header(chunk)
        if of_stream != stream_id or kind != frames.RESPONSE or length != end - frames.HEADER_LENGTH:
            return None
        try:
            payload = response_payload(chunk, frames.HEADER_LENGTH)
        except RemoteProtocolError:
            return None  # a broken response costs its own call, and `receive` says so
        if payload is not None:
            self._pending.discard(stream_id)
        return payload

    def _expects(self, stream_id: int) -> bool:
        """Whether a response to this stream is waited for; only the first one is."""
        try:
            self._pending.remove(stream_id)
        except KeyError:
            return False
        return True


def _response(stream_id: int, kind: int, data: bytes | None, length: int) -> Response:
    """What a frame means to the call that waits for it; a broken one fails that call and nothing else."""
    if data is None:
        text = f"message length {length} exceed maximum message size of {frames.MAX_DATA}"
        response = Response(code=Code.RESOURCE_EXHAUSTED, message=text)
    elif kind != frames.RESPONSE:
        response = Response(code=Code.INTERNAL, message=f"protocol error: message type {kind} on a unary stream")
    else:
        try:
            response = decode_response(data)
        except RemoteProtocolError as error:
            response = Response(code=Code.INTERNAL, message=f"unmarshal response error: {error.reason}")
    response.stream_id = stream_id
    return response


class ServerSide:
    """The answering end: requests in, responses out."""

    __slots__ = ("_last_id", "_reader")

    def __init__(self) -> None:
        self._reader = frames.FrameReader()
        self._last_id = 0

    def receive(self, chunk: bytes) -> list[Request | Response]:
        """Requests to serve, and Responses that are to be sent as they are because the peer broke a rule."""
        end = len(chunk)
        if end >= frames.HEADER_LENGTH and self._reader.between:
            length, stream_id, kind, flags = frames.unpack_header(chunk)
            whole = length == end - frames.HEADER_LENGTH
            if whole and kind == frames.REQUEST and length <= frames.MAX_DATA:  # as nearly always
                return [self._request(stream_id, flags, chunk, length, frames.HEADER_LENGTH)]
        out: list[Request | Response] = []
        for stream_id, kind, flags, data, length in self._reader.receive(chunk):
            if kind == frames.REQUEST:
                out.append(self._request(stream_id, flags, data, length))
            elif kind == frames.DATA:
                out.append(_refusal(stream_id, Code.INVALID_ARGUMENT, "StreamID is no longer active"))
            # Any other type is ignored, as the reference does.
        return out

    def _request(
        self, stream_id: int, flags: int, data: bytes | None, length: int, start: int = 0
    ) -> Request | Response:
        if stream_id % 2 == 0:
            return _refusal(stream_id, Code.INVALID_ARGUMENT, "StreamID must be odd for client initiated streams")
        if stream_id <= self._last_id:
            return _refusal(stream_id, Code.INVALID_ARGUMENT, "StreamID cannot be re-used and must increment")
        self._last_id = stream_id
        if data is None:
            text = f"message length {length} exceed maximum message size of {frames.MAX_DATA}"
            return _refusal(stream_id, Code.RESOURCE_EXHAUSTED, text)
        try:
            request = decode_request(data, start)
        except RemoteProtocolError as error:
            return _refusal(stream_id, Code.INVALID_ARGUMENT, f"unmarshal request error: {error.reason}")
        if flags & (frames.REMOTE_OPEN | frames.REMOTE_CLOSED):
            return _refusal(
                stream_id, Code.UNIMPLEMENTED, f"streaming is not supported: {request.service}/{request.method}"
            )
        request.stream_id = stream_id
        return request

    def respond(self, stream_id: int, payload: bytes = b"", code: int = 0, message: str = "") -> bytes:
        """The frame of an answer. One that is over 4 MiB becomes ResourceExhausted: the caller learns why."""
        if not payload and not code:
            return frames.pack(stream_id, frames.RESPONSE, b"")
        data = encode_response(payload, code, message)
        if len(data) > frames.MAX_DATA:
            text = f"message length {len(data)} exceed maximum message size of {frames.MAX_DATA}"
            data = encode_response(code=Code.RESOURCE_EXHAUSTED, message=text)
        return frames.pack(stream_id, frames.RESPONSE, data)


def _refusal(stream_id: int, code: int, message: str) -> Response:
    return Response(code=code, message=message, stream_id=stream_id)
