"""Counters of decisions, writes and gauges, as Prometheus metrics. Thread-safe.

Label values are words of this package, so that their number is bounded. Two metrics have keys without effect as labels.
A pod's author chooses these, so there are at most a hundred, and only root can read them.
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

#: Upper bounds of the histogram of decision times, in seconds.
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

#: The metrics: kind, labels and help text. Names get the prefix `nri_agent_`.
METRICS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "decisions_total": ("counter", ("transport", "stage"), "Number of times that the hooks of a stage were called."),
    "decision_seconds": ("histogram", ("transport", "stage"), "Total time in the hooks of a stage, for each decision."),
    "hook_changes_total": ("counter", ("transport", "stage", "hook"), "Number of changes that a hook requested."),
    "hook_errors_total": ("counter", ("transport", "stage", "hook"), "Number of times that a hook failed."),
    "writes_total": ("counter", ("knob", "outcome"), "Writes to cgroup and kernel files, by outcome."),
    "pod_slips_total": ("counter", ("transport",), "Mistakes found in pods: annotations and keys without effect."),
    "left_out_total": ("counter", ("reason",), "Work that was skipped because a limit was reached."),
    "events_total": (
        "counter",
        ("transport", "event"),
        "Events: connected, refused, synchronized, eviction, eviction refused.",
    ),
    "ready": ("gauge", ("part",), "1 if a part of the agent is ready, else 0."),
    "rule_problems": ("gauge", ("kind",), "Invalid rule documents; the last valid version stays in force."),
    "rule_keys_unread": (
        "gauge",
        ("key",),
        "Keys and kinds of rules without effect, and remarks on their sources; over TCP only their number.",
    ),
    "pod_keys_unread": (
        "gauge",
        ("key",),
        "Mistakes in running pods: the pod and its key without effect; over TCP only their number.",
    ),
    "held": ("gauge", ("what",), "Size of the agent's state: pods, bytes, writes that wait for their cgroup."),
}
_PREFIX = "nri_agent_"
#: Metrics that only root can read: their labels contain names of pods and strings of the configuration.
_OF_ROOT = frozenset({f"{_PREFIX}rule_keys_unread", f"{_PREFIX}pod_keys_unread"})
_FAMILIES: Mapping[str, Any] = {
    "counter": CounterMetricFamily, "histogram": HistogramMetricFamily, "gauge": GaugeMetricFamily,
}  # fmt: skip
#: Values that are not knobs, for example of resctrl groups, are counted by one of these words.
_OTHERS = ("schemata", "tasks", "group", "oom_score_adj", "core_sched")

_Labels = tuple[str, ...]


class Observer:
    """The metrics of the agent."""

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
        """Count a run of hooks: its duration, the hooks with changes and the failed hooks."""
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
        """Count the outcomes of writes."""
        with self._lock:
            for result in results:
                self._counts["writes_total"][_knob(result.name), result.outcome.value] += 1

    def count_mistakes(self, transport: str, count: int) -> None:
        """Count mistakes in a pod that were not counted before."""
        with self._lock:
            self._counts["pod_slips_total"][(transport,)] += count

    def left_out(self, reason: str, count: int = 1) -> None:
        """Count objects that exceeded a limit; `reason` is a fixed word, for example `pending`."""
        with self._lock:
            self._counts["left_out_total"][(reason,)] += count

    def count_event(self, transport: str, event: str) -> None:
        """Count an event of a transport; `event` is a fixed word, for example `connected`."""
        with self._lock:
            self._counts["events_total"][transport, event] += 1

    def gauge(self, name: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a function that returns the values of a gauge by label. A gauge may have several functions."""
        with self._lock:
            self._gauges[f"{name} {len(self._gauges)}"] = read

    def collect(self) -> Iterator[Metric]:
        """Return all metrics; called at a scrape."""
        with self._lock:
            counts = {name: sorted(count.items()) for name, count in self._counts.items()}
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
                for key, read in gauges:
                    if key.split(" ")[0] == name:
                        for value, number in read().items():
                            family.add_metric((value,), number)
            yield family


class PublicMetrics:
    """The metrics of an observer that all users may read, without strings of pods and of the configuration."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterator[Metric]:
        """Return the public metrics; called at a scrape. A metric for root is reduced to its number of samples."""
        for family in self._observer.collect():
            words = family.name in _OF_ROOT
            yield GaugeMetricFamily(family.name, family.documentation, len(family.samples)) if words else family


def _knob(name: str) -> str:
    if name in KNOBS:
        return name
    first = name.partition(".")[0]
    return first if first in _OTHERS else "other"
