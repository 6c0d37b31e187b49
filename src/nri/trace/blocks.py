"""The file format of traces, see docs/reference/trace-format.md.

    file   = MAGIC block*
    block  = header (44 bytes, big-endian), stored bytes
    header = b"NRIB" version codec zero stored raw records first_ns last_ns crc32(stored) crc32(header so far)

The headers are the index of a file: each has the times of its block and the offset of the next block. Content is
unpacked in pieces, so that a small block costs little memory regardless of the size that it announces. Traces are
untrusted: each length is checked before it is used.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from nri.errors import RemoteProtocolError
from nri.wire import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

MAGIC: Final = b"\x89NRITRC\n"
SUFFIX: Final = ".nritrace"
VERSION: Final = 1
PLAIN, ZLIB = 0, 1
#: The content of a block has at most this many bytes.
MAX_CONTENT_BYTES: Final = 16 << 20
#: A message in a block has at most this many bytes, which is ttRPC's limit.
MAX_MESSAGE_BYTES: Final = 4 << 20
#: Content is unpacked in pieces of this many bytes.
_PIECE_BYTES: Final = 64 << 10
#: The key and the length of a field have at most this many bytes.
_MAX_HEAD_BYTES: Final = 20
#: A block has at most this many fields that are not records. No version has written such fields.
_MAX_OTHER_FIELDS: Final = 1000
#: The greatest length of incompressible content in zlib's format.
_MAX_STORED_BYTES: Final = MAX_CONTENT_BYTES + (MAX_CONTENT_BYTES >> 10) + 1024
_BLOCK: Final = b"NRIB"
_FIELDS: Final = struct.Struct(">4sBBHIIIQQI")
_HEADER_BYTES: Final = _FIELDS.size + 4
#: The next block is searched in pieces that begin with this size and grow: there may be many damaged regions.
_MIN_SEARCH_BYTES = 4096
#: The largest piece of a search for the next block.
_MAX_SEARCH_BYTES = 1 << 20


class Header(NamedTuple):
    """The header of a block, and the block's offset in the file."""

    offset: int
    version: int
    codec: int
    stored: int
    raw: int
    records: int
    first_ns: int
    last_ns: int
    crc: int

    @property
    def size(self) -> int:
        """The bytes of the block in its file."""
        return _HEADER_BYTES + self.stored


class Damage(NamedTuple):
    """A region of a file that cannot be read: its offset, and the reason."""

    offset: int
    reason: str


def pack(raw: bytes, records: int, first_ns: int, last_ns: int) -> bytes:
    """Return a block. Compression level 6 would make the block a tenth smaller and take three times as long."""
    stored = zlib.compress(raw, 1)
    fields = (_BLOCK, VERSION, ZLIB, 0, len(stored), len(raw), records, first_ns, last_ns, zlib.crc32(stored))
    head = _FIELDS.pack(*fields)
    return b"".join((head, zlib.crc32(head).to_bytes(4, "big"), stored))


def is_trace(file: BinaryIO) -> bool:
    """Whether a file begins like a trace. A trace may be truncated, empty, or damaged at its beginning."""
    file.seek(0)
    magic, block = file.read(len(MAGIC)), file.read(len(_BLOCK))
    return MAGIC.startswith(magic) or block == _BLOCK


def scan(file: BinaryIO, start: int = 0) -> Iterator[Header | Damage]:
    """Yield the headers of a file from the end of an earlier block on, and its damaged regions."""
    end = file.seek(0, 2)
    file.seek(0)
    position = start or len(MAGIC)
    if not start and not MAGIC.startswith(file.read(position)):
        yield Damage(0, "the file does not begin like a trace")
    if not start and end <= position:
        yield Damage(0, "the file is truncated before its first block")
    while position < end:
        part = _header(file, position, end)
        if isinstance(part, Damage) and (grown := file.seek(0, 2)) > end:
            end = grown  # the file is being written: the damaged region may have been an incomplete block
            continue
        yield part
        if isinstance(part, Header):
            position += part.size
        else:
            position = _next_offset(file, position + 1, end)


def _header(file: BinaryIO, position: int, end: int) -> Header | Damage:
    file.seek(position)
    head = file.read(_HEADER_BYTES)
    if len(head) < _HEADER_BYTES:
        return Damage(position, f"the file is truncated: its last {len(head)} bytes are the beginning of a block")
    _, version, codec, _, stored, raw, records, first_ns, last_ns, crc = _FIELDS.unpack(head[: _FIELDS.size])
    if not _is_header(head):
        return Damage(position, "not a block; searching for the next one")
    if stored > _MAX_STORED_BYTES:
        return Damage(position, f"a block of {stored} bytes; at most {_MAX_STORED_BYTES} are read")
    if stored > end - position - _HEADER_BYTES:
        size = end - position - _HEADER_BYTES
        return Damage(position, f"the file is truncated: its last block has {size} of {stored} bytes")
    return Header(position, version, codec, stored, raw, records, first_ns, last_ns, crc)


def _next_offset(file: BinaryIO, position: int, end: int) -> int:
    """Return the offset of the next header, possibly truncated, or the end."""
    size = _MIN_SEARCH_BYTES
    while position < end:
        file.seek(position)
        piece = file.read(size)
        last = position + len(piece) >= end or not piece
        place = piece.find(_BLOCK)
        while place >= 0:
            head = piece[place : place + _HEADER_BYTES]
            if _is_header(head) or (last and len(head) < _HEADER_BYTES):
                return position + place
            if len(head) < _HEADER_BYTES:
                break  # the header continues in the next piece
            place = piece.find(_BLOCK, place + 1)
        if last:
            return end
        position += place if place >= 0 else len(piece) - len(_BLOCK) + 1
        size = min(2 * size, _MAX_SEARCH_BYTES)
    return end


def _is_header(head: bytes) -> bool:
    return head.startswith(_BLOCK) and zlib.crc32(head[: _FIELDS.size]).to_bytes(4, "big") == head[_FIELDS.size :]


def unknown(header: Header) -> str:
    """The reason why this version cannot read a block, to follow the word "block"; or ""."""
    if header.version != VERSION:
        return f"of version {header.version}; this nri reads version {VERSION}: use a newer nri"
    if header.codec not in (PLAIN, ZLIB):
        return f"of codec {header.codec}; this nri reads {PLAIN} and {ZLIB}: use a newer nri"
    return ""


def contents(file: BinaryIO, header: Header) -> Iterator[bytes]:
    """Yield the content of a block that is not `unknown`, in pieces of 64 KiB. Raises RemoteProtocolError."""
    if header.raw > MAX_CONTENT_BYTES:
        raise RemoteProtocolError(
            f"a block is refused: it has {header.raw} bytes of content, and the limit is {MAX_CONTENT_BYTES}"
        )
    file.seek(header.offset + _HEADER_BYTES)
    stored = file.read(header.stored)
    if zlib.crc32(stored) != header.crc:
        raise RemoteProtocolError(f"a block with a wrong checksum: {header.records} records are lost")
    length = 0
    for piece in _unpack(stored) if header.codec == ZLIB else (stored,):
        length += len(piece)
        if length > header.raw:
            break
        yield piece
    if length != header.raw:
        raise RemoteProtocolError(f"a block whose content differs from the announced {header.raw} bytes")


def _unpack(stored: bytes) -> Iterator[bytes]:
    decompressor = zlib.decompressobj()
    try:
        for place in range(0, len(stored), _PIECE_BYTES):
            chunk = stored[place : place + _PIECE_BYTES]
            while chunk and not decompressor.eof:
                yield decompressor.decompress(chunk, _PIECE_BYTES)
                chunk = decompressor.unconsumed_tail
        yield decompressor.flush(_PIECE_BYTES)
    except zlib.error as error:
        raise RemoteProtocolError(f"a block that cannot be unpacked: {error}") from None


def split(pieces: Iterable[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the values of field 1 of a message in pieces: the encoded records of a block.

    Yields None for a value longer than `max_bytes`. Raises RemoteProtocolError if the pieces are not a message.
    """
    buffer, missing, skipped, other_fields = bytearray(), 1, 0, 0
    for chunk in pieces:
        piece = chunk
        if skipped:
            piece, skipped = chunk[skipped:], max(0, skipped - len(chunk))
        buffer += piece
        if len(buffer) < missing:
            continue
        data, position = bytes(buffer), 0
        buffer.clear()
        while position < len(data):
            field = _field(data, position)
            if field is None:
                missing = len(data) - position + 1
                break
            number, start, end = field
            if end > len(data) and end - start <= max_bytes:
                missing = end - position
                break
            position = end
            if number == 1 and end - start > _PIECE_BYTES:
                value = data[start:end] if end - start <= max_bytes else None
                data, position = data[end:], max(0, end - len(data))  # free the bytes while the caller uses the value
                yield value
                value = None
            elif number == 1:
                yield data[start:end] if end - start <= max_bytes else None
            else:
                other_fields += 1
                if other_fields > _MAX_OTHER_FIELDS:
                    raise RemoteProtocolError(
                        f"its content has more than {_MAX_OTHER_FIELDS} fields other than records"
                    )
        buffer += data[position:]
        skipped = max(0, position - len(data))
        if position >= len(data):
            missing = 1
        del data
    if buffer or skipped:
        raise RemoteProtocolError("its last record is truncated")


def _field(data: bytes, position: int) -> tuple[int, int, int] | None:
    """Number, start and end of the field at a position; the end may be after the data.

    None if its key is incomplete.
    """
    try:
        key, start = read_varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            return 0, start, read_varint(data, start)[1]
        if wire_type == 2 and number:
            length, start = read_varint(data, start)
            return number, start, start + length
    except RemoteProtocolError:
        if len(data) - position < _MAX_HEAD_BYTES:
            return None
        raise
    if wire_type not in (1, 5) or not number:
        raise RemoteProtocolError(f"field {number} has wire type {wire_type}")
    return 0, start, start + (8 if wire_type == 1 else 4)
