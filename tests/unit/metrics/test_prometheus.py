"""The Prometheus observer with a real adaptation."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import nri
from nri.errors import ConnectionClosed, DeadlineExceeded, PluginError, RpcError
from nri.metrics import Observer
from nri.metrics.prometheus import CountingReporter, PrometheusObserver, error_label
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.needs import need_module
from tests.support.waiting import wait_for


@pytest.fixture
def registry() -> Any:
    need_module("prometheus_client")
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


class Busy(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Update:
        return nri.Update("c0").set_cpu_shares(5)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        raise nri.Reject("no")


def test_plugin_calls_are_counted(registry: Any) -> None:
    with FakeRuntime(observer=PrometheusObserver(registry)) as runtime:
        runtime.create_container(make_pod(), make_container(id="c0"))
        runtime.add(Busy())
        for _ in range(3):
            runtime.create_container()
        with pytest.raises(PluginError):
            runtime.start_container()

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, labels)

        who = {"plugin": "10-busy"}
        create, start = {**who, "operation": "CreateContainer"}, {**who, "operation": "StartContainer"}
        assert value("nri_plugin_invocations_total", **create, status="success", error="") == 3
        assert value("nri_plugin_invocations_total", **start, status="error", error="permission_denied") == 1
        assert value("nri_plugin_latency_seconds_count", **create) == 3
        assert value("nri_plugin_adjustments_total", **create, type="update") == 3
        assert value("nri_plugin_adjustments_total", **create, type="evict") == 0
        assert value("nri_plugin_invocations_total", **who, operation="Synchronize", status="success", error="") == 1
        assert value("nri_active_plugins_total") == 1
        runtime.disconnect()
        wait_for(lambda: value("nri_active_plugins_total") == 0, "the plugin is no longer counted")


def test_the_prefix_can_be_changed(registry: Any) -> None:
    observer = PrometheusObserver(registry, namespace="containerd_nri")
    observer.record_plugin_invocation("10-a", "StopContainer", None)
    labels = {"plugin": "10-a", "operation": "StopContainer", "status": "success", "error": ""}
    assert registry.get_sample_value("containerd_nri_plugin_invocations_total", labels) == 1


def test_plugins_above_the_limit_share_one_label(registry: Any) -> None:
    observer = PrometheusObserver(registry)
    for number in range(300):
        for _ in range(2):
            observer.record_plugin_invocation(f"10-p{number}", "CreateContainer", None)
            observer.record_left_out(f"10-p{number}", "CreateContainer")
    samples = [sample for family in registry.collect() for sample in family.samples if "plugin" in sample.labels]
    assert len({sample.labels["plugin"] for sample in samples}) == 257
    labels = {"plugin": "other", "operation": "CreateContainer"}
    assert registry.get_sample_value("nri_plugin_left_out_total", labels) == 2 * 44
    assert registry.get_sample_value("nri_plugin_left_out_total", {**labels, "plugin": "10-p0"}) == 2


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (None, ""),
        (RpcError(12, "method X"), "unimplemented"),
        (RpcError(3, "bad"), "invalid_argument"),
        (RpcError(99, "?"), "other"),
        (DeadlineExceeded("it"), "deadline_exceeded"),
        (ConnectionClosed(), "other"),
    ],
)
def test_errors_are_labelled_by_status(error: Exception | None, label: str) -> None:
    assert error_label(error) == label


def test_return_values_of_observers_are_ignored() -> None:
    class Returns(Observer):
        def record_plugin_invocation(self, *_: Any) -> Any:
            return 5

        record_plugin_latency = record_plugin_adjustments = record_shadow = record_plugin_invocation

    with FakeRuntime(observer=Returns()) as runtime:
        runtime.create_container(make_pod(), make_container(id="c0"))
        runtime.add(Busy())
        runtime.create_container()
        with pytest.raises(PluginError):
            runtime.start_container()


def test_a_failing_observer_does_not_affect_plugins() -> None:
    class Broken(Observer):
        def update_plugin_count(self, count: int) -> None:
            if count:
                raise RuntimeError("no space left")

    with FakeRuntime(observer=Broken()) as runtime:
        runtime.add(Busy())
        runtime.add(Busy(), name="other")
        assert [row.state for row in runtime.plugins] == ["active", "active"]


def test_concurrent_updates_are_all_counted(registry: Any) -> None:
    observer = PrometheusObserver(registry)

    class Slow(int):
        """Takes its time to be added, so that another thread comes in between."""

        def __radd__(self, other: int) -> int:
            time.sleep(0.02)
            return int(self) + other

    def merge() -> None:
        observer.record_plugin_adjustments("10-a", "StopContainer", None, Slow(1), Slow(2))

    threads = [threading.Thread(target=merge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    labels = {"plugin": "10-a", "operation": "StopContainer"}
    assert registry.get_sample_value("nri_plugin_adjustments_total", {**labels, "type": "update"}) == 4
    assert registry.get_sample_value("nri_plugin_adjustments_total", {**labels, "type": "evict"}) == 8


STEPS = (
    ("event_begins", ("StopContainer", 1, b"r")),
    ("plugin_asked", ("10-a", "StopContainer", 1, b"r")),
    ("plugin_answered", ("10-a", "StopContainer", 1, b"", 0.1)),
    ("plugin_failed", ("10-a", "StopContainer", 2, ValueError("no"), 0.2)),
    ("reply_merged", ("10-a", "StopContainer", 1, None)),
    ("event_ends", ("StopContainer", 1, b"", None, 0.3)),
)


class Kept:
    """Keeps every call of a method, whatever it is."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, arguments))


def test_answers_and_failures_are_counted_with_durations() -> None:
    observer = Kept()
    reporter = CountingReporter(observer)  # type: ignore[arg-type]
    for name, arguments in STEPS:
        getattr(reporter, name)(*arguments)
    error = STEPS[3][1][3]
    assert observer.calls == [
        ("record_plugin_invocation", ("10-a", "StopContainer", None)),
        ("record_plugin_latency", ("10-a", "StopContainer", 0.1)),
        ("record_plugin_invocation", ("10-a", "StopContainer", error)),
        ("record_plugin_latency", ("10-a", "StopContainer", 0.2)),
    ]


def test_another_reporter_gets_every_step() -> None:
    then = Kept()
    reporter = CountingReporter(Observer(), then)
    for name, arguments in STEPS:
        getattr(reporter, name)(*arguments)
    assert then.calls == list(STEPS)
