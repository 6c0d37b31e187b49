"""What plugins ask for beside the answers to events: held to policy, applied, recorded, or left out."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

import nri
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.adapting import RawPlugin, eventually, request

Mode = Literal["default", "reference"]


both = pytest.mark.parametrize("mode", ["default", "reference"])


class Quiet(nri.Plugin):
    def __init__(self) -> None:
        self.told = threading.Event()

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if container.name == "bad":
            raise ValueError("boom")

    def shutdown(self) -> None:
        self.told.set()


@both
def test_updates_need_registration(mode: Mode) -> None:
    with FakeRuntime(compat=mode) as runtime:
        runtime.create_container(make_pod(), make_container(id="c1"))
        update = m.ContainerUpdate(container_id="c1")
        update.linux.resources.cpu.shares.value = 5
        raw = RawPlugin(runtime)
        raw.sock.sendall(request("UpdateContainers", m.UpdateContainersRequest(update=[update])))
        if mode == "default":
            raw.wait_for(b"only taken from plugins that are registered")
            assert runtime.updates == []
        else:
            eventually(lambda: runtime.updates, "the update was taken")
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


def plugin(name: str, **handlers: Any) -> nri.Plugin:
    """A plugin with these handlers, each a function of (pod, container, ...)."""
    methods: dict[str, Any] = {"name": name}
    for event, function in handlers.items():
        if event == "update_container":
            methods[event] = lambda self, pod, container, resources, f=function: f(pod, container, resources)
        elif event == "synchronize":
            methods[event] = lambda self, pods, containers, f=function: f(pods, containers)
        else:
            methods[event] = lambda self, pod, container, f=function: f(pod, container)
    return type("Made", (nri.Plugin,), methods)()


def test_updates_after_synchronization_are_applied(nri_runtime: FakeRuntime) -> None:
    nri_runtime.create_container(make_pod(), make_container(id="c"))
    nri_runtime.add(
        plugin("a", synchronize=lambda *_: [nri.Update("c").set_cpu_shares(5)], start_container=lambda *_: None)
    )
    eventually(lambda: nri_runtime.containers["c"].linux.resources.cpu.shares.value == 5, "the update is applied")
