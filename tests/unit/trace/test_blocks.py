"""Blocks of a trace file: complete blocks are read, damage is reported and skipped."""

from __future__ import annotations

import io
import struct
import zlib
from collections import deque

import pytest

from nri.errors import RemoteProtocolError
from nri.trace import blocks
from nri.trace.blocks import MAGIC, Damage, Header, contents, pack, scan, split, unknown
from nri.wire import bytes_field
from tests.support.odd_blocks import odd_block

CONTENTS = [b"first" * 50, b"second" * 50, b"third" * 50]
FILE = MAGIC + b"".join(pack(content, 1, number, number + 1) for number, content in enumerate(CONTENTS))
STARTS = [block.offset for block in scan(io.BytesIO(FILE)) if isinstance(block, Header)]


def read(data: bytes) -> list[bytes | str]:
    """The contents of all blocks of a file, and why others cannot be read."""
    file = io.BytesIO(data)
    parts: list[bytes | str] = []
    for part in scan(file):
        if isinstance(part, Damage):
            parts.append(part.reason)
            continue
        try:
            parts.append(unknown(part) or b"".join(contents(file, part)))
        except RemoteProtocolError as error:
            parts.append(error.reason)
    return parts


def test_packed_blocks_can_be_read() -> None:
    assert read(FILE) == CONTENTS


def test_headers_have_the_times_of_their_records() -> None:
    assert [(part.first_ns, part.last_ns, part.records) for part in scan(io.BytesIO(FILE))] == [  # type: ignore[union-attr]
        (0, 1, 1), (1, 2, 1), (2, 3, 1),
    ]  # fmt: skip


def test_a_truncated_file_yields_all_complete_blocks_and_the_damage() -> None:
    for length in range(len(MAGIC), len(FILE)):
        total = sum(start <= length for start in [*STARTS[1:], len(FILE)])
        parts = read(FILE[:length])
        assert parts[:total] == CONTENTS[:total]
        assert ["truncated" in str(part) for part in parts[total:]] == ([] if length in STARTS[1:] else [True])


@pytest.mark.parametrize("place", range(STARTS[1], STARTS[2]))
def test_a_changed_byte_damages_only_its_block(place: int) -> None:
    broken = FILE[:place] + bytes((FILE[place] ^ 0x55,)) + FILE[place + 1 :]
    parts = read(broken)
    assert parts[0] == CONTENTS[0]
    assert parts[-1] == CONTENTS[2]
    assert len(parts) > 2, "the second is named"
    assert CONTENTS[1] not in parts


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"version": 2}, "of version 2; this nri reads version 1: use a newer nri"),
        ({"codec": 7}, "of codec 7; this nri reads 0 and 1: use a newer nri"),
        ({"raw": blocks.MAX_CONTENT_BYTES + 1}, "and the limit is 16777216"),
        ({"raw": 99}, "a block whose content differs from the announced 99 bytes"),
        ({"raw": 101}, "a block whose content differs from the announced 101 bytes"),
        ({"crc": 1}, "a block with a wrong checksum: 1 records are lost"),
        ({"stored": 1 << 30}, "a block of 1073741824 bytes"),
    ],
)
def test_an_unreadable_block_is_reported_and_the_next_block_is_read(changed: dict[str, int], reason: str) -> None:
    parts = read(MAGIC + odd_block(**changed) + pack(b"next", 1, 0, 0))
    assert parts[-1] == b"next"
    assert reason in str(parts[0])


def test_bytes_that_zlib_cannot_decompress_are_reported() -> None:
    stored = b"\xff" * 20
    head = struct.pack(">4sBBHIIIQQI", b"NRIB", 1, 1, 0, 20, 100, 1, 0, 0, zlib.crc32(stored))
    parts = read(MAGIC + head + struct.pack(">I", zlib.crc32(head)) + stored)
    assert "cannot be unpacked" in str(parts[0])


def test_a_block_may_be_uncompressed() -> None:
    head = struct.pack(">4sBBHIIIQQI", b"NRIB", 1, 0, 0, 4, 4, 1, 0, 0, zlib.crc32(b"data"))
    assert read(MAGIC + head + struct.pack(">I", zlib.crc32(head)) + b"data") == [b"data"]


def test_a_small_block_is_not_decompressed_beyond_its_header_size() -> None:
    bomb = zlib.compress(b"\0" * (64 << 20))
    head = struct.pack(">4sBBHIIIQQI", b"NRIB", 1, 1, 0, len(bomb), 1000, 1, 0, 0, zlib.crc32(bomb))
    parts = read(MAGIC + head + struct.pack(">I", zlib.crc32(head)) + bomb)
    assert "announced 1000 bytes" in str(parts[0])


def test_the_next_block_is_found_after_megabytes_of_other_data() -> None:
    parts = read(FILE + b"NRI" * (1 << 20) + pack(b"last", 1, 0, 0))
    assert [*parts[:3], parts[-1]] == [*CONTENTS, b"last"]


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (MAGIC, True),
        (MAGIC[:3], True),
        (b"", True),
        (b"\x89PNG\r\n\x1a\n", False),
        (b"damaged!NRIB", True),
        (b"damaged!NRI", False),
    ],
)
def test_a_trace_is_recognized_by_its_first_bytes(beginning: bytes, expected: bool) -> None:
    assert blocks.is_trace(io.BytesIO(beginning)) is expected


@pytest.mark.parametrize("place", range(len(MAGIC)))
def test_damage_in_the_first_bytes_loses_no_block(place: int) -> None:
    parts = read(FILE[:place] + b"\0" + FILE[place + 1 :])
    assert parts == ["the file does not begin like a trace", *CONTENTS]


class Counting(io.BytesIO):
    """A file that knows how many bytes were read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        parts = super().read(size)
        self.read_bytes += len(parts)
        return parts


class Growing(io.BytesIO):
    """A file that grows while it is read."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content[:size])
        self.rest = content[size:]

    def read(self, size: int | None = -1, /) -> bytes:
        parts = super().read(size)
        place = self.seek(0, 1)
        if self.rest and parts.startswith(b"NRIB"):
            self.seek(0, 2)
            self.write(self.rest)
            self.rest = b""
            self.seek(place)
        return parts


@pytest.mark.parametrize("size", [len(MAGIC) + 4, len(MAGIC) + 30, len(MAGIC) + 46])
def test_an_incomplete_block_that_is_still_written_is_not_damage(size: int) -> None:
    file = Growing(FILE, size)
    assert [
        b"".join(contents(file, parts)) if not isinstance(parts, Damage) else parts.reason
        for parts in blocks.scan(file)
    ] == CONTENTS


@pytest.mark.parametrize("piece", [b"NRIB", odd_block(stored=1 << 20)[:44], b"NRIB" + bytes(5000)])
def test_false_block_starts_do_not_cause_repeated_reads(piece: bytes) -> None:
    file = Counting(MAGIC + piece * (1_000_000 // len(piece)))
    for _ in scan(file):
        pass
    assert file.read_bytes < 200 * len(file.getvalue())


def test_a_damaged_range_is_reported_once_and_the_next_block_is_found() -> None:
    for length in (1, 4050, 4090, 4096, 4099, 12_288, 2_000_000):
        parts = read(MAGIC + b"NRIB" + b"?" * length + FILE[len(MAGIC) :])
        assert parts == ["not a block; searching for the next one", *CONTENTS]


def test_a_block_is_decompressed_in_parts_up_to_its_header_size() -> None:
    bomb = zlib.compress(b"\0" * (8 << 20))
    head = struct.pack(">4sBBHIIIQQI", b"NRIB", 1, 1, 0, len(bomb), 300_000, 1, 0, 0, zlib.crc32(bomb))
    file = io.BytesIO(MAGIC + head + struct.pack(">I", zlib.crc32(head)) + bomb)
    (header,) = scan(file)
    assert isinstance(header, Header)
    lengths: list[int] = []
    pieces = (lengths.append(len(piece)) for piece in contents(file, header))
    with pytest.raises(RemoteProtocolError, match="announced 300000 bytes"):
        deque(pieces, 0)
    assert sum(lengths) <= 300_000 and max(lengths) <= 64 << 10


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_records_are_found_for_any_split_of_a_block(size: int) -> None:
    values = [b"", b"a", b"b" * 127, b"c" * 128, b"d" * 500, b"e" * 3000]
    data = b"".join(bytes_field(1, value) or b"\x0a\x00" for value in values) + b"\x10\x05" + bytes_field(7, b"new")
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    assert list(split(pieces, 1000)) == [*values[:-1], None]


def test_the_number_of_unknown_fields_in_a_block_is_bounded() -> None:
    with pytest.raises(RemoteProtocolError, match="more than 1000 fields other than records"):
        list(split([b"\x12\x00" * 5000], 1000))
