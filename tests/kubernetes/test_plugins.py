"""An NRI plugin on a node with a real kubelet: it sees each step of a pod, and its changes apply."""

from __future__ import annotations

import pytest

from tests.kubernetes.conftest import RunPod
from tests.kubernetes.node import Node
from tests.kubernetes.pods import container, pod, probe
from tests.real.plugin_process import PluginProcess
from tests.support.waiting import wait_for

#: Pods at once.
MANY = 20
LIFE = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
]


def test_a_plugin_changes_a_container_of_the_kubelet(run: RunPod, plugin: PluginProcess) -> None:
    static = run(pod("changed", annotations={"test/adjust": "env"}))
    static.wait_ready()
    assert "ADDED=yes" in static.run("/bin/env").splitlines()
    line = plugin.wait_for("CreateContainer", pod=static.name)
    assert line["id"] == static.container_id()


def test_a_plugins_lower_memory_limit_is_in_the_cgroup(run: RunPod, plugin: PluginProcess) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    static = run(pod("smaller", container(resources=limits), annotations={"test/adjust": "memory"}))
    static.wait_ready()
    assert static.cgroup("memory", "memory.limit_in_bytes", "memory.max") == str(48 << 20)
    event = plugin.wait_for("CreateContainer", pod=static.name)["message"]
    assert event["linux"]["resources"]["memory"]["limit"]["value"] == str(64 << 20), "the plugin saw kubelet's wish"


def test_a_plugin_changes_a_running_container(run: RunPod, plugin: PluginProcess) -> None:
    static = run(pod("later"))
    static.wait_ready()
    plugin.send({"container": static.container_id(), "set": {"set_memory_limit": 80 << 20, "set_cpu_shares": 321}})
    line = plugin.wait_for("Updated")
    assert (line["failed"], line["error"]) == ([], "")
    assert static.cgroup("memory", "memory.limit_in_bytes", "memory.max") == str(80 << 20)


def test_a_plugin_receives_the_kubelets_names_of_a_pod(run: RunPod, plugin: PluginProcess) -> None:
    static = run(pod("described", annotations={"some/annotation": "value"}))
    static.wait_ready()
    event = plugin.wait_for("CreateContainer", pod=static.name)["message"]
    assert event["name"] == "main"
    assert event["labels"]["io.kubernetes.pod.name"] == static.name
    assert event["labels"]["io.kubernetes.container.name"] == "main"
    assert event["args"][:2] == ["/bin/sh", "-c"]


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
    plugin.wait_for("CreateContainer", pod=static.name)


def test_a_restart_by_the_kubelet_is_a_new_container_for_a_plugin(run: RunPod, plugin: PluginProcess) -> None:
    dying = container(livenessProbe=probe("exit 1", initialDelaySeconds=1))
    static = run(pod("renewed", dying))
    first = plugin.wait_for("CreateContainer", pod=static.name, timeout_s=60)["id"]
    second = plugin.wait_for("CreateContainer", count=2, pod=static.name, timeout_s=60)["id"]
    assert first != second
    assert plugin.wait_for("StopContainer", pod=static.name)["id"] == first


@pytest.mark.timeout(600)
def test_a_plugin_sees_the_whole_life_of_many_pods(
    run: RunPod, plugin: PluginProcess, node: Node, runtime_name: str
) -> None:
    statics = [run(pod(f"watched-{number}")) for number in range(MANY)]
    for static in statics:
        static.wait_ready()
    for static in statics:
        static.remove()
    for static in statics:
        # Kubelet looks once a minute for sandboxes that no pod uses.
        plugin.wait_for("RemovePodSandbox", pod=static.name, timeout_s=150)
        events = [line["event"] for line in plugin.lines(pod=static.name) if line["event"] in LIFE]
        if runtime_name == "engine":  # others say some of it twice
            assert sorted(events) == sorted(LIFE)
        unique = list(dict.fromkeys(events))
        # Which of these two comes first is kubelet's choice.
        ends = {"RemoveContainer", "StopPodSandbox"}
        assert [event for event in unique if event not in ends] == [event for event in LIFE if event not in ends]
        assert ends <= set(unique)
    names = {static.name for static in statics}
    wait_for(lambda: not names & {*node.sandboxes()}, "the removal of the last sandbox")
