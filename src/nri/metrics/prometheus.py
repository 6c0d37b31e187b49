"""The observer that feeds Prometheus. Needs the extra `metrics` (prometheus-client); imports it when it is made.

| metric | labels |
|---|---|
| `nri_plugin_invocations_total` | plugin, operation, status (success, error), error (snake_case status code, `other`) |
| `nri_plugin_latency_seconds` | plugin, operation |
| `nri_plugin_adjustments_total` | plugin, operation, type (update, evict) |
| `nri_active_plugins_total` | |

The names behind the prefix are the reference's; `namespace="containerd_nri"` gives exactly those of containerd. Series are
looked up once per combination and then kept: `labels()` costs more than counting.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nri.errors import CODE_NAMES, DeadlineExceeded, RpcError
from nri.metrics.observer import Observer

if TYPE_CHECKING:
    from nri.api import messages as m

__all__ = ["PrometheusObserver"]

#: Upper bounds of the latency histogram, in seconds: from a plugin in C on this machine to the default timeout.
BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def error_label(error: BaseException | None) -> str:
    """The value of the label `error`: empty for none, the status code in snake_case, or `other`."""
    if error is None:
        return ""
    if isinstance(error, DeadlineExceeded):
        return "deadline_exceeded"
    if isinstance(error, RpcError) and 0 < error.code < len(CODE_NAMES):
        return _WORD.sub("_", CODE_NAMES[error.code]).lower()
    return "other"


class PrometheusObserver(Observer):
    """Counts into a registry.

    Args:
        registry: a `prometheus_client.CollectorRegistry`; None for the library's own.
        namespace: what all names begin with.
    """

    __slots__ = ("_active", "_adjustments", "_invocations", "_latencies", "_latency", "_outcomes", "_updates")

    def __init__(self, registry: Any = None, namespace: str = "nri") -> None:
        from prometheus_client import REGISTRY, Counter, Gauge, Histogram  # noqa: PLC0415 - an optional dependency

        registry = REGISTRY if registry is None else registry
        who = ["plugin", "operation"]
        self._outcomes = Counter(
            f"{namespace}_plugin_invocations", "Requests to plugins.", [*who, "status", "error"], registry=registry
        )
        self._latency = Histogram(
            f"{namespace}_plugin_latency_seconds",
            "How long plugins took to answer.",
            who,
            buckets=BUCKETS,
            registry=registry,
        )
        self._adjustments = Counter(
            f"{namespace}_plugin_adjustments",
            "Updates and evictions that plugins asked for.",
            [*who, "type"],
            registry=registry,
        )
        self._active = Gauge(f"{namespace}_active_plugins_total", "Plugins that take part.", registry=registry)
        self._invocations: dict[tuple[str, str, str], Any] = {}
        self._latencies: dict[tuple[str, str], Any] = {}
        self._updates: dict[tuple[str, str, str], Any] = {}

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        key = (plugin, operation, error_label(error))
        series = self._invocations.get(key)
        if series is None:
            status = "error" if error is not None else "success"
            series = self._invocations[key] = self._outcomes.labels(plugin, operation, status, key[2])
        series.inc()

    def record_plugin_latency(self, plugin: str, operation: str, seconds: float) -> None:
        key = (plugin, operation)
        series = self._latencies.get(key)
        if series is None:
            series = self._latencies[key] = self._latency.labels(plugin, operation)
        series.observe(seconds)

    def record_plugin_adjustments(
        self, plugin: str, operation: str, adjustment: m.ContainerAdjustment | None, updates: int, evictions: int
    ) -> None:
        for kind, count in (("update", updates), ("evict", evictions)):
            key = (plugin, operation, kind)
            series = self._updates.get(key)
            if series is None:
                series = self._updates[key] = self._adjustments.labels(plugin, operation, kind)
            if count:
                series.inc(count)

    def update_plugin_count(self, count: int) -> None:
        self._active.set(count)
