"""Sessions with runtimes that support only a part of NRI."""

from __future__ import annotations

import pytest

import nri
from nri.api import messages as m
from nri.errors import RpcError
from tests.support.plugin_thread import plugin_thread
from tests.unit.stub.plugins import ADJUSTMENT, CREATE, UPDATE, create_reply, creates

RUNTIMES = {"docker": "29.3.0", "v2": "2.0.0-beta.2+unknown"}


class Names(nri.Plugin):
    """Keeps the names and states of what it receives."""

    def synchronize(self, pods, containers):
        self.seen = [(pod.namespace, pod.name) for pod in pods], [(c.name, c.state) for c in containers]
        return [nri.Update(container).set_cpu_shares(5) for container in containers]


def test_docker_gets_no_update_with_a_creation() -> None:
    with plugin_thread(creates((ADJUSTMENT, [UPDATE]))) as running:
        running.runtime.begin(name="docker", version="29.3.0")
        reply = create_reply(running)
    assert ([variable.key for variable in reply.adjust.env], list(reply.update)) == (["A"], [])


def test_with_refuse_a_creation_fails_and_the_error_names_plugin_runtime_and_field() -> None:
    with plugin_thread(creates(nri.Adjustment().set_cpu_shares(5)), refuse_unsupported=True) as running:
        running.runtime.begin(name="docker", version="29.3.0")
        response = running.runtime.call("CreateContainer", CREATE)
    text = "Docker Engine cannot apply the adjustment's linux.resources.cpu"
    assert response.code and "10-" in response.message and text in response.message


def test_a_requested_update_fails_and_is_not_sent() -> None:
    for name, version in RUNTIMES.items():
        plugin = creates(None)
        with plugin_thread(plugin) as running:
            running.runtime.begin(name=name, version=version)
            with pytest.raises(RpcError, match="does not support updates"):
                plugin.runtime.update(UPDATE).result(5)


def test_with_isulad_plugins_see_the_names_and_states_of_kubernetes() -> None:
    pod = m.PodSandbox(id="p", name="k8s_POD_web_prod_uid-1_0", annotations={"io.kubernetes.cri.sandbox-name": "web"})
    containers = [
        m.Container(id="c", pod_sandbox_id="p", name="k8s_app_web_prod_uid-1_0", state=0, pid=7),
        m.Container(id="d", pod_sandbox_id="p", name="side_car"),
    ]
    plugin = Names()
    with plugin_thread(plugin, refuse_unsupported=True) as running:
        running.runtime.register()
        running.runtime.configure(name="v2", version=RUNTIMES["v2"])
        response = running.runtime.call("Synchronize", m.SynchronizeRequest(pods=[pod], containers=containers))
    states = m.ContainerState
    assert plugin.seen == (
        [("prod", "web")],
        [("app", states.CONTAINER_RUNNING), ("side_car", states.CONTAINER_UNKNOWN)],
    )
    assert (response.code, response.payload) == (0, b"")
