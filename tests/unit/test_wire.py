"""Protobuf's wire format by hand: what is kept of it stays bounded. Its codec is held by tests/property."""

from __future__ import annotations

from nri import wire


def test_the_lengths_that_are_kept_are_bounded_and_those_of_varint() -> None:
    for length in range(0, 0x4000, 3):
        assert wire.read_varint(wire.LENGTHS.get(length) or wire.varint(length), 0)[0] == length
    assert len(wire.LENGTHS) <= 1024
    assert all(wire.read_varint(encoded, 0) == (n, len(encoded)) for n, encoded in wire.LENGTHS.items())


def test_lengths_that_are_long_are_not_kept() -> None:
    assert wire.varint(1 << 30) == b"\x80\x80\x80\x80\x04"
    assert 1 << 30 not in wire.LENGTHS
