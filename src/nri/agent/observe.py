"""Counts of the agent: decisions by hook, stage and error; writes by knob and outcome; gauges that others give.

Rules: any thread may call it; a call is a lookup and an addition. Prometheus's objects are made at a scrape. Labels are
words of this package, so that their number is bounded; a key that nothing reads, of a rule or of a pod, is one, of a
hundred at most, for root alone. Next: `nri.agent.explain`, which keeps what these only count.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from nri.host import KNOBS, Result
from nri.metrics.prometheus import cumulative

__all__ = ["BUCKETS", "METRICS", "Observer", "PublicMetrics"]

#: Upper bounds of the seconds that deciding takes.
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

#: The metrics: kind, labels, and what each counts. `nri_agent_` is before each name.
METRICS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "decisions_total": ("counter", ("transport", "stage"), "Times that the hooks of a stage were asked."),
    "decision_seconds": ("histogram", ("transport", "stage"), "How long the hooks of a stage took together."),
    "hook_changes_total": ("counter", ("transport", "stage", "hook"), "Times that a hook wanted a change."),
    "hook_errors_total": ("counter", ("transport", "stage", "hook"), "Times that a hook could not decide."),
    "writes_total": ("counter", ("knob", "outcome"), "Writes to the machine, by what came of them."),
    "pod_slips_total": ("counter", ("transport",), "Mistakes in pods: annotations and keys that nothing reads."),
    "left_out_total": ("counter", ("reason",), "Work that a bound has left out."),
    "events_total": (
        "counter",
        ("transport", "event"),
        "Events met: connected, refused, synchronized, eviction, eviction refused.",
    ),
    "ready": ("gauge", ("part",), "Whether a part does its work: 1 or 0."),
    "rule_problems": ("gauge", ("kind",), "Documents that cannot be read, whose last good form is in force."),
    "rule_keys_unread": (
        "gauge",
        ("key",),
        "Keys and kinds of rules that nothing reads, and remarks on their sources; over TCP only how many.",
    ),
    "pod_keys_unread": (
        "gauge",
        ("key",),
        "Mistakes of pods that run, each with the pod and what nothing reads of it; over TCP only how many.",
    ),
    "held": ("gauge", ("what",), "How much is remembered: pods, bytes, writes that wait for their cgroup."),
}
_PREFIX = "nri_agent_"
#: Their labels hold names and words of pods and of the configuration, which are root's to read.
_OF_ROOT = frozenset({f"{_PREFIX}rule_keys_unread", f"{_PREFIX}pod_keys_unread"})
_FAMILIES: Mapping[str, Any] = {
    "counter": CounterMetricFamily, "histogram": HistogramMetricFamily, "gauge": GaugeMetricFamily,
}  # fmt: skip
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

    def slipped(self, transport: str, count: int) -> None:
        """Report slips of a pod's author that were not reported before."""
        with self._lock:
            self._counts["pod_slips_total"][(transport,)] += count

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

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus wants them; called at a scrape."""
        with self._lock:
            counts = {name: sorted(each.items()) for name, each in self._counts.items()}
            seconds = sorted((labels, list(buckets), total) for labels, (buckets, total) in self._seconds.items())
            gauges = list(self._gauges.items())
        for name, (kind, labels, explained) in METRICS.items():
            family = _FAMILIES[kind](_PREFIX + name.removesuffix("_total"), explained, labels=labels)
            if kind == "counter":
                for values, count in counts[name]:
                    family.add_metric(values, count)
            elif kind == "histogram":
                for values, buckets, total_s in seconds:
                    family.add_metric(values, cumulative(BUCKETS, buckets), total_s)
            else:
                for key, each in gauges:
                    if key.split(" ")[0] == name:
                        for value, number in each().items():
                            family.add_metric((value,), number)
            yield family


class PublicMetrics:
    """The metrics of an observer that anybody may read: without words of pods and of the configuration."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterator[Metric]:
        """Those metrics, as Prometheus wants them: of what has words, how many there are."""
        for each in self._observer.collect():
            words = each.name in _OF_ROOT
            yield GaugeMetricFamily(each.name, each.documentation, len(each.samples)) if words else each


def _knob(name: str) -> str:
    if name in KNOBS:
        return name
    first = name.partition(".")[0]
    return first if first in _OTHERS else "other"
