"""The two sides of a ttRPC connection as state machines: bytes in, requests or responses out. No I/O, no clock.

`ClientSide` numbers streams and matches responses; `ServerSide` checks the order of stream ids and prepares answers to
invalid frames. A connection continues after a broken stream, as in the Go library. Only bytes that are not frames end
the connection. Threads, sockets and deadlines are in `nri.ttrpc.endpoint`.

Every call is a numbered stream. Most have one request and one response; `nri.ttrpc.halves` has the longer streams.
"""

from __future__ import annotations

from nri.errors import LocalProtocolError, OversizedMessage, RemoteProtocolError
from nri.ttrpc import frames
from nri.ttrpc.codes import Code
from nri.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    encode_response,
    request_ends,
    request_prefix,
)
from nri.ttrpc.halves import ClientStreams, Data, ServerStreams, refusal, response_of, too_long
from nri.wire import sole_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_LAST_STREAM_ID: Final = (1 << 32) - 1

# Encoded names of recently called services and methods.
prefixes: dict[tuple[str, str], bytes] = {}


def _prefix(service: str, method: str) -> bytes:
    """Encode names, and store them in `prefixes`."""
    if len(prefixes) > 1024:  # bounded, in case a caller generates names
        prefixes.clear()
    prefix = prefixes[service, method] = request_prefix(service, method)
    return prefix


class ClientSide:
    """The calling side: requests out, responses in."""

    __slots__ = ("_pending", "next_id", "reader", "streams")

    def __init__(self) -> None:
        self.reader = frames.FrameReader()
        self.next_id = 1
        self._pending: set[int] = set()
        #: The streams that continue after their request.
        self.streams = ClientStreams()

    def request(
        self,
        service: str,
        method: str,
        payload: bytes,
        timeout_ns: int = 0,
        metadata: Iterable[tuple[str, str]] = (),
        flags: int = 0,
    ) -> tuple[int, list[bytes], int]:
        """Start a stream. Returns (stream id, frame in pieces, its length). Send frames in the order of these calls.

        Raises OversizedMessage, without using a stream id, if the request is over 4 MiB.
        """
        stream_id = self.next_id
        if stream_id > _LAST_STREAM_ID:
            raise LocalProtocolError("stream ids are used up: connect again")
        prefix = prefixes.get((service, method)) or _prefix(service, method)
        before, after = request_ends(prefix, len(payload), timeout_ns, metadata)
        length = len(before) + len(payload) + len(after)
        if length > frames.MAX_DATA:
            raise OversizedMessage(length, frames.MAX_DATA)
        before = frames.pack_header(length, stream_id, frames.REQUEST, flags) + before
        self.next_id = stream_id + 2
        self._pending.add(stream_id)
        return stream_id, [before, payload, after], frames.HEADER_LENGTH + length

    def open(self, call: Request, *, sends: bool, receives: bool) -> tuple[int, list[bytes]]:
        """Start a stream that continues after its request. Returns (stream id, frame in pieces).

        Args:
            call: the request; its payload, if any, is the first message.
            sends: we send messages, with `streams.data`, until `streams.close`.
            receives: the server sends messages; otherwise its only message comes as a response.
        """
        flags = frames.REMOTE_CLOSED
        if sends:
            # Without NO_DATA, a Rust server treats even an empty request as the first message.
            flags = frames.REMOTE_OPEN if call.payload else frames.REMOTE_OPEN | frames.NO_DATA
        stream_id, frame, _ = self.request(
            call.service, call.method, call.payload, call.timeout_ns, call.metadata, flags
        )
        self._pending.discard(stream_id)
        self.streams.add(stream_id, sends=sends, receives=receives)
        return stream_id, frame

    def forget(self, stream_id: int) -> None:
        """Give up a stream. Late frames are dropped."""
        self._pending.discard(stream_id)
        self.streams.forget(stream_id)

    def receive(self, chunk: bytes) -> list[Response | Data]:
        """Return responses and data of open streams, in order of arrival. Those of other streams are dropped.

        A response, or the last data, ends its stream.
        """
        out: list[Response | Data] = []
        for stream_id, kind, flags, data, length in self.reader.receive(chunk):
            if self._expects_response(stream_id):
                out.append(response_of(stream_id, kind, data, length))
            elif stream_id in self.streams:
                item = self.streams.receive(stream_id, kind, flags, data, length)
                if item is not None:
                    out.append(item)
        return out

    def _expects_response(self, stream_id: int) -> bool:
        """Whether this stream waits for a response; false after the first response."""
        try:
            self._pending.remove(stream_id)
        except KeyError:
            return False
        return True

    def receive_sole(self, stream_id: int, chunk: bytes) -> bytes | None:
        """The reply's bytes if the chunk is exactly one successful response to this stream, the usual case.

        Returns None if nothing was processed; pass the chunk to `receive` then.
        """
        end = len(chunk)
        if end < frames.HEADER_LENGTH or not self.reader.between:
            return None
        length, of_stream, kind, _ = frames.unpack_header(chunk)
        if of_stream != stream_id or kind != frames.RESPONSE or length != end - frames.HEADER_LENGTH:
            return None
        payload = sole_field(chunk, 2, frames.HEADER_LENGTH) if length else b""
        if payload is not None:
            self._pending.discard(stream_id)
        return payload


class ServerSide:
    """The answering side: requests in, responses out."""

    __slots__ = ("_last_id", "reader", "streams")

    def __init__(self) -> None:
        self.reader = frames.FrameReader()
        self._last_id = 0
        #: The streams that continue after their request.
        self.streams = ServerStreams()

    def receive(self, chunk: bytes) -> list[Request | Response | Data]:
        """Return requests to serve, data of their streams, and Responses to send for invalid frames."""
        end = len(chunk)
        if end >= frames.HEADER_LENGTH and self.reader.between:
            length, stream_id, kind, flags = frames.unpack_header(chunk)
            is_complete = length == end - frames.HEADER_LENGTH
            if is_complete and kind == frames.REQUEST and length <= frames.MAX_DATA:  # the usual case
                return [self._request(stream_id, flags, chunk, length, frames.HEADER_LENGTH)]
        out: list[Request | Response | Data] = []
        for stream_id, kind, flags, data, length in self.reader.receive(chunk):
            if kind == frames.REQUEST:
                out.append(self._request(stream_id, flags, data, length))
            elif kind == frames.DATA:
                item = self.streams.receive(stream_id, flags, data, length)
                if item is not None:
                    out.append(item)
            # Any other type is ignored, as in the Go library.
        return out

    def _request(
        self, stream_id: int, flags: int, data: bytes | None, length: int, start: int = 0
    ) -> Request | Response:
        if stream_id % 2 == 0:
            return refusal(stream_id, "StreamID must be odd for client initiated streams")
        if stream_id <= self._last_id:
            return refusal(stream_id, "StreamID cannot be re-used and must increment")
        self._last_id = stream_id
        if data is None:
            return too_long(stream_id, length)
        try:
            request = decode_request(data, start)
        except RemoteProtocolError as error:
            return refusal(stream_id, f"unmarshal request error: {error.reason}")
        request.stream_id = stream_id
        if flags:
            request.flags = flags
            self.streams.add(stream_id, flags)
        return request

    def respond(self, stream_id: int, payload: bytes = b"", code: int = 0, message: str = "") -> bytes:
        """Encode an answer, which ends its stream. An answer over 4 MiB becomes ResourceExhausted."""
        if self.streams.open:
            self.streams.end(stream_id)
        if not payload and not code:
            return frames.pack(stream_id, frames.RESPONSE, b"")
        data = encode_response(payload, code, message)
        if len(data) > frames.MAX_DATA:
            text = f"message length {len(data)} exceed maximum message size of {frames.MAX_DATA}"
            data = encode_response(code=Code.RESOURCE_EXHAUSTED, message=text)
        return frames.pack(stream_id, frames.RESPONSE, data)
