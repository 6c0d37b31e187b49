"""StopContainer events: updates of other containers."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


def test_applying_a_plugins_update_does_not_call_the_plugin_again(nri_runtime: FakeRuntime) -> None:
    calls: list[str] = []

    def stop(pod: nri.PodSandbox, container: nri.Container) -> nri.Update:
        calls.append("stop")
        return nri.Update("other").set_cpu_shares(5)

    nri_runtime.add(plugin("a", stop_container=stop, update_container=lambda *_: calls.append("update")))
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    reply = nri_runtime.stop_container(make_pod(), make_container(id="c"))
    assert list(reply.updates) == ["other"]
    assert calls == ["stop"]


def test_a_stop_without_receivers_is_not_recorded(nri_runtime: FakeRuntime) -> None:
    pod, container = make_pod(), make_container(id="unseen")
    nri_runtime.adaptation.stop_container(pod, container)
    assert nri_runtime.adaptation.provenance is not None
    assert nri_runtime.adaptation.provenance.explain("unseen") is None
    nri_runtime.add(plugin("a", stop_container=lambda *_: None))
    nri_runtime.adaptation.stop_container(pod, container)
    assert nri_runtime.adaptation.provenance.explain("unseen") is not None


def test_updates_of_a_stop_can_be_aborted(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="other", cpu_shares=3))
    nri_runtime.add(plugin("a", stop_container=lambda *_: nri.Update("other").set_cpu_shares(5)))
    reply = nri_runtime.adaptation.stop_container(make_pod(), make_container(id="c"))
    assert [update.linux.resources.cpu.shares.value for update in reply.updates] == [5]
    assert reply.owners.owners["other"].simple[m.Field.CPUShares] == "10-a"
    reply.abort()
    assert nri_runtime.updates[-1].cpu_shares == 3
