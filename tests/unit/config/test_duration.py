"""Durations in Go's notation, which containerd, CRI-O and plugins use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.config import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5.0), ("1m30s", 90.0), ("500ms", 0.5), ("0", 0.0), ("0s", 0.0), ("1h0m1s", 3601.0), ("-2s", -2.0),
     ("+2s", 2.0), ("1.5s", 1.5), (".5s", 0.5), ("2us", 2e-6), ("2µs", 2e-6), ("100ns", 1e-7)],
)  # fmt: skip
def test_a_duration_is_read_like_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5sec", "1m30", "--5s", "+-5s", "abc", "5s ", "1,5s", "-"])
def test_an_invalid_duration_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write a number with a unit, such as 2s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5.0, "5s"),
        (90.0, "1m30s"),
        (0.5, "500ms"),
        (0.0, "0s"),
        (3601.0, "1h0m1s"),
        (-2.0, "-2s"),
        (1.5, "1.5s"),
        (2e-6, "2µs"),
        (60.0, "1m0s"),
    ],
)
def test_a_duration_is_printed_like_in_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**16))
def test_a_round_trip_loses_only_float_rounding(nanos: int) -> None:
    seconds = nanos / 1e9
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-9)
