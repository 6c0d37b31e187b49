"""The pytest fixture is registered by the package and closes its runtime."""

from __future__ import annotations

import threading
from importlib.metadata import entry_points

import nri
from nri.testing import FakeRuntime
from nri.testing.pytest_plugin import nri_runtime as fixture


class Small(nri.Plugin):
    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None: ...


def test_pytest_finds_the_fixture_without_configuration() -> None:
    (results,) = entry_points(group="pytest11", name="nri")
    assert results.value == fixture.__module__


def test_each_test_has_its_own_runtime(nri_runtime: FakeRuntime) -> None:
    assert isinstance(nri_runtime, FakeRuntime) and nri_runtime.plugins == []


def test_the_runtime_is_closed_after_the_test() -> None:
    steps = fixture.__wrapped__()
    next(steps).add(Small(), idx="77")
    assert [thread.name for thread in threading.enumerate() if thread.name == "plugin-77-small"]
    assert next(steps, None) is None
    assert not [thread.name for thread in threading.enumerate() if thread.name == "plugin-77-small"]
