"""What runs already, put together from its parts."""

from __future__ import annotations

import nri
from nri.api import messages as m
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import CONTAINER, POD


def test_synchronize_gets_everything_and_returns_updates() -> None:
    class Syncs(nri.Plugin):
        def synchronize(self, pods, containers):
            return [nri.Update(c).set_cpu_shares(7) for c in containers]

        def run_pod_sandbox(self, pod): ...

    with plugin_thread(Syncs()) as running:
        running.runtime.register()
        running.runtime.configure()
        response = running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[POD], containers=[CONTAINER]))
        reply = m.SynchronizeResponse.FromString(response.payload)
        assert [(u.container_id, u.linux.resources.cpu.shares.value) for u in reply.update] == [("c0", 7)]
