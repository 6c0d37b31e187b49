"""Calls over time: each interval has its number, p50 and p99, and hostile names and times cost no memory."""

from __future__ import annotations

import tracemalloc

import pytest

from nri.trace.time_series import MAX_PLUGINS, TimeSeries


def test_each_interval_has_the_number_and_the_percentiles_of_its_calls() -> None:
    series = TimeSeries(1000.0, 4)
    for time_ms, duration_ms in ((5000, 1.0), (5999, 1.0), (6000, 128.0), (6500, None), (8999, 2.0)):
        series.take("10-a", time_ms, duration_ms)
    document = series.to_json(8000.0)
    assert (document["begin_ms"], document["interval_ms"], document["left_out"]) == (5000.0, 1000.0, 0)
    row = document["plugins"]["10-a"]
    assert row["calls"] == [2, 2, 0, 1]
    assert row["p50_ms"] == [1.0, 128.0, None, 2.0]
    assert row["p99_ms"] == row["p50_ms"]


@pytest.mark.parametrize("duration_ms", [0.0009, 0.01, 0.37, 1.0, 17.3, 999.0, 86_400.0])
def test_a_percentile_is_at_most_a_tenth_too_long(duration_ms: float) -> None:
    series = TimeSeries(1000.0, 1)
    series.take("10-a", 0.0, duration_ms)
    ((value,),) = (row["p99_ms"] for row in series.to_json(0.0)["plugins"].values())
    assert duration_ms * 0.999 <= value <= duration_ms * 1.1


@pytest.mark.parametrize("duration_ms", [0.0, -1.0, 1e300])
def test_odd_durations_are_counted_within_limits(duration_ms: float) -> None:
    series = TimeSeries(1000.0, 1)
    series.take("10-a", 0.0, duration_ms)
    ((value,),) = (row["p50_ms"] for row in series.to_json(0.0)["plugins"].values())
    assert 0 < value < 1e7


def test_calls_of_plugins_above_the_limit_are_counted_as_left_out() -> None:
    series = TimeSeries(1000.0, 2)
    for number in range(MAX_PLUGINS + 5):
        series.take(f"10-{number}", 0.0, 1.0)
    document = series.to_json(0.0)
    assert (len(document["plugins"]), document["left_out"]) == (MAX_PLUGINS, 5)


def test_old_intervals_are_dropped_and_a_plugin_without_calls_has_no_line() -> None:
    series = TimeSeries(1000.0, 2)
    series.take("10-old", 0.0, 1.0)
    tracemalloc.start()
    for second in range(20_000):
        series.take("10-a", second * 1000.0, 1.0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    series.take("10-old", 0.0, 1.0)
    assert [*series.to_json(19_999_000.0)["plugins"]] == ["10-a"] and peak_bytes < 100_000


def test_calls_after_the_clock_was_set_back_are_shown() -> None:
    series = TimeSeries(1000.0, 4)
    for second in range(100, 120):
        series.take("10-a", second * 1000.0, 1.0)
    series.to_json(50_000.0)
    series.take("10-a", 50_000.0, 1.0)
    assert series.to_json(50_000.0)["plugins"]["10-a"]["calls"] == [0, 0, 0, 1]


def test_plugins_that_are_gone_make_room_for_new_plugins() -> None:
    series = TimeSeries(1000.0, 2)
    for number in range(10 * MAX_PLUGINS):
        series.take(f"10-{number}", number * 1000.0, 1.0)
    document = series.to_json((10 * MAX_PLUGINS - 1) * 1000.0)
    assert [*document["plugins"]] == [f"10-{10 * MAX_PLUGINS - 2}", f"10-{10 * MAX_PLUGINS - 1}"]
    assert document["left_out"] == 0
