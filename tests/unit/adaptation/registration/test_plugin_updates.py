"""Unsolicited requests of plugins: checked by policy, applied, recorded, or ignored."""

from __future__ import annotations

from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.errors import NriError, RpcError
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, request
from tests.support.made_plugins import Mode, Quiet, both, plugin
from tests.support.waiting import wait_for


@both
def test_updates_need_registration(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.create_container(make_pod(), make_container(id="c1"))
        update = m.ContainerUpdate(container_id="c1")
        update.linux.resources.cpu.shares.value = 5
        raw = RawPlugin(runtime)
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[update])))
        if mode == "default":
            raw.wait_for(b"only accepted from plugins that are registered")
            assert runtime.updates == []
        else:
            wait_for(lambda: runtime.updates, "the update was taken")
        raw.close()


@both
def test_unsolicited_evictions_kept(mode: Mode) -> None:
    plugin = Quiet()
    with FakeRuntime(compat=mode) as runtime:
        runtime.add(plugin)
        runtime.create_container(None, make_container(id="c1"))
        plugin.runtime.evict("c1", "too loud").result(timeout=10)
        reasons: list[Any] = [eviction.reason for eviction in runtime.evictions]
    assert reasons == (["too loud"] if mode == "default" else [])


def test_updates_after_synchronization_are_applied(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="c"))
    nri_runtime.add(
        plugin("a", synchronize=lambda *_: [nri.Update("c").set_cpu_shares(5)], start_container=lambda *_: None)
    )
    wait_for(lambda: nri_runtime.containers["c"].linux.resources.cpu.shares.value == 5, "the update is applied")


def test_a_request_refused_by_policy_is_in_the_history_of_its_container() -> None:
    asking = Quiet()
    with FakeRuntime(policy='["10-quiet"]\nallow.fields = ["Env"]') as runtime:
        runtime.create_container(make_pod(), make_container(id="c"))
        runtime.add(asking)
        with pytest.raises(nri.RpcError, match="its policy does not allow it to set CPUShares"):
            asking.runtime.update(nri.Update("c").set_cpu_shares(5)).result(timeout=20)
        assert runtime.adaptation.provenance is not None
        explained = runtime.adaptation.provenance.explain("c")
        assert explained is not None
        assert [(step.plugin, step.change.after) for step in explained.steps] == [("10-quiet", 5)]
        assert explained.steps[0].note.startswith("not applied: plugin 10-quiet: its policy does not allow")


@both
def test_other_updates_limited(mode: Mode) -> None:
    class Asks(nri.Plugin):
        def __init__(self, first: int) -> None:
            self.first = first

        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> Any:
            return share_updates(self.first)

        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None: ...

    plugin = Asks(10)
    with FakeRuntime(compat=mode, containers=[make_container(id=f"c{n}") for n in range(900)]) as runtime:
        runtime.add(plugin)
        expected = share_updates(6000)
        if mode == "default":
            with pytest.raises(
                RpcError, match="plugin 10-asks: its request UpdateContainers has more than 16000 entries"
            ):
                plugin.runtime.update(*expected).result(timeout=20)
            assert runtime.health("10-asks").state == "active"
            assert "has more than 16000 entries" in runtime.health("10-asks").last_error
        else:
            plugin.runtime.update(*expected).result(timeout=20)
            assert len(runtime.updates) == 910, "those of existing containers"
        if mode == "default":
            with pytest.raises(NriError):
                runtime.add(Asks(6000), name="much")
            error = runtime.health("10-much").last_error
            assert error == "failed to synchronize: the reply to Synchronize has more than 16000 entries"
        else:
            runtime.add(Asks(6000), name="much")


def share_updates(count: int) -> list[nri.Update]:
    return [nri.Update(f"c{n}").set_cpu_shares(5) for n in range(count)]
