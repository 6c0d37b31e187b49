"""Blocks of SPDY headers. One stream of compression covers all blocks of a connection.

A block that is too long ends the connection, because the compression cannot continue without the rest of the block.
Names are in lowercase.

Sources: the SPDY/3.1 draft, section 2.6.10, and for the dictionary the SPDY/3 draft, section 2.6.10.1.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from nri.errors import RemoteProtocolError

_WORDS: Final = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
authorization cache-control connection content-base content-encoding content-language content-length content-location
content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range
referer retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get
status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
_STATUS: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _length_prefixed(word: str) -> bytes:
    return len(word).to_bytes(4, "big") + word.replace("_", " ").encode()


#: The initial dictionary of the compression: 1423 bytes of frequent names and values.
DICTIONARY: Final = b"".join(_length_prefixed(word) for word in _WORDS.split()) + _STATUS.encode()

#: The maximum length of a decompressed block in bytes.
MAX_BLOCK_BYTES: Final = 16384
#: The maximum number of headers in a block.
MAX_HEADERS: Final = 64


class HeaderReader:
    """A reader of the blocks of one direction. The blocks have to be read in order."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block. Raises RemoteProtocolError if the block is invalid or too long."""
        try:
            data = self._stream.decompress(block, MAX_BLOCK_BYTES + 1)
        except zlib.error as error:
            raise RemoteProtocolError(f"SPDY headers cannot be decompressed: {error}") from None
        if len(data) > MAX_BLOCK_BYTES or self._stream.unconsumed_tail:
            raise RemoteProtocolError(f"SPDY headers exceed {MAX_BLOCK_BYTES} bytes")
        return _parse(data)


def _parse(data: bytes) -> dict[str, str]:
    count, offset = _number(data, 0), 4
    if count > MAX_HEADERS:
        raise RemoteProtocolError(f"{count} SPDY headers, at most {MAX_HEADERS} are allowed")
    headers: dict[str, str] = {}
    for _ in range(count):
        pair = []
        for _ in range(2):
            end = offset + 4 + _number(data, offset)
            if end > len(data):
                raise RemoteProtocolError("SPDY headers are incomplete")
            pair.append(data[offset + 4 : end].decode("latin-1"))
            offset = end
        name, value = pair[0].lower(), pair[1]
        if not name or name in headers:
            raise RemoteProtocolError(f"SPDY header {name!r} is used twice" if name else "SPDY header without a name")
        headers[name] = value
    return headers


def _number(data: bytes, offset: int) -> int:
    if len(data) < offset + 4:
        raise RemoteProtocolError("SPDY headers are incomplete")
    return int.from_bytes(data[offset : offset + 4], "big")


class HeaderPacker:
    """A writer of the blocks of one direction. The blocks have to be sent in order."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """Return the compressed block of headers."""
        words = [len(headers).to_bytes(4, "big")]
        for pair in headers.items():
            for word in pair:
                data = word.encode("latin-1")
                words.append(len(data).to_bytes(4, "big") + data)
        return self._stream.compress(b"".join(words)) + self._stream.flush(zlib.Z_SYNC_FLUSH)
