"""The events of a node now: the rows of its admin socket, read on and on, and summed up over the last minute.

    live = Live(lambda method, request: ask(path, method, request))
    live.poll()
    live.summary()

One job: to keep what `nri top` and `nri inspect` show, so that both show the same. Bounded in rows and in time. It asks
and never waits. Next: `nri.adaptation.admin` says what the rows have.
"""

from __future__ import annotations

from collections import Counter, deque
from time import time
from typing import TYPE_CHECKING, Any, Final

from nri.trace.sums import Sum, percentile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_ROWS", "Live", "plugin_rows"]

#: Rows that are kept, and seconds that the summary is of.
MOST_ROWS: Final = 10_000
WINDOW_S: Final = 60.0
#: Readings of one `poll`: so many rows come at once that more would never end.
_MOST_READINGS: Final = 16


class Live:
    """Reads a runtime's admin socket on.

    Args:
        ask: asks it: method and request to the reply; what it raises goes through.
        clock: seconds since 1970.

    Attributes:
        rows: the last rows, as the admin socket gives them, with `n` counted on where the runtime began again.
        missed: rows that were gone before they could be read.
    """

    def __init__(
        self, ask: Callable[[str, dict[str, Any]], dict[str, Any]], *, clock: Callable[[], float] = time
    ) -> None:
        self._ask, self._clock = ask, clock
        self._run, self._after, self._newest = "", 0, 0
        self._begun = clock()
        self.rows: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self.missed = 0
        self.health: list[dict[str, Any]] = []

    def poll(self) -> int:
        """Read what is new; returns how many rows that are."""
        self.health = self._ask("Plugins", {})["plugins"]
        found = 0
        for _ in range(_MOST_READINGS):
            answer = self._ask("Events", {"run": self._run, "after": self._after})
            self._run, self._after = answer["run"], answer["next"]
            self.missed += answer["missed"]
            for row in answer["rows"]:
                self._newest += 1
                self.rows.append({**row, "n": self._newest})
            found += len(answer["rows"])
            if not answer["more"]:
                break
        return found

    def summary(self) -> dict[str, Any]:
        """The last minute, or since the first reading: events, failures, misses, and a row for each plugin."""
        now = self._clock()
        begun = min(self._begun, self.rows[0]["time_ms"] / 1e3) if self.rows else self._begun
        seconds = max(min(WINDOW_S, now - begun), 1e-3)
        rows = []
        for row in reversed(self.rows):
            if row["time_ms"] < (now - WINDOW_S) * 1e3:
                break
            rows.append(row)
        events = [row for row in rows if "steps" in row]
        taken = Counter(float(f"{row['duration_ms']:.3g}") for row in events)
        return {
            "seconds": round(seconds, 3),
            "events": len(events),
            "events_per_s": round(len(events) / seconds, 2),
            "failed": sum(1 for row in events if row["error"]),
            "p50_ms": percentile(taken, 50),
            "p99_ms": percentile(taken, 99),
            "unread": self.missed,
            "plugins": plugin_rows(events, self.health, seconds),
        }


def plugin_rows(events: list[dict[str, Any]], health: list[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """A row for each plugin, in the order of the chain: its health, and what these events say of it."""
    sums: dict[str, Sum] = {}
    missed: Counter[str] = Counter()
    conflicts: Counter[str] = Counter()
    for event in events:
        for step in event["steps"]:
            plugin = step["plugin"]
            sums.setdefault(plugin, Sum()).take(step["duration_ms"], bool(step["error"]), bool(step["refused"]))
            missed[plugin] += step["missed"]
            conflicts[plugin] += step["conflict"]
    known = {row["plugin"]: row for row in health}
    rows = []
    for plugin in sorted({*known, *sums}):
        about, own = known.get(plugin, {}), sums.get(plugin, Sum()).row()
        rows.append(
            {
                "plugin": plugin,
                "state": about.get("state", ""),
                "kind": about.get("kind", ""),
                "events": about.get("events", ""),
                "calls": own["count"],
                "calls_per_s": round(own["count"] / seconds, 2) if seconds else None,
                "p50_ms": own["p50_ms"],
                "p99_ms": own["p99_ms"],
                "missed": missed[plugin],
                "errors": own["errors"],
                "refused": own["refused"],
                "conflicts": conflicts[plugin],
                "last_error": about.get("last_error", ""),
            }
        )
    return rows
