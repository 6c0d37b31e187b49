"""A real kubelet over the CRI proxy and containerd without NRI: pods, probes, exec, logs, ports, plugins.

What other modules here say of every runtime's probes and streams is said of this one as well, by the same tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.proxy.events.views import RUNTIME_ID
from tests.kubernetes import test_probes, test_streams
from tests.kubernetes.conftest import RunPod, started
from tests.kubernetes.node import Node
from tests.kubernetes.pods import container, pod
from tests.kubernetes.test_plugins import LIFE
from tests.kubernetes.test_restarts import running, same
from tests.real.plugin_process import PluginProcess
from tools.runtimes.proxy import Proxied

for _module in (test_probes, test_streams):
    globals().update({name: value for name, value in vars(_module).items() if name.startswith("test_")})
speaker = test_streams.speaker


@pytest.fixture(scope="module")
def runtime_name() -> str:
    """The proxy before containerd."""
    return "proxy"


@pytest.fixture(scope="module")
def node(runtime_name: str, kubelet_program: Path) -> Iterator[Node]:
    """A node whose kubelet is connected to the proxy."""
    with started(runtime_name, kubelet_program) as started_node:
        yield started_node


@pytest.fixture(scope="module")
def plugin(node: Node) -> Iterator[PluginProcess]:
    """The recorder in the proxy."""
    with PluginProcess(node.runtime.nri_socket) as process:
        process.wait_for("Synchronize")
        yield process


def test_a_plugin_changes_a_container_of_the_kubelet(run: RunPod, plugin: PluginProcess) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    static = run(pod("smaller", container(resources=limits), annotations={"test/adjust": "memory"}))
    static.wait_ready()
    assert static.cgroup("memory", "memory.limit_in_bytes", "memory.max") == str(48 << 20)
    event = plugin.wait_for("PostStartContainer", pod=static.name)["message"]
    assert event["annotations"][RUNTIME_ID] == static.container_id()
    assert event["labels"]["io.kubernetes.pod.name"] == static.name


def test_a_plugin_changes_a_running_container(run: RunPod, plugin: PluginProcess) -> None:
    static = run(pod("later"))
    static.wait_ready()
    name = plugin.wait_for("PostStartContainer", pod=static.name)["id"]
    plugin.send({"container": name, "set": {"set_memory_limit": 80 << 20, "set_cpu_shares": 321}})
    line = plugin.wait_for("Updated")
    assert (line["failed"], line["error"]) == ([], "")
    assert static.cgroup("memory", "memory.limit_in_bytes", "memory.max") == str(80 << 20)


def test_a_container_refused_by_a_plugin_does_not_run_and_the_kubelet_reports_why(
    run: RunPod, plugin: PluginProcess
) -> None:
    static = run(pod("refused", annotations={"test/fail": "CreateContainer"}))
    status = static.wait(
        lambda status: any("waiting" in row["state"] and row["state"]["waiting"].get("message")
                           for row in status.get("containerStatuses", [])),
        "refused",
    )  # fmt: skip
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerError"
    assert "asked to fail at CreateContainer" in waiting["message"]


def test_a_plugin_sees_the_whole_life_of_a_pod_once(run: RunPod, plugin: PluginProcess) -> None:
    static = run(pod("watched"))
    static.wait_ready()
    static.remove()
    plugin.wait_for("RemovePodSandbox", pod=static.name, timeout_s=150)  # kubelet looks once a minute
    events = [line["event"] for line in plugin.lines(pod=static.name) if line["event"] in LIFE]
    assert sorted(events) == sorted(LIFE)
    assert len({line["id"] for line in plugin.lines(pod=static.name) if "id" in line}) == 1


@pytest.mark.parametrize("how", ["kill_proxy", "runtime.kill", "kill"])
def test_pods_survive_a_restart_of_the_proxy_or_the_runtime(kubelet_program: Path, runtime_name: str, how: str) -> None:
    with started(runtime_name, kubelet_program) as node:
        runtime = node.runtime
        assert isinstance(runtime, Proxied)
        static = running(node)
        pid, container_id = static.pid(), static.container_id()
        if how == "runtime.kill":
            runtime.runtime.kill()
        else:
            getattr(runtime, how)()
        time.sleep(3)
        assert Path(f"/proc/{pid}").exists()
        if how != "kill_proxy":
            runtime.runtime.start()
        if how != "runtime.kill":
            runtime.start_proxy()
        with PluginProcess(runtime.nri_socket) as plugin:
            line = plugin.wait_for("Synchronize")
            assert (line["pods"], line["containers"]) == ([static.name], ["main"])
            same(static, pid, container_id)
            static.remove()
            static.wait_gone()
            event = plugin.wait_for("StopContainer", pod=static.name)["message"]
            assert event["annotations"][RUNTIME_ID] == container_id
