"""Counts of the agent: decisions by hook, stage and error; writes by knob and outcome; gauges that others give.

Rules: any thread may call it; a call is a lookup and an addition. The text for Prometheus is made at a scrape, by hand,
so that it needs no library. Labels are words of this package, never a text of a pod, so that their number is bounded.
Next: `nri.agent.explain`, which keeps what these only count.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from nri.host import KNOBS, Result

__all__ = ["BUCKETS", "METRICS", "Observer"]

#: Upper bounds of the seconds that deciding takes.
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

#: The metrics: kind, labels, and what each counts. `nri_agent_` stands before each name.
METRICS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "decisions_total": ("counter", ("transport", "stage"), "Times that the hooks of a stage were asked."),
    "decision_seconds": ("histogram", ("transport", "stage"), "How long the hooks of a stage took together."),
    "hook_changes_total": ("counter", ("transport", "stage", "hook"), "Times that a hook wanted a change."),
    "hook_errors_total": ("counter", ("transport", "stage", "hook"), "Times that a hook could not decide."),
    "writes_total": ("counter", ("knob", "outcome"), "Writes to the machine, by what came of them."),
    "left_out_total": ("counter", ("reason",), "Work that a bound has left out."),
    "events_total": (
        "counter",
        ("transport", "event"),
        "What was met: connected, refused, synchronized, eviction, eviction refused.",
    ),
    "ready": ("gauge", ("part",), "Whether a part does its work: 1 or 0."),
    "rule_problems": ("gauge", ("kind",), "Documents that cannot be read, whose last good form is in force."),
    "held": ("gauge", ("what",), "How much is remembered: pods, bytes, writes that wait for their cgroup."),
}
_PREFIX = "nri_agent_"
#: A knob that is not in the table of knobs, such as one of a resctrl group, is counted by the first word of its name.
_OTHERS = ("schemata", "tasks", "group", "oom_score_adj", "core_sched")

_Labels = tuple[str, ...]


class Observer:
    """Counts what the agent does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[_Labels]] = {
            name: Counter() for name, (kind, _, _) in METRICS.items() if kind == "counter"
        }
        self._seconds: dict[_Labels, tuple[list[int], float]] = {}
        self._gauges: dict[str, Callable[[], Mapping[str, float]]] = {}

    def decided(
        self, transport: str, stage: str, seconds: float, changed: Iterable[str], failed: Iterable[str]
    ) -> None:
        """The hooks of a stage were asked: how long they took, which wanted changes, which could not decide."""
        with self._lock:
            self._counts["decisions_total"][transport, stage] += 1
            buckets, total_s = self._seconds.get((transport, stage)) or ([0] * (len(BUCKETS) + 1), 0.0)
            buckets[bisect_left(BUCKETS, seconds)] += 1
            self._seconds[transport, stage] = buckets, total_s + seconds
            for hook in changed:
                self._counts["hook_changes_total"][transport, stage, hook] += 1
            for hook in failed:
                self._counts["hook_errors_total"][transport, stage, hook] += 1

    def wrote(self, results: Iterable[Result]) -> None:
        """Writes were made, or found to be needless or not possible."""
        with self._lock:
            for result in results:
                self._counts["writes_total"][_knob(result.name), result.outcome.value] += 1

    def left_out(self, reason: str, count: int = 1) -> None:
        """A bound was met; `reason` is a word of the program, such as `pending`."""
        with self._lock:
            self._counts["left_out_total"][(reason,)] += count

    def met(self, transport: str, event: str) -> None:
        """A transport met something: a word of the program, such as `connected`."""
        with self._lock:
            self._counts["events_total"][transport, event] += 1

    def gauge(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Give a gauge (`ready`, `held`) values at each scrape, by label; several may give to one."""
        with self._lock:
            self._gauges[f"{name} {len(self._gauges)}"] = read

    def text(self) -> str:
        """All metrics in the text format of Prometheus, version 0.0.4."""
        with self._lock:
            counts = {name: sorted(each.items()) for name, each in self._counts.items()}
            seconds = sorted((labels, list(buckets), total) for labels, (buckets, total) in self._seconds.items())
            gauges = list(self._gauges.items())
        lines: list[str] = []
        for name, (kind, labels, explained) in METRICS.items():
            lines += [f"# HELP {_PREFIX}{name} {explained}", f"# TYPE {_PREFIX}{name} {kind}"]
            if kind == "counter":
                lines += [_line(name, labels, values, count) for values, count in counts[name]]
            elif kind == "histogram":
                lines += [line for row in seconds for line in _histogram(name, labels, *row)]
            else:
                read = [each for key, each in gauges if key.split(" ")[0] == name]
                lines += [_line(name, labels, (key,), value) for each in read for key, value in each().items()]
        return "\n".join(lines) + "\n"


def _knob(name: str) -> str:
    if name in KNOBS:
        return name
    first = name.partition(".")[0]
    return first if first in _OTHERS else "other"


def _line(name: str, labels: _Labels, values: _Labels, number: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True))
    return (
        f"{_PREFIX}{name}{{{pairs}}} {number:g}"
        if isinstance(number, float)
        else f"{_PREFIX}{name}{{{pairs}}} {number}"
    )


def _histogram(name: str, labels: _Labels, values: _Labels, buckets: list[int], total_s: float) -> Iterator[str]:
    running = list(accumulate(buckets))
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], running, strict=True):
        yield _line(f"{name}_bucket", (*labels, "le"), (*values, bound), count)
    yield _line(f"{name}_sum", labels, values, total_s)
    yield _line(f"{name}_count", labels, values, running[-1])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
