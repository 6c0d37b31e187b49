"""Follow the events of a runtime's admin socket, and summarize the last minute, for `nri top` and `nri inspect`.

    with Live(ask, follow) as live:
        live.summary()

The rows come from `nri.adaptation.admin`. A thread reads them, and connects again after a restart of the runtime.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from contextlib import contextmanager
from itertools import islice
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, Self

from nri.errors import DeadlineExceeded, RemoteProtocolError
from nri.trace.call_stats import CallStats, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.adaptation.admin_client import AdminClient

#: At most this many rows are stored.
MAX_ROWS: Final = 10_000
#: The summary covers this time, in seconds.
WINDOW_S: Final = 60.0
#: The pause before connecting again, in seconds.
_RETRY_S = 1.0
#: A summary is reused for this time, in seconds.
_SUMMARY_S = 0.5


class Live:
    """Reads a runtime's admin socket between `start` and `close`, or in a `with` block. Thread-safe.

    Args:
        ask: calls a method with a request; returns the reply.
        follow: yields readings of events, beginning with a request.
        clock: returns the time in seconds since 1970.
        first_s: the timeout of the first reading, in seconds.

    Attributes:
        missed: the number of rows that were dropped before they could be read.
    """

    def __init__(
        self,
        ask: Callable[[str, dict[str, Any]], dict[str, Any]],
        follow: Callable[[dict[str, Any]], Iterator[dict[str, Any]]],
        *,
        clock: Callable[[], float] = time,
        first_s: float = 5.0,
    ) -> None:
        self._first_s = first_s
        self._ask, self._follow, self._clock = ask, follow, clock
        self._run, self._next_position, self._newest = "", 0, 0
        self._begun = clock()
        self._rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self._condition = threading.Condition()
        self._stop_event = threading.Event()
        self._is_read = False
        self._failure: Exception | None = None
        self._summary: tuple[float, dict[str, Any]] | None = None
        self.missed = 0

    def start(self) -> None:
        """Start reading. Raises the errors of `follow`, and DeadlineExceeded without a first reading."""
        threading.Thread(target=self.run, name="nri-live", daemon=True).start()
        with self._condition:
            if not self._condition.wait_for(lambda: self._is_read or self._failure, self._first_s):
                self._failure = DeadlineExceeded(f"the first reading ({self._first_s:g} s)")
            if self._failure is not None:
                self._stop_event.set()
                raise self._failure

    def close(self) -> None:
        """Stop reading."""
        self._stop_event.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Read until `close`."""
        while not self._stop_event.is_set():
            try:
                for reading in self._follow({"run": self._run, "after": self._next_position}):
                    self.take(reading)
                    if self._stop_event.is_set():
                        return
            except Exception as error:  # noqa: BLE001 - `summary` raises it
                with self._condition:
                    self._failure = error
                    self._condition.notify_all()
            self._stop_event.wait(_RETRY_S)

    def take(self, reading: dict[str, Any]) -> None:
        """Add the rows of a reading."""
        with self._condition:
            self._run, self._next_position = reading["run"], reading["next"]
            self.missed += reading["missed"]
            for row in reading["rows"]:
                self._newest += 1
                self._rows.append({**row, "n": self._newest})
            self._failure, self._is_read = None, True
            self._condition.notify_all()

    def rows(self, after: int = 0) -> list[dict[str, Any]]:
        """The stored rows after a number. `n` numbers rows across restarts of the runtime."""
        with self._condition:
            first = self._newest - len(self._rows)
            return list(islice(self._rows, max(0, after - first), None))

    def wait(self, after: int, timeout_s: float) -> None:
        """Wait until there is a row after this number, or the timeout has passed."""
        with self._condition:
            self._condition.wait_for(lambda: self._newest > after, timeout_s)

    def summary(self) -> dict[str, Any]:
        """Summarize the last minute, or the time since the first reading: events, failures, misses, plugins, runtime.

        The summary may be half a second old. Raises the errors of `ask` and `follow`.
        """
        if self._summary is None or monotonic() - self._summary[0] > _SUMMARY_S:
            reply = self._ask("Plugins", {})
            if self._failure is not None:
                raise self._failure
            try:
                runtime = {key: str(text) for key, text in (reply.get("runtime") or {}).items()}
                self._summary = monotonic(), {**self._sum_up(reply.get("plugins") or []), "runtime": runtime}
            except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise RemoteProtocolError(f"invalid rows of plugins or events: {error!r}") from None
        return self._summary[1]

    def _sum_up(self, health: list[dict[str, Any]]) -> dict[str, Any]:
        now, rows = self._clock(), self.rows()
        begun = min(self._begun, rows[0]["time_ms"] / 1e3) if rows else self._begun
        if len(rows) == MAX_ROWS:
            begun = rows[0]["time_ms"] / 1e3  # earlier rows were dropped
        seconds = max(min(WINDOW_S, now - begun), 1e-3)
        events = [row for row in rows if "steps" in row and row["time_ms"] >= (now - seconds) * 1e3]
        durations = Counter(float(f"{row['duration_ms']:.3g}") for row in events)
        return {
            "seconds": round(seconds, 3),
            "events": len(events),
            "events_per_s": round(len(events) / seconds, 2),
            "failed": sum(1 for row in events if row["error"]),
            "p50_ms": percentile(durations, 50),
            "p99_ms": percentile(durations, 99),
            "unread": self.missed,
            "plugins": plugin_rows(events, health, seconds),
        }


@contextmanager
def live_events(client: AdminClient) -> Iterator[Live]:
    """Follow the events of a runtime until the block ends. Raises NriError if the runtime does not answer."""
    live = Live(client.ask, client.follow, first_s=client.timeout_s)
    with client.explained():
        live.start()
        try:
            yield live
        finally:
            live.close()


def plugin_rows(events: list[dict[str, Any]], health: list[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """A row for each plugin in the order of indices: its health, and its statistics in these events."""
    sums: dict[str, CallStats] = {}
    missed: Counter[str] = Counter()
    conflicts: Counter[str] = Counter()
    for event in events:
        for step in event["steps"]:
            plugin = step["plugin"]
            sums.setdefault(plugin, CallStats()).take(step["duration_ms"], bool(step["error"]), bool(step["refused"]))
            missed[plugin] += step["missed"]
            conflicts[plugin] += step["conflict"]
    health_by_plugin = {row["plugin"]: row for row in health}
    rows = []
    for plugin in sorted({*health_by_plugin, *sums}):
        health_row, stats = health_by_plugin.get(plugin, {}), sums.get(plugin, CallStats()).row()
        rows.append(
            {
                "plugin": plugin,
                "state": health_row.get("state", ""),
                "kind": health_row.get("kind", ""),
                "events": health_row.get("events", ""),
                "calls": stats["count"],
                "calls_per_s": round(stats["count"] / seconds, 2) if seconds else None,
                "p50_ms": stats["p50_ms"],
                "p99_ms": stats["p99_ms"],
                "missed": missed[plugin],
                "errors": stats["errors"],
                "refused": stats["refused"],
                "conflicts": conflicts[plugin],
                "last_error": health_row.get("last_error", ""),
            }
        )
    return rows
