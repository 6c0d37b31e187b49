"""The blocks of a trace file: packed, found again, checked, unpacked. Knows bytes, and no message of NRI.

    file   = MAGIC block*
    block  = header (44 bytes, big-endian) and so many stored bytes
    header = b"NRIB" version codec zero stored raw records first_ns last_ns crc32(stored) crc32(header so far)

The headers are the index: they say what times a block covers, and where the next one begins, so a file is looked
through without its content. Content is unpacked piece by piece, so that a small block costs little memory whatever it
announces. A block is written whole and never changed, so a file that was cut ends with one that is
short. A block whose checksum, version or codec is wrong is named and passed over; after a broken header the next block
is searched for. A trace is somebody else's file: every length is bounded before it is believed. Next:
`nri.trace.recorder` writes these files, `nri.trace.history` reads them; docs/reference/trace-format.md is for others.
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

__all__ = [
    "MAGIC",
    "MAX_CONTENT_BYTES",
    "MAX_MESSAGE_BYTES",
    "SUFFIX",
    "Damage",
    "Header",
    "contents",
    "is_trace",
    "pack",
    "scan",
    "split",
    "unknown",
]  # fmt: skip

MAGIC: Final = b"\x89NRITRC\n"
SUFFIX: Final = ".nritrace"
VERSION: Final = 1
PLAIN, ZLIB = 0, 1
#: The longest content of a block, and the longest message in it, which is that of ttRPC: what is longer is left out.
MAX_CONTENT_BYTES: Final = 16 << 20
MAX_MESSAGE_BYTES: Final = 4 << 20
#: Bytes that are unpacked at once, and those that the head of a field can have.
_PIECE_BYTES: Final = 64 << 10
_MAX_HEAD_BYTES: Final = 20
#: Fields of a block that are not records; no version has written one.
_MAX_OTHER_FIELDS: Final = 1000
#: zlib makes what it cannot compress no longer than this.
_MAX_STORED_BYTES: Final = MAX_CONTENT_BYTES + (MAX_CONTENT_BYTES >> 10) + 1024
_BLOCK: Final = b"NRIB"
_FIELDS: Final = struct.Struct(">4sBBHIIIQQI")
_HEADER_BYTES: Final = _FIELDS.size + 4
#: Bytes that are looked through at once for the next block: few at first, as there may be very many places to begin.
_MIN_SEARCH_BYTES, _MAX_SEARCH_BYTES = 4096, 1 << 20


class Header(NamedTuple):
    """The header of a block, and the offset in its file at which it begins."""

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
    """A part of a file that cannot be read: where it begins, and why."""

    offset: int
    reason: str


def pack(raw: bytes, records: int, first_ns: int, last_ns: int) -> bytes:
    """One block. Level 1: level 6 makes it a tenth smaller and takes three times as long."""
    stored = zlib.compress(raw, 1)
    fields = (_BLOCK, VERSION, ZLIB, 0, len(stored), len(raw), records, first_ns, last_ns, zlib.crc32(stored))
    head = _FIELDS.pack(*fields)
    return b"".join((head, zlib.crc32(head).to_bytes(4, "big"), stored))


def is_trace(file: BinaryIO) -> bool:
    """Whether a file begins as a trace: perhaps it was cut there, has nothing yet, or has a block behind damage."""
    file.seek(0)
    magic, block = file.read(len(MAGIC)), file.read(len(_BLOCK))
    return MAGIC.startswith(magic) or block == _BLOCK


def scan(file: BinaryIO) -> Iterator[Header | Damage]:
    """The headers of a file, in order, without its content; what is no block is named."""
    end = file.seek(0, 2)
    file.seek(0)
    position = len(MAGIC)
    if not MAGIC.startswith(file.read(position)):
        yield Damage(0, "the first bytes are not those of a trace")
    if end <= position:
        yield Damage(0, "the file ends before its first block: it was cut here")
    while position < end:
        part = _header(file, position, end)
        if isinstance(part, Damage) and (grown := file.seek(0, 2)) > end:
            end = grown  # it is being written: perhaps this was half of a block
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
        return Damage(position, f"the last {len(head)} bytes are the beginning of a block: the file was cut here")
    _, version, codec, _, stored, raw, records, first_ns, last_ns, crc = _FIELDS.unpack(head[: _FIELDS.size])
    if not _is_header(head):
        return Damage(position, "this is no block; the next one is searched for")
    if stored > _MAX_STORED_BYTES:
        return Damage(position, f"a block of {stored} bytes, at most {_MAX_STORED_BYTES} are read")
    if stored > end - position - _HEADER_BYTES:
        size = end - position - _HEADER_BYTES
        return Damage(position, f"the last block has {size} of its {stored} bytes: the file was cut here")
    return Header(position, version, codec, stored, raw, records, first_ns, last_ns, crc)


def _next_offset(file: BinaryIO, position: int, end: int) -> int:
    """The offset of the next header, or of the beginning of one that the file's end cuts, or the end."""
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
                break  # its rest is in the next piece
            place = piece.find(_BLOCK, place + 1)
        if last:
            return end
        position += place if place >= 0 else len(piece) - len(_BLOCK) + 1
        size = min(2 * size, _MAX_SEARCH_BYTES)
    return end


def _is_header(head: bytes) -> bool:
    return head.startswith(_BLOCK) and zlib.crc32(head[: _FIELDS.size]).to_bytes(4, "big") == head[_FIELDS.size :]


def unknown(header: Header) -> str:
    """Why this version can read no block of this kind, after the word "block"; "" if it can."""
    if header.version != VERSION:
        return f"of version {header.version}, this nri reads {VERSION}: use a newer one"
    if header.codec not in (PLAIN, ZLIB):
        return f"packed in way {header.codec}, this nri knows {PLAIN} and {ZLIB}: use a newer one"
    return ""


def contents(file: BinaryIO, header: Header) -> Iterator[bytes]:
    """The content of a block that is not `unknown`, in pieces of 64 KiB. RemoteProtocolError says why it ends early."""
    if header.raw > MAX_CONTENT_BYTES:
        raise RemoteProtocolError(f"a block with {header.raw} bytes of content, at most {MAX_CONTENT_BYTES} are read")
    file.seek(header.offset + _HEADER_BYTES)
    stored = file.read(header.stored)
    if zlib.crc32(stored) != header.crc:
        raise RemoteProtocolError(f"a block whose checksum is wrong: {header.records} records are lost")
    length = 0
    for piece in _unpacked(stored) if header.codec == ZLIB else (stored,):
        length += len(piece)
        if length > header.raw:
            break
        yield piece
    if length != header.raw:
        raise RemoteProtocolError(f"a block whose content is not the {header.raw} bytes that it announces")


def _unpacked(stored: bytes) -> Iterator[bytes]:
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
    """The values of field 1 of a message that comes in pieces: the encoded records of a block.

    Of a value with more than `max_bytes` bytes nothing is held, and None is given. RemoteProtocolError where the pieces
    are not a message.
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
                data, position = data[end:], max(0, end - len(data))  # not held while the value is looked at
                yield value
                value = None
            elif number == 1:
                yield data[start:end] if end - start <= max_bytes else None
            else:
                other_fields += 1
                if other_fields > _MAX_OTHER_FIELDS:
                    raise RemoteProtocolError(
                        f"its content has more than {_MAX_OTHER_FIELDS} fields that are not records"
                    )
        buffer += data[position:]
        skipped = max(0, position - len(data))
        if position >= len(data):
            missing = 1
        del data
    if buffer or skipped:
        raise RemoteProtocolError("its last record is cut short")


def _field(data: bytes, position: int) -> tuple[int, int, int] | None:
    """Number, start and end of the field at a position; its end may be behind the data. None if its head is."""
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
