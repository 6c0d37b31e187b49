"""Sizes of terminals are read from any split of the bytes; requests name their streams."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.channels import ERROR, RESIZE, STDERR, STDIN, STDOUT, Resize, SizeReader, requested_streams

SIZES = st.tuples(st.integers(0, 65535), st.integers(0, 65535))


@given(st.lists(SIZES, max_size=5), st.integers(1, 40))
def test_sizes_are_read_from_parts_of_any_size(sizes: list[tuple[int, int]], size: int) -> None:
    data = b"".join(json.dumps({"Width": width, "Height": height}).encode() + b"\n" for width, height in sizes)
    reader = SizeReader()
    events = [size_ for at in range(0, len(data), size) for size_ in reader.receive(data[at : at + size])]
    assert events == [Resize(*size_) for size_ in sizes]


@pytest.mark.parametrize(
    "data",
    [
        b'{"Width": -1, "Height": 2}',
        b'{"Width": 70000, "Height": 2}',
        b'{"Width": true, "Height": 2}',
        b'{"Width": 5}',
        b'{"Width": "5", "Height": 2}',
        b"[1, 2]",
        b"7",
    ],
)
def test_invalid_sizes_are_ignored(data: bytes) -> None:
    reader = SizeReader()
    assert [*reader.receive(data)] == []
    assert [*reader.receive(b' {"width": 5, "HEIGHT": 6}')] == [Resize(5, 6)]


def test_many_sizes_are_read_in_linear_time() -> None:
    before = time.process_time()
    assert [*SizeReader().receive(b"{} " * 500_000 + b'{"Width": 5, "Height": 6}')] == [Resize(5, 6)]
    assert time.process_time() - before < 8


@pytest.mark.parametrize("data", [b"nonsense", b'{"a": "' + b"x" * 5000, b"\xff", b'{"a":' * 2000])
def test_invalid_json_ends_the_channel(data: bytes) -> None:
    reader = SizeReader()
    assert [*reader.receive(data)] == [] and [*reader.receive(b'{"Width": 5, "Height": 6}')] == []


def test_a_request_uses_the_streams_that_it_names() -> None:
    assert requested_streams(stdin=True, stdout=True, stderr=True, tty=False) == {STDIN, STDOUT, STDERR, ERROR}
    assert requested_streams(stdin=False, stdout=True, stderr=True, tty=True) == {STDOUT, ERROR, RESIZE}
