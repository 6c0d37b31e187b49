"""Protobuf's wire format: fields, invalid messages and caches. See also tests/property."""

from __future__ import annotations

import pytest

from nri import wire
from nri.errors import RemoteProtocolError


def test_cached_lengths_are_bounded_and_correct() -> None:
    for length in range(0, 0x4000, 3):
        assert wire.read_varint(wire.LENGTHS.get(length) or wire.varint(length), 0)[0] == length
    assert len(wire.LENGTHS) <= 1024
    assert all(wire.read_varint(encoded, 0) == (n, len(encoded)) for n, encoded in wire.LENGTHS.items())


def test_large_lengths_are_not_cached() -> None:
    assert wire.varint(1 << 30) == b"\x80\x80\x80\x80\x04"
    assert 1 << 30 not in wire.LENGTHS


@pytest.mark.parametrize("value", [0, 127, 128, 0x3FFF, 0x4000, (1 << 63) - 1, -1])
def test_numbers_of_any_size_survive_a_round_trip(value: int) -> None:
    encoded = wire.varint(value)
    assert wire.read_varint(b"\xff" + encoded, 1) == (value % (1 << 64), 1 + len(encoded))


def test_a_field_of_each_wire_type_is_read() -> None:
    data = wire.varint_field(1, 300) + b"\x11" + bytes(range(8)) + wire.bytes_field(3, b"abc") + b"\x25" + b"wxyz"
    assert list(wire.iter_fields(data)) == [
        (1, 0, 300), (2, 1, bytes(range(8))), (3, 2, b"abc"), (4, 5, b"wxyz"),
    ]  # fmt: skip
    assert wire.varint_field(1, 0) == b"", "zero is left out"
    assert wire.tag(3, 2) == b"\x1a"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08\x80", "varint is cut short"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "varint is longer than ten bytes"),
        (b"\x00", "field number 0 is not allowed"),
        (wire.varint(1 << 32), "field number 536870912 is not allowed"),
        (b"\x0b", "field 1 has wire type 3"),
        (b"\x0a\x05ab", "field 1 is cut short: 5 bytes announced, 2 left"),
    ],
)
def test_invalid_bytes_are_an_error_with_the_position(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        list(wire.iter_fields(data))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384])
def test_sole_field_returns_the_value_of_the_only_field(length: int) -> None:
    value = b"x" * length
    assert wire.sole_field(wire.bytes_field(2, value), 2) == value
    assert wire.sole_field(b"??" + wire.bytes_field(2, value), 2, 2) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x12",
        wire.bytes_field(1, b"x"),
        wire.bytes_field(2, b"x") * 2,
        wire.bytes_field(2, b"x")[:-1],
        b"\x12" + b"\xff" * 11,
        b"\x12\x80",
    ],
    ids=["nothing", "no length", "another", "twice", "cut short", "no length that ends", "length cut short"],
)
def test_several_fields_have_no_sole_field(data: bytes) -> None:
    assert wire.sole_field(data, 2) is None
