"""StopContainer on its way: updates of other containers."""

from __future__ import annotations

from typing import Any

import nri
from nri.testing import FakeRuntime, make_container, make_pod


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


def test_applying_a_plugins_update_does_not_call_that_plugin_again(nri_runtime: FakeRuntime) -> None:
    calls: list[str] = []

    def stop(pod: nri.PodSandbox, container: nri.Container) -> nri.Update:
        calls.append("stop")
        return nri.Update("other").set_cpu_shares(5)

    nri_runtime.add(plugin("a", stop_container=stop, update_container=lambda *_: calls.append("update")))
    nri_runtime.create_container(make_pod(), make_container(id="other"))
    reply = nri_runtime.stop_container(make_pod(), make_container(id="c"))
    assert list(reply.updates) == ["other"]
    assert calls == ["stop"]
