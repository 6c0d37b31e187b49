"""The base class of observers ignores all calls, so that subclasses define only the methods they need."""

from __future__ import annotations

import inspect

import nri
from nri.metrics import Observer
from nri.metrics.prometheus import PrometheusObserver
from nri.testing import FakeRuntime


class Counts(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("A", "1")


def test_an_observer_may_define_a_single_method() -> None:
    class Asked(Observer):
        def __init__(self) -> None:
            self.seen: list[tuple[str, str, BaseException | None]] = []

        def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
            self.seen.append((plugin, operation, error))

    observer = Asked()
    with FakeRuntime(observer=observer, policy='["10-counts"]\nshadow = true') as runtime:
        runtime.add(Counts())
        runtime.create_container()
    assert observer.seen == [("10-counts", "Synchronize", None), ("10-counts", "CreateContainer", None)]


def test_the_prometheus_observer_has_the_signatures_of_the_base_class() -> None:
    for name, method in inspect.getmembers(Observer, inspect.isfunction):
        if name.startswith("_"):
            continue
        parameters = inspect.signature(getattr(PrometheusObserver, name)).parameters
        assert list(parameters) == list(inspect.signature(method).parameters), name
