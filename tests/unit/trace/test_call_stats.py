"""Statistics of calls: counts, percentiles, and a bound on the number of rows."""

from __future__ import annotations

from collections import Counter

import pytest

from nri.trace.call_stats import MAX_ROWS, AllCallStats, percentile


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([3.0], 99, 3.0), (range(1, 101), 50, 50), (range(1, 101), 99, 99), ([1, 1, 1, 9], 50, 1)],
)
def test_a_percentile_is_the_smallest_value_that_covers_its_share(
    values: list[float], percent: int, expected: float | None
) -> None:
    assert percentile(Counter(values), percent) == expected


def test_an_unfinished_call_is_counted_without_a_duration() -> None:
    sums = AllCallStats()
    sums.of("10-a", "StopContainer").take(None, failed=False, refused=False)
    sums.of("10-a", "StopContainer").take(12.3456, failed=True, refused=False)
    assert list(sums.rows()) == [
        (("10-a", "StopContainer"), {"count": 2, "p50_ms": 12.3, "p99_ms": 12.3, "errors": 1, "refused": 0})
    ]


def test_rows_are_bounded_and_the_rest_is_counted() -> None:
    sums = AllCallStats()
    for number in range(MAX_ROWS + 2):
        sums.of(f"{number}", "x").take(1.0, failed=False, refused=False)
    assert (len(list(sums.rows())), sums.left_out) == (MAX_ROWS, 2)
