"""What a scrape shows: the reference's names and labels, and numbers that add up."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from nri.errors import ConnectionClosed, DeadlineExceeded, RpcError
from nri.metrics.prometheus import PrometheusObserver


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def lines(registry: CollectorRegistry) -> dict[str, float]:
    rows = [row for row in generate_latest(registry).decode().splitlines() if not row.startswith("#")]
    return {row.rpartition(" ")[0]: float(row.rpartition(" ")[2]) for row in rows}


def test_names_and_labels_are_the_references_under_containerds_prefix(registry: CollectorRegistry) -> None:
    observer = PrometheusObserver(registry, namespace="containerd_nri")
    observer.record_plugin_invocation("10-a", "CreateContainer", None)
    observer.record_plugin_latency("10-a", "CreateContainer", 0.003)
    observer.record_plugin_adjustments("10-a", "CreateContainer", None, 2, 1)
    observer.update_plugin_count(3)
    shown = lines(registry)
    who = 'operation="CreateContainer",plugin="10-a"'
    by_labels = {
        frozenset(name.partition("{")[2].rstrip("}").split(",")) | {name.partition("{")[0]}: v
        for name, v in shown.items()
    }

    def value(name: str, *labels: str) -> float:
        return by_labels[frozenset((name, *who.split(","), *labels))]

    assert value("containerd_nri_plugin_invocations_total", 'status="success"', 'error=""') == 1
    assert value("containerd_nri_plugin_latency_seconds_count") == 1
    assert value("containerd_nri_plugin_latency_seconds_sum") == 0.003
    assert value("containerd_nri_plugin_adjustments_total", 'type="update"') == 2
    assert value("containerd_nri_plugin_adjustments_total", 'type="evict"') == 1
    assert shown["containerd_nri_active_plugins_total"] == 3


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (RpcError(2, "x"), "unknown"),
        (RpcError(7, "x"), "permission_denied"),
        (RpcError(4, "x"), "deadline_exceeded"),
        (DeadlineExceeded("x"), "deadline_exceeded"),
        (ConnectionClosed(), "other"),
        (ValueError("x"), "other"),
    ],
)
def test_errors_are_told_apart(registry: CollectorRegistry, error: Exception, label: str) -> None:
    observer = PrometheusObserver(registry)
    observer.record_plugin_invocation("10-a", "StartContainer", error)
    assert any(f'error="{label}"' in name and 'status="error"' in name for name in lines(registry))


def test_buckets_are_cumulative(registry: CollectorRegistry) -> None:
    observer = PrometheusObserver(registry)
    for seconds in (0.00001, 0.003, 0.003, 99.0):
        observer.record_plugin_latency("10-a", "StartContainer", seconds)
    counts = {name.partition('le="')[2].partition('"')[0]: v for name, v in lines(registry).items() if 'le="' in name}
    assert (counts["5e-05"], counts["0.0025"], counts["0.005"], counts["5.0"], counts["+Inf"]) == (1, 1, 3, 3, 4)


def test_an_observer_that_has_seen_nothing_shows_only_the_number_of_plugins(registry: CollectorRegistry) -> None:
    PrometheusObserver(registry)
    assert lines(registry) == {"nri_active_plugins_total": 0}
