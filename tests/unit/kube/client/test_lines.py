"""Bytes cut into lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube.client.lines import Lines, TooLong


@given(st.lists(st.text("ab \r", max_size=9)), st.lists(st.integers(0, 60)))
def test_lines_come_out_as_they_were_however_they_are_cut(lines: list[str], cuts: list[int]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    cutter = Lines(100)
    found = [line for one, two in pairwise(ends) for line in cutter.feed(data[one:two])]
    assert found == [line.strip().encode() for line in lines if line.strip()]


def test_what_has_no_end_yet_is_kept_back() -> None:
    cutter = Lines(100)
    assert cutter.feed(b"ab") == []
    assert cutter.feed(b"c\nd") == [b"abc"]


@pytest.mark.parametrize(
    "pieces", [(b"x" * 11,), (b"x" * 6, b"x" * 5), (b"x" * 11 + b"\n",), (b"a\n" + b"x" * 11 + b"\nb",)]
)
def test_a_line_that_is_too_long_is_refused_also_before_its_end(pieces: tuple[bytes, ...]) -> None:
    cutter = Lines(10)
    with pytest.raises(TooLong):
        list(map(cutter.feed, pieces))


def test_a_line_of_the_bound_is_taken() -> None:
    assert Lines(10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
