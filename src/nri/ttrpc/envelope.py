"""The ttRPC envelope: the messages Request and Response, encoded by hand with `nri.wire`.

Five fields do not need a generated class. A hand-written codec is faster, and cannot collide with another package's
copy of google/rpc/status.proto. Tests compare it with bytes recorded from Go (tests/wire, tests/property).

| Request | | Response | |
|---|---|---|---|
| 1 service | string | 1 status | 1 code int32, 2 message string, 3 details (dropped) |
| 2 method | string | 2 payload | bytes |
| 3 payload | bytes | | |
| 4 timeout_nano | int64 | | |
| 5 metadata | repeated {1 key, 2 value} | | |
"""

from __future__ import annotations

from nri.errors import RemoteProtocolError
from nri.wire import LENGTHS, bytes_field, iter_fields, read_varint, sole_field, varint, varint_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Final

    Metadata = Sequence[tuple[str, str]]

#: An envelope or a status has at most this many fields: two million empty fields would fit into a message.
_MAX_FIELDS: Final = 4096
#: A metadata pair has at most this many fields.
_MAX_FIELDS_IN_PAIR: Final = 16


class Request:
    """A received request. `payload` is not decoded.

    Attributes:
        stream_id: the stream on which to answer.
        service, method: names, without slashes.
        payload: the request message's bytes.
        timeout_ns: the caller's remaining time in nanoseconds; 0 means no limit.
        metadata: (key, value) pairs in order; keys as received.
        flags: the flags of the request's frame: REMOTE_OPEN or REMOTE_CLOSED for a stream that continues after the
            request.
    """

    __slots__ = ("flags", "metadata", "method", "payload", "service", "stream_id", "timeout_ns")

    def __init__(
        self,
        service: str,
        method: str,
        payload: bytes,
        timeout_ns: int = 0,
        metadata: Metadata = (),
        stream_id: int = 0,
        flags: int = 0,
    ) -> None:
        self.service = service
        self.method = method
        self.payload = payload
        self.timeout_ns = timeout_ns
        self.metadata = metadata
        self.stream_id = stream_id
        self.flags = flags

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies, even of the compiled class."""
        fields = (self.service, self.method, self.payload, self.timeout_ns, self.metadata, self.stream_id, self.flags)
        return Request, fields

    def __repr__(self) -> str:
        return f"Request({self.service}/{self.method}, stream {self.stream_id}, {len(self.payload)} bytes)"


class Response:
    """A received response. `code` 0 is success; `payload` has the bytes of its message, which are not parsed.

    `arrival` is its number among all messages that were read (`nri.ttrpc.waiters`), 0 until its caller gets it.
    """

    __slots__ = ("arrival", "code", "message", "payload", "stream_id")

    def __init__(self, payload: bytes = b"", code: int = 0, message: str = "", stream_id: int = 0) -> None:
        self.payload = payload
        self.code = code
        self.message = message
        self.stream_id = stream_id
        self.arrival = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies, even of the compiled class."""
        return Response, (self.payload, self.code, self.message, self.stream_id)

    def __repr__(self) -> str:
        outcome = f"code {self.code} {self.message!r}" if self.code else f"{len(self.payload)} bytes"
        return f"Response(stream {self.stream_id}, {outcome})"


def request_prefix(service: str, method: str) -> bytes:
    """The encoded service and method, which are the same for every request of a method."""
    return bytes_field(1, service.encode()) + bytes_field(2, method.encode())


def encode_request(prefix: bytes, payload: bytes, timeout_ns: int = 0, metadata: Iterable[Any] = ()) -> bytes:
    """The data of a Request frame. `prefix` is `request_prefix(service, method)`."""
    before, after = request_ends(prefix, len(payload), timeout_ns, metadata)
    return before + payload + after


encoded_timeouts: dict[int, bytes] = {0: b""}


def request_ends(prefix: bytes, length: int, timeout_ns: int = 0, metadata: Iterable[Any] = ()) -> tuple[bytes, bytes]:
    """The data of `encode_request` before and after a payload of this length, which is then copied only once."""
    timeout = encoded_timeouts.get(timeout_ns)
    if timeout is None:
        if len(encoded_timeouts) > 4096:
            encoded_timeouts.clear()
            encoded_timeouts[0] = b""
        timeout = encoded_timeouts[timeout_ns] = b"\x20" + varint(timeout_ns)
    if length:
        prefix += b"\x1a" + (LENGTHS.get(length) or varint(length))
    if not metadata:
        return prefix, timeout
    pairs = [bytes_field(5, bytes_field(1, key.encode()) + bytes_field(2, value.encode())) for key, value in metadata]
    return prefix, timeout + b"".join(pairs)


# The names for the encoded service and method at the start of a request. Peers call only a few methods.
names_by_prefix: dict[bytes, tuple[str, str]] = {}
# The longest pair of names in `names_by_prefix`, with lengths of one byte.
_MAX_NAMES_BYTES: Final = 2 * (2 + 127)
# Nanoseconds by the encoded timeout at the end of a request. Our runtimes send whole milliseconds, so there are few.
timeout_by_bytes: dict[bytes, int] = {}
_LENGTH_DELIMITED = frozenset((0x0A, 0x12, 0x1A, 0x2A))


def _read_timeout(data: bytes, position: int) -> int:
    """The timeout in the last field of a request; 0 for another field, or for a field that is not the last."""
    timeout_ns, stop = read_varint(data, position + 1)
    if stop != len(data) or timeout_ns >> 63:
        return 0
    if not timeout_ns % 1_000_000:
        if len(timeout_by_bytes) > 256:  # bounded, in case a peer sends many timeouts
            timeout_by_bytes.clear()
        timeout_by_bytes[data[position:]] = timeout_ns
    return timeout_ns


def decode_request(data: bytes, start: int = 0) -> Request:
    """Decode a Request frame's data, which begins at `start`. Unknown fields are skipped.

    Raises RemoteProtocolError if the data is not protobuf.
    """
    end = len(data)
    # The form that every library sends: the fields in order, without metadata.
    if end - start > 4 and data[start] == 0x0A and data[start + 1] < 128:
        position = start + 2 + data[start + 1]
        if position + 1 < end and data[position] == 0x12 and data[position + 1] < 128:
            position += 2 + data[position + 1]
            names = names_by_prefix.get(data[start:position])
            if names is not None and position + 2 < end and data[position] == 0x1A:
                begin = position + 2  # the length before it has one or two bytes in most cases
                length = data[position + 1]
                if length > 127:
                    if data[begin] < 128:
                        length += (data[begin] << 7) - 128
                        begin += 1
                    else:
                        length, begin = read_varint(data, position + 1)
                position = begin + length
                if position == end:
                    return Request(names[0], names[1], data[begin:])
                if position < end and data[position] == 0x20:
                    timeout_ns = timeout_by_bytes.get(data[position:]) or _read_timeout(data, position)
                    if timeout_ns:
                        return Request(names[0], names[1], data[begin:position], timeout_ns)
    data = data[start:]
    request = _decode_request(data)
    prefix = request_prefix(request.service, request.method)
    if len(prefix) <= _MAX_NAMES_BYTES and data.startswith(prefix):
        if len(names_by_prefix) > 256:  # bounded, in case a peer generates names
            names_by_prefix.clear()
        names_by_prefix[prefix] = (request.service, request.method)
    return request


def _decode_request(data: bytes) -> Request:
    """Decode a request field by field, in any order."""
    service = method = payload = b""
    timeout_ns = 0
    metadata: list[tuple[str, str]] = []
    position, end, fields = 0, len(data), 0
    while position < end:
        fields += 1
        if fields > _MAX_FIELDS:
            raise RemoteProtocolError(f"more than {_MAX_FIELDS} fields")
        key = data[position]
        if key in _LENGTH_DELIMITED:
            position += 1
            if position < end and data[position] < 128:  # a one-byte length, the usual case
                length = data[position]
                position += 1
            else:
                length, position = read_varint(data, position)
            stop = position + length
            if stop > end:
                raise RemoteProtocolError(f"field {key >> 3} is cut short")
            value = data[position:stop]
            position = stop
            if key == 0x1A:
                payload = value
            elif key == 0x0A:
                service = value
            elif key == 0x12:
                method = value
            else:
                metadata.append(_decode_pair(value))
        elif key == 0x20:
            timeout_ns, position = read_varint(data, position + 1)
            if timeout_ns >> 63:
                timeout_ns = 0  # negative: the caller has already given up
        else:
            position = _skip(data, position)
    return Request(_text(service), _text(method), payload, timeout_ns, tuple(metadata))


def _skip(data: bytes, position: int) -> int:
    """Skip an unknown field. Returns the position after it."""
    start = position
    key, position = read_varint(data, position)
    number, wire_type = key >> 3, key & 7
    if not 0 < number < 1 << 29:
        raise RemoteProtocolError(f"field number {number} is not allowed")
    if wire_type == 0:
        return read_varint(data, position)[1]
    if wire_type == 2:
        length, position = read_varint(data, position)
    elif wire_type in (1, 5):
        length = 8 if wire_type == 1 else 4
    else:
        raise RemoteProtocolError(f"field {number} has wire type {wire_type}")
    if length > len(data) - position:
        raise RemoteProtocolError(f"field {number} at offset {start} is cut short")
    return position + length


def _few_fields(data: bytes, max_count: int) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield the fields of a message. Raises RemoteProtocolError above `max_count`."""
    for place, field in enumerate(iter_fields(data)):
        if place == max_count:
            raise RemoteProtocolError(f"more than {max_count} fields")
        yield field


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("text is not UTF-8") from None


def _decode_pair(data: bytes) -> tuple[str, str]:
    key = value = b""
    for number, _, content in _few_fields(data, _MAX_FIELDS_IN_PAIR):
        if number == 1 and isinstance(content, bytes):
            key = content
        elif number == 2 and isinstance(content, bytes):
            value = content
    return _text(key), _text(value)


def encode_response(payload: bytes = b"", code: int = 0, message: str = "") -> bytes:
    """Encode a Response frame's data. An empty message with status OK has zero bytes."""
    if code:
        # Errors may contain file names that are not valid Unicode; the caller must get an answer nevertheless.
        text = bytes_field(2, message.encode(errors="replace")) if message else b""
        return bytes_field(1, varint_field(1, code) + text)
    if not payload:
        return b""
    length = len(payload)
    return b"\x12" + (LENGTHS.get(length) or varint(length)) + payload


def decode_response(data: bytes) -> Response:
    """Decode a Response frame's data. Unknown fields and status details are skipped."""
    payload = sole_field(data, 2)
    if payload is not None:
        return Response(payload)
    response = Response()
    status: list[bytes] = []
    for number, _, value in _few_fields(data, _MAX_FIELDS):
        if number == 2 and isinstance(value, bytes):
            response.payload = value
        elif number == 1 and isinstance(value, bytes):
            status.append(value)
    for number, _, value in _few_fields(b"".join(status), _MAX_FIELDS):  # several occurrences are merged
        if number == 1 and isinstance(value, int):
            response.code = value & 0xFFFFFFFF
        elif number == 2 and isinstance(value, bytes):
            response.message = value.decode(errors="replace")
    return response
