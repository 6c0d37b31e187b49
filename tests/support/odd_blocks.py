"""Blocks of trace files as other versions, or broken writers, make them: with a right checksum of the header."""

from __future__ import annotations

import struct
import zlib


def odd_block(**changed: int) -> bytes:
    """A block with other values in its header than it should have."""
    stored = zlib.compress(b"x" * 100)
    known_names = {"version": 1, "codec": 1, "stored": len(stored), "raw": 100, "crc": zlib.crc32(stored), **changed}
    fields = (
        known_names["version"],
        known_names["codec"],
        0,
        known_names["stored"],
        known_names["raw"],
        1,
        0,
        0,
        known_names["crc"],
    )
    head = struct.pack(">4sBBHIIIQQI", b"NRIB", *fields)
    return head + struct.pack(">I", zlib.crc32(head)) + stored
