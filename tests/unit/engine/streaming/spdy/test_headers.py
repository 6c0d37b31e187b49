"""Blocks of SPDY headers are one compressed stream with a size limit."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.spdy.headers import DICTIONARY, MAX_BLOCK_BYTES, MAX_HEADERS, HeaderPacker, HeaderReader
from nri.errors import RemoteProtocolError

WORDS = st.text(st.characters(max_codepoint=255), max_size=20)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)


@given(st.lists(st.dictionaries(NAMES, WORDS, max_size=5), max_size=4))
def test_blocks_are_read_in_order(blocks: list[dict[str, str]]) -> None:
    packer, reader = HeaderPacker(), HeaderReader()
    assert [reader.read(packer.pack(block)) for block in blocks] == blocks


def test_a_block_of_the_go_client_is_read() -> None:
    """moby/spdystream v0.5.1 sends this block for the error stream of a forwarded connection."""
    block = "78f9e3c6a7c202253a48f95b044aab4c16060c0c0c9c4590d8ca04a5624603703a2c294a4dcc851635aca9a08800000000ffff"
    headers = HeaderReader().read(bytes.fromhex(block))
    assert headers == {"streamtype": "error", "port": "80", "requestid": "0"}


def raw(data: bytes) -> bytes:
    packer = zlib.compressobj(zdict=DICTIONARY)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def word(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def one(name: bytes, value: bytes = b"v") -> bytes:
    return word(name) + word(value)


def test_names_become_lowercase() -> None:
    assert HeaderReader().read(raw(b"\0\0\0\1" + one(b"streamType", b"Error"))) == {"streamtype": "Error"}


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"not packed at all", "cannot be decompressed"),
        (b"", "are incomplete"),
        (raw(b"\0\0"), "are incomplete"),
        (raw(b"\0\0\0\1" + word(b"name")), "are incomplete"),
        (raw(b"\0\0\0\1" + one(b"name")[:-1]), "are incomplete"),
        (raw(b"\0\0\0\2" + one(b"a") + one(b"A")), "twice"),
        (raw(b"\0\0\0\1" + one(b"")), "without a name"),
        (raw((MAX_HEADERS + 1).to_bytes(4, "big")), "65 SPDY headers"),
        (raw(b"\0\0\0\1" + one(b"a", bytes(MAX_BLOCK_BYTES))), "exceed 16384"),
        (raw(bytes(50_000_000)), "exceed 16384"),
    ],
)
def test_an_invalid_block_is_an_error_with_the_reason(block: bytes, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        HeaderReader().read(block)


def test_the_dictionary_equals_the_drafts() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_a_block_is_not_decompressed_beyond_the_limit() -> None:
    block, reader = raw(bytes(50_000_000)), HeaderReader()
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="exceed 16384"):
            reader.read(block)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
