"""The agent from its chart with Koordinator's profile: rules in the API server, and what pods of both nodes have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE
from tests.cluster.pods import NODES, POD_TIMEOUT_S, Json, apply, pod, pod_on, read, running, wait_rolled_out
from tests.support.waiting import wait_for

BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
SELECTOR = "app.kubernetes.io/name=nri-agent"
PRIORITY_CLASSES = {"koord-batch": 5500}
THRESHOLD = {"enable": True, "cpuSuppressPolicy": "cpuset"}


def slo(node: str, **spec: object) -> Json:
    """The NodeSLO of a node."""
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
        "metadata": {"name": node}, "spec": {"resourceUsedThresholdWithBE": THRESHOLD, **spec},
    }  # fmt: skip


@pytest.fixture(scope="module")
def agent(cluster: Cluster, images: None, kinds: None) -> Iterator[None]:
    """The agent on all nodes, a NodeSLO for each node, and Koordinator's priorities."""
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITY_CLASSES.items()
    ]
    apply(cluster, *classes, *(slo(node) for node in NODES))
    try:
        cluster.helm("install", *SPACE, "agent", "deploy/helm/agent")
        wait_rolled_out(cluster, "nri-agent")
        yield
    finally:
        cluster.helm("uninstall", *SPACE, "agent", "--ignore-not-found", "--wait")
        cluster.kubectl("delete", "nodeslo", "--all")
        cluster.kubectl("delete", "priorityclass", "--ignore-not-found", *PRIORITY_CLASSES)


def batch(name: str, node: str) -> Json:
    """A batch pod as Koordinator's webhook leaves it: half a CPU and 64 MiB."""
    spec = json.dumps({"containers": {"main": {"requests": BATCH, "limits": BATCH}}})
    return pod(
        name, node, {"node.koordinator.sh/extended-resource-spec": spec},
        labels={"koordinator.sh/qosClass": "BE"}, priorityClassName="koord-batch",
    )  # fmt: skip


def slice_file(cluster: Cluster, name: str, node: str, file: str) -> str:
    """A cgroup file of a best-effort pod."""
    uid = cluster.get("pod", name)["metadata"]["uid"].replace("-", "_")
    folder = "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice"
    return cluster.run(int(node[1:]), f"cat {folder}/kubepods-besteffort-pod{uid}.slice/{file}").strip()


def agent_log(cluster: Cluster, node: str) -> str:
    """The log of a node's agent."""
    return cluster.kubectl("logs", *SPACE, pod_on(cluster, SELECTOR, node))


@pytest.fixture(scope="module", params=NODES)
def batch_pod(request: pytest.FixtureRequest, cluster: Cluster, agent: None) -> Iterator[tuple[str, str]]:
    """A batch pod on each node: its name and its node."""
    node = str(request.param)
    with running(cluster, batch(f"batch-{node}", node)):
        yield f"batch-{node}", node


def values(cluster: Cluster, batch_pod: tuple[str, str]) -> list[str]:
    """cpu.max and memory.max of a pod and of its container."""
    files = ("cpu.max", "memory.max")
    of_container = read(cluster, batch_pod[0], "cd /sys/fs/cgroup; cat cpu.max memory.max").splitlines()
    return [*(slice_file(cluster, *batch_pod, file) for file in files), *of_container]


LIMITED = ["50000 100000", str(64 << 20)] * 2


def wait_values(cluster: Cluster, batch_pod: tuple[str, str], expected: list[str]) -> None:
    """Wait until pod and container have these values."""

    def story() -> str:
        return f"{values(cluster, batch_pod)}\n{agent_log(cluster, batch_pod[1])}"

    wait_for(lambda: values(cluster, batch_pod) == expected, story, POD_TIMEOUT_S)


def test_a_batch_pod_has_its_limits_also_after_a_reload_of_systemd(
    cluster: Cluster, batch_pod: tuple[str, str]
) -> None:
    wait_values(cluster, batch_pod, LIMITED)
    cluster.run(int(batch_pod[1][1:]), "systemctl daemon-reload")
    wait_values(cluster, batch_pod, LIMITED)


def test_a_changed_node_slo_changes_a_running_pod(cluster: Cluster, batch_pod: tuple[str, str]) -> None:
    node = batch_pod[1]
    apply(cluster, slo(node, resourceUsedThresholdWithBE=THRESHOLD | {"cpuSuppressPolicy": "cfsQuota"}))
    try:
        wait_values(cluster, batch_pod, ["max 100000", str(64 << 20)] * 2)
    finally:
        apply(cluster, slo(node))
    wait_values(cluster, batch_pod, LIMITED)
