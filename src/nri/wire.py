"""Protobuf's wire format, for bytes that are joined or read without decoding the whole message.

It is used where the protobuf runtime is too slow: for the ttRPC envelope (`nri.ttrpc.envelope`), and for requests that
are joined from encoded fields (`nri.adaptation.peers.event_request`). Every read is limited by the end of the buffer
and fails with RemoteProtocolError.

Wire types: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32. 3 and 4 (groups) do not occur in proto3 and are refused.
"""

from __future__ import annotations

from nri.errors import RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

# Maximum number of stored lengths: enough for all messages of a node, in about 100 KB.
_MAX_LENGTHS: Final = 1024

#: Recently encoded lengths: `LENGTHS.get(n) or varint(n)` saves a call for each field of a message.
LENGTHS: Final[dict[int, bytes]] = {n: bytes((n,)) for n in range(128)}


def varint(value: int) -> bytes:
    """Encode 0 <= value < 2**64; pass a negative int64 as value + 2**64."""
    if 0 <= value < 0x4000:  # the usual case: lengths
        return LENGTHS.get(value) or _encode_length(value)
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_length(value: int) -> bytes:
    """Encode a value of at most two bytes, and store it."""
    if len(LENGTHS) >= _MAX_LENGTHS:
        LENGTHS.clear()
    encoded = LENGTHS[value] = bytes((value,)) if value < 128 else bytes((value & 127 | 128, value >> 7))
    return encoded


def tag(number: int, wire_type: int) -> bytes:
    """Encode a field's number and wire type."""
    return varint(number << 3 | wire_type)


def bytes_field(number: int, data: bytes) -> bytes:
    """Encode a string, bytes or message field, even if it is empty."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint_field(number: int, value: int) -> bytes:
    """Encode an integer, bool or enum field; zero is omitted, as in proto3."""
    return varint(number << 3) + varint(value) if value else b""


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read a varint of at most ten bytes. Returns (value, next position)."""
    value = shift = 0
    end = len(buffer)
    while True:
        if position >= end:
            raise RemoteProtocolError("varint is cut short")
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            raise RemoteProtocolError("varint is longer than ten bytes")


def sole_field(data: bytes, number: int, start: int = 0) -> bytes | None:
    """The value of a length-delimited field below 16 if it is the only field from `start`, else None."""
    length = len(data) - start - 2
    if length < 0 or data[start] != (number << 3 | 2):
        return None
    first = data[start + 1]
    if first < 128:
        return data[start + 2 :] if first == length else None
    length -= 1  # a length of two bytes, the usual case
    if length > 0 and data[start + 2] < 128:
        return data[start + 3 :] if first + (data[start + 2] << 7) - 128 == length else None
    try:
        length, position = read_varint(data, start + 1)
    except RemoteProtocolError:
        return None
    return data[position:] if position + length == len(data) else None


def iter_fields(buffer: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (number, wire type, value) of each field: int for wire type 0, bytes for 1, 2 and 5."""
    position, end = 0, len(buffer)
    while position < end:
        key, position = read_varint(buffer, position)
        number, wire_type = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise RemoteProtocolError(f"field number {number} is not allowed")
        if wire_type == 0:
            value, position = read_varint(buffer, position)
            yield number, wire_type, value
            continue
        if wire_type == 2:
            length, position = read_varint(buffer, position)
        elif wire_type == 1:
            length = 8
        elif wire_type == 5:
            length = 4
        else:
            raise RemoteProtocolError(f"field {number} has wire type {wire_type}")
        if length > end - position:
            raise RemoteProtocolError(f"field {number} is cut short: {length} bytes announced, {end - position} left")
        yield number, wire_type, buffer[position : position + length]
        position += length
