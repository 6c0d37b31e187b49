"""The base of observers ignores everything, so that one may tell only what it wants to know."""

from __future__ import annotations

import inspect

import nri
from nri.metrics import Observer
from nri.metrics.prometheus import PrometheusObserver
from nri.testing import FakeRuntime


class Counts(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("A", "1")


def test_an_observer_may_have_one_method_of_its_own_and_no_other() -> None:
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


def test_the_observer_of_prometheus_takes_what_the_base_takes() -> None:
    for name, method in inspect.getmembers(Observer, inspect.isfunction):
        if name.startswith("_"):
            continue
        parameters = inspect.signature(getattr(PrometheusObserver, name)).parameters
        assert list(parameters) == list(inspect.signature(method).parameters), name
