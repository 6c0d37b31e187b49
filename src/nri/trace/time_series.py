"""The calls of each plugin over time, in bounded memory: number, p50 and p99 of the duration in each interval."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2
from typing import Any, Final

from nri.trace.call_stats import percentile

#: At most this many plugins have a series: names of plugins are not trusted.
MAX_PLUGINS: Final = 48
#: Durations are stored in this many classes for each power of two, so a percentile is up to 9 % too long.
_CLASSES_PER_POWER = 8
#: Durations are between these limits, in milliseconds.
_MIN_MS, _MAX_MS = 2.0**-10, 2.0**20


class TimeSeries:
    """The calls in the latest intervals of equal length. Not thread-safe.

    Args:
        interval_ms: the length of an interval in milliseconds.
        intervals: the number of intervals; the calls of earlier intervals are dropped.

    Attributes:
        left_out: the calls of plugins above the limit.
    """

    def __init__(self, interval_ms: float, intervals: int) -> None:
        self._interval_ms, self._intervals = interval_ms, intervals
        self._calls: dict[int, dict[str, tuple[Counter[float], list[int]]]] = {}
        self._plugins: dict[str, None] = {}
        self.left_out = 0

    def take(self, plugin: str, time_ms: float, duration_ms: float | None) -> None:
        """Count a call that began at a time since 1970. `duration_ms` is None if the call did not end."""
        interval = int(time_ms // self._interval_ms)
        if interval not in self._calls:
            if len(self._calls) >= 2 * self._intervals:
                oldest = min(self._calls)
                if interval < oldest:
                    return
                self._drop_old(oldest)
            self._calls[interval] = {}
        if plugin not in self._plugins and len(self._plugins) >= MAX_PLUGINS:
            self.left_out += 1
            return
        self._plugins[plugin] = None
        durations, number = self._calls[interval].setdefault(plugin, (Counter(), [0]))
        number[0] += 1
        if duration_ms is not None:
            durations[_upper_bound(duration_ms)] += 1

    def _drop_old(self, *intervals: int) -> None:
        """Forget intervals, and the plugins without a call in another one."""
        for interval in intervals:
            del self._calls[interval]
        stored = {plugin for calls in self._calls.values() for plugin in calls}
        self._plugins = {plugin: None for plugin in self._plugins if plugin in stored}

    def to_json(self, end_ms: float) -> dict[str, Any]:
        """The intervals up to a time, the oldest first, as lists of numbers by plugin: calls, p50_ms and p99_ms."""
        last = int(end_ms // self._interval_ms)
        self._drop_old(*[interval for interval in self._calls if interval > last + 1])  # the clock was set back
        intervals = range(last - self._intervals + 1, last + 1)
        plugins = {}
        for plugin in self._plugins:
            cells = [self._calls.get(interval, {}).get(plugin) for interval in intervals]
            if any(cells):
                plugins[plugin] = {
                    "calls": [cell[1][0] if cell else 0 for cell in cells],
                    "p50_ms": [cell and percentile(cell[0], 50) for cell in cells],
                    "p99_ms": [cell and percentile(cell[0], 99) for cell in cells],
                }
        begin_ms = intervals[0] * self._interval_ms
        return {"begin_ms": begin_ms, "interval_ms": self._interval_ms, "plugins": plugins, "left_out": self.left_out}


def _upper_bound(duration_ms: float) -> float:
    """The upper bound of a duration's class, with three decimal digits."""
    limited_ms = min(max(duration_ms, _MIN_MS), _MAX_MS)
    return float(f"{2 ** (ceil(log2(limited_ms) * _CLASSES_PER_POWER) / _CLASSES_PER_POWER):.3g}")
