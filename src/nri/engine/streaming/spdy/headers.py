"""Blocks of SPDY headers: names and values, compressed in one stream over all frames of a connection.

Rules: what unpacks to more than a few kilobytes, or names more headers than Kubernetes has, ends the connection: the
stream of the compression cannot be taken up again behind it. Names are in small letters.
Source: the SPDY/3.1 draft, section 2.6.10.
Next: :mod:`nri.engine.streaming.spdy.dictionary`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from nri.engine.streaming.spdy.dictionary import DICTIONARY
from nri.errors import RemoteProtocolError

__all__ = ["HeaderPacker", "HeaderReader"]

#: How long a block may be, unpacked, in bytes; and how many headers it may have.
BLOCK_LIMIT: Final = 16384
COUNT_LIMIT: Final = 64


class HeaderReader:
    """Unpacks the blocks of one direction, in their order."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """The headers of a block. Raises RemoteProtocolError."""
        try:
            data = self._stream.decompress(block, BLOCK_LIMIT + 1)
        except zlib.error as error:
            raise RemoteProtocolError(f"SPDY headers cannot be unpacked: {error}") from None
        if len(data) > BLOCK_LIMIT or self._stream.unconsumed_tail:
            raise RemoteProtocolError(f"SPDY headers of more than {BLOCK_LIMIT} bytes")
        return _parse(data)


def _parse(data: bytes) -> dict[str, str]:
    count, at = _number(data, 0), 4
    if count > COUNT_LIMIT:
        raise RemoteProtocolError(f"{count} SPDY headers, at most {COUNT_LIMIT} are taken")
    found: dict[str, str] = {}
    for _ in range(count):
        pair = []
        for _ in range(2):
            end = at + 4 + _number(data, at)
            if end > len(data):
                raise RemoteProtocolError("SPDY headers end in the middle of one")
            pair.append(data[at + 4 : end].decode("latin-1"))
            at = end
        name, value = pair[0].lower(), pair[1]
        if not name or name in found:
            raise RemoteProtocolError(
                f"SPDY header {name!r} stands there twice" if name else "SPDY header without name"
            )
        found[name] = value
    return found


def _number(data: bytes, at: int) -> int:
    if len(data) < at + 4:
        raise RemoteProtocolError("SPDY headers end in the middle of a number")
    return int.from_bytes(data[at : at + 4], "big")


class HeaderPacker:
    """Packs the blocks of one direction, in their order."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """The block of some headers."""
        words = [len(headers).to_bytes(4, "big")]
        for pair in headers.items():
            for word in pair:
                data = word.encode("latin-1")
                words.append(len(data).to_bytes(4, "big") + data)
        return self._stream.compress(b"".join(words)) + self._stream.flush(zlib.Z_SYNC_FLUSH)
