"""Statistics of plugin calls in bounded memory: counts, failures, percentiles of durations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: At most this many rows are stored: names of plugins and events are not trusted.
MAX_ROWS: Final = 4_000
#: Different durations that all rows may store, in any case.
_DURATIONS = 50_000
#: A further duration may be stored for this many bytes of a recording.
_BYTES_PER_DURATION = 40


def percentile(counts: Counter[float], percent: int) -> float | None:
    """The smallest value that `percent` percent of the values do not exceed. Returns None without values."""
    below = 0
    for value in sorted(counts):
        below += counts[value]
        if below * 100 >= counts.total() * percent:
            return value
    return None


class DurationRoom:
    """The number of different durations that the rows of a table may store, which depends on the size of the recording.

    Attributes:
        left_out: the calls whose duration was not stored.
    """

    def __init__(self, recording_bytes: int = 0) -> None:
        self._remaining_durations = _DURATIONS + recording_bytes // _BYTES_PER_DURATION
        self.left_out = 0

    def take(self) -> bool:
        """Reserve room for a duration. Returns whether there was room."""
        self._remaining_durations -= 1
        self.left_out += self._remaining_durations < 0
        return self._remaining_durations >= 0


class CallStats:
    """The statistics of a plugin for an event. Durations have three decimal digits."""

    def __init__(self, room: DurationRoom | None = None) -> None:
        self._duration_room = room or DurationRoom()
        self.count = self.errors = self.refused = 0
        self.durations: Counter[float] = Counter()

    def take(self, call_ms: float | None, failed: bool, refused: bool) -> None:
        """Count a call. `call_ms` is None if the call did not end; `refused` is true if its answer was refused."""
        self.count += 1
        self.errors += failed
        self.refused += refused
        if call_ms is not None:
            duration_ms = float(f"{call_ms:.3g}")
            if duration_ms in self.durations or self._duration_room.take():
                self.durations[duration_ms] += 1

    def row(self) -> dict[str, Any]:
        """The statistics as a JSON object."""
        return {
            "count": self.count,
            "p50_ms": percentile(self.durations, 50),
            "p99_ms": percentile(self.durations, 99),
            "errors": self.errors,
            "refused": self.refused,
        }


class AllCallStats:
    """A `CallStats` for each plugin and event.

    Args:
        recording_bytes: the size of the recording.

    Attributes:
        left_out: the calls without a row, because there were too many rows.
        room: the room for durations.
    """

    def __init__(self, recording_bytes: int = 0) -> None:
        self.left_out = 0
        self.room = DurationRoom(recording_bytes)
        self._sums: dict[tuple[str, str], CallStats] = {}
        self._overflow = CallStats(self.room)

    def of(self, plugin: str, event: str) -> CallStats:
        """Return the statistics of a plugin for an event."""
        stats = self._sums.get((plugin, event))
        if stats is None:
            if len(self._sums) >= MAX_ROWS:
                self.left_out += 1
                return self._overflow
            stats = self._sums[plugin, event] = CallStats(self.room)
        return stats

    def rows(self) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
        """Yield the rows, sorted by plugin and event."""
        return ((key, self._sums[key].row()) for key in sorted(self._sums))
