"""An observer for Prometheus. It requires the extra `metrics` (prometheus-client), imported on construction.

| metric | labels |
|---|---|
| `nri_plugin_invocations_total` | plugin, operation, status (success, error), error (snake_case status code, `other`) |
| `nri_plugin_latency_seconds` | plugin, operation |
| `nri_plugin_adjustments_total` | plugin, operation, type (update, evict) |
| `nri_plugin_left_out_total` | plugin, operation |
| `nri_plugin_withdrawn_total` | plugin, operation |
| `nri_plugin_refused_total` | reason |
| `nri_active_plugins_total` | |

`nri_plugin_left_out_total` counts updates and evictions that were ignored because their container does not exist.

The first three and the last metric exist in containerd; with `namespace="containerd_nri"` the names are the same.
Counting is on the hot path, so it only adds numbers; the objects of prometheus-client are created at a scrape.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from nri.errors import CODE_NAMES, DeadlineExceeded, RpcError
from nri.metrics.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.api import messages as m
    from nri.interfaces import Reporter
    from nri.metrics.observer import Observer

__all__ = ["CountingReporter", "PrometheusObserver", "cumulative"]

#: The maximum number of plugins with their own label, because a plugin may choose any name.
_MAX_PLUGINS = 256
#: The label that all further plugins share. Their replies may be counted at the same time without a lock, so the
#: label's counts may be slightly low.
_OTHER_PLUGINS = "other"
#: Upper bounds of the latency histogram, in seconds: from a fast local plugin to the default timeout.
BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def error_label(error: BaseException | None) -> str:
    """Return the value of the label `error`: "" without an error, the status code in snake_case, or `other`."""
    if error is None:
        return ""
    if isinstance(error, DeadlineExceeded):
        return "deadline_exceeded"
    if isinstance(error, RpcError) and 0 < error.code < len(CODE_NAMES):
        return _WORD.sub("_", CODE_NAMES[error.code]).lower()
    return "other"


class _Series:
    """The counts of one plugin for one operation."""

    __slots__ = (
        "buckets",
        "errors",
        "evictions",
        "has_merged_replies",
        "left_out",
        "succeeded",
        "total_s",
        "updates",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.succeeded = 0
        self.errors: dict[str, int] = {}
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.total_s = 0.0
        self.has_merged_replies = False
        self.updates = self.evictions = self.left_out = self.withdrawn = 0


class PrometheusObserver(Observer):
    """An observer whose counts a registry collects at scrapes.

    A plugin's lock allows one request at a time, so counting requests needs no lock. Counting the content of replies
    needs a lock, because replies to several events may be merged at the same time.

    Args:
        registry: a `prometheus_client.CollectorRegistry`; None means the default registry.
        namespace: the prefix of all metric names.
    """

    __slots__ = ("_active", "_lock", "_namespace", "_plugins", "_refused", "_series")

    def __init__(self, registry: Any = None, namespace: str = "nri") -> None:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - an optional dependency

        self._namespace = namespace
        self._active = 0
        self._lock = threading.Lock()
        self._refused: dict[str, int] = {}
        self._plugins: dict[str, str] = {}
        self._series: defaultdict[tuple[str, str], _Series] = defaultdict(_Series)
        (REGISTRY if registry is None else registry).register(self)

    def _label(self, plugin: str) -> str:
        """Return the label of a plugin that was not counted before."""
        if len(self._plugins) >= _MAX_PLUGINS:
            return _OTHER_PLUGINS
        return self._plugins.setdefault(plugin, plugin)

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Count a reply, or an error by its label."""
        series = self._series[self._plugins.get(plugin) or self._label(plugin), operation]
        if error is None:
            series.succeeded += 1
        else:
            label = error_label(error)
            series.errors[label] = series.errors.get(label, 0) + 1

    def record_plugin_latency(self, plugin: str, operation: str, seconds: float) -> None:
        """Count the duration of a request in its bucket."""
        series = self._series[self._plugins.get(plugin) or self._label(plugin), operation]
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        series.total_s += seconds

    def record_plugin_adjustments(
        self,
        plugin: str,
        operation: str,
        adjustment: m.ContainerAdjustment | None,  # noqa: ARG002 - the Go library does not count adjustments either
        updates: int,
        evictions: int,
    ) -> None:
        """Count updates and evictions."""
        series = self._series[self._plugins.get(plugin) or self._label(plugin), operation]
        series.has_merged_replies = True
        if updates or evictions:
            with self._lock:
                series.updates += updates
                series.evictions += evictions

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Count an ignored update or eviction."""
        with self._lock:
            self._series[self._plugins.get(plugin) or self._label(plugin), operation].left_out += 1

    def record_withdrawn(self, plugin: str, operation: str) -> None:
        """Count a reply that was dropped because another plugin failed the event."""
        with self._lock:
            self._series[self._plugins.get(plugin) or self._label(plugin), operation].withdrawn += 1

    def record_refused(self, reason: str) -> None:
        """Count a refused connection or registration by its reason."""
        with self._lock:
            self._refused[reason] = self._refused.get(reason, 0) + 1

    def update_plugin_count(self, count: int) -> None:
        """Set the gauge of active plugins."""
        self._active = count

    def describe(self) -> list[Any]:
        """Describe no metrics in advance; Prometheus calls this when the collector is registered."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield all metrics; called at a scrape."""
        from prometheus_client.core import (  # noqa: PLC0415 - an optional dependency
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        name, labels = f"{self._namespace}_plugin", ["plugin", "operation"]
        invocations = CounterMetricFamily(
            f"{name}_invocations", "Requests to plugins.", labels=[*labels, "status", "error"]
        )
        latency = HistogramMetricFamily(f"{name}_latency_seconds", "How long plugins took to answer.", labels=labels)
        adjustments = CounterMetricFamily(
            f"{name}_adjustments", "Updates and evictions requested by plugins.", labels=[*labels, "type"]
        )
        left_out = CounterMetricFamily(
            f"{name}_left_out", "Ignored updates and evictions of unknown containers.", labels=labels
        )
        withdrawn = CounterMetricFamily(
            f"{name}_withdrawn", "Answers dropped because another plugin failed the event.", labels=labels
        )
        for key, series in list(self._series.items()):
            if series.left_out:
                left_out.add_metric(key, series.left_out)
            if series.withdrawn:
                withdrawn.add_metric(key, series.withdrawn)
            if series.succeeded:
                invocations.add_metric([*key, "success", ""], series.succeeded)
            for label, count in list(series.errors.items()):
                invocations.add_metric([*key, "error", label], count)
            if any(series.buckets):
                latency.add_metric(key, cumulative(BUCKETS, series.buckets), series.total_s)
            if series.has_merged_replies:
                adjustments.add_metric([*key, "update"], series.updates)
                adjustments.add_metric([*key, "evict"], series.evictions)
        refused = CounterMetricFamily(f"{name}_refused", "Connections and registrations refused.", labels=["reason"])
        for reason, count in list(self._refused.items()):
            refused.add_metric([reason], count)
        yield from (invocations, latency, adjustments, left_out, withdrawn, refused)
        active = GaugeMetricFamily(f"{self._namespace}_active_plugins_total", "Active plugins.")
        active.add_metric([], self._active)
        yield active


def cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the cumulative counts of a histogram by upper bound. The last of `counts` is above all bounds."""
    return list(zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True))


class CountingReporter:
    """A `nri.interfaces.Reporter` that counts each reply with an observer and passes every step to another reporter.

    Args:
        observer: the observer.
        then: the next reporter, if there is one.
    """

    def __init__(self, observer: Observer, then: Reporter | None = None) -> None:
        self._observer, self._next_observer = observer, then

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Pass the step to the next reporter."""
        if self._next_observer is not None:
            self._next_observer.event_begins(event, serial, request)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """Pass the step to the next reporter."""
        if self._next_observer is not None:
            self._next_observer.plugin_asked(plugin, event, serial, request)

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """Count the reply, and pass the step to the next reporter."""
        self._observer.record_plugin_invocation(plugin, event, None)
        self._observer.record_plugin_latency(plugin, event, duration_s)
        if self._next_observer is not None:
            self._next_observer.plugin_answered(plugin, event, serial, reply, duration_s)

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Count the failure, and pass the step to the next reporter."""
        self._observer.record_plugin_invocation(plugin, event, error)
        self._observer.record_plugin_latency(plugin, event, duration_s)
        if self._next_observer is not None:
            self._next_observer.plugin_failed(plugin, event, serial, error, duration_s)

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """Pass the step to the next reporter. A plugin's own process does not merge replies."""
        if self._next_observer is not None:
            self._next_observer.reply_merged(plugin, event, serial, error)

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """Pass the step to the next reporter."""
        if self._next_observer is not None:
            self._next_observer.event_ends(event, serial, reply, error, duration_s)


def __dir__() -> list[str]:
    return __all__
