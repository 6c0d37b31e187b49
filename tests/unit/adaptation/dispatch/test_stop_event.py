"""StopContainer on its way: updates of other containers."""

from __future__ import annotations

import nri
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.made_plugins import plugin


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
