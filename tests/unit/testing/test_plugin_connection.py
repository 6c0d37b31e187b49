"""A plugin on a socket pair connects, or the test gets the reason."""

from __future__ import annotations

import pytest

import nri
from nri.testing import FakeRuntime
from nri.testing.plugin_connection import Attached
from nri.testing.wire import Link


class Small(nri.Plugin):
    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None: ...


class Fails(nri.Plugin):
    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None: ...

    def configure(self) -> None:
        raise nri.RegistrationError("not on this machine")


def test_a_plugin_is_connected_until_it_is_stopped(nri_runtime: FakeRuntime) -> None:
    attached = Attached(Small(), "10", "small", "")
    assert attached.label == "10-small" and not attached.ready
    attached.connect(nri_runtime.adaptation)
    attached.wait(nri_runtime.adaptation)
    assert attached.ready
    attached.stop()
    assert not attached.ready


def test_a_failed_start_raises_its_reason(nri_runtime: FakeRuntime) -> None:
    attached = Attached(Fails(), "10", "fails", "")
    attached.connect(nri_runtime.adaptation)
    with pytest.raises(nri.RegistrationError, match="not on this machine"):
        attached.wait(nri_runtime.adaptation)


@pytest.mark.parametrize("method", ["configure", "synchronize"])
def test_an_exception_of_configure_or_synchronize_reaches_the_test(nri_runtime: FakeRuntime, method: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("no such zone")

    with pytest.raises(LookupError, match=r"^no such zone$"):
        nri_runtime.add(type("Lost", (Small,), {method: fail})())


def test_a_connection_can_use_a_link(nri_runtime: FakeRuntime) -> None:
    attached = Attached(Small(), "10", "small", "")
    with Link() as link:
        attached.connect(nri_runtime.adaptation, link)
        attached.wait(nri_runtime.adaptation)
        assert link.to_plugin.passed and link.to_runtime.passed
        attached.stop()


def test_an_unconnected_plugin_stops_at_once() -> None:
    attached = Attached(Small(), "10", "small", "")
    attached.stop()
    assert not attached.ready
