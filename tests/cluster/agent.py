"""The agent from its chart, what pods of Koordinator look like, and what the agent does with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE
from tests.cluster.pods import NODES, Json, apply, pod, pod_on, wait_rolled_out

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


@contextmanager
def agent_installed(cluster: Cluster, *settings: str) -> Iterator[None]:
    """Have the agent on all nodes, a NodeSLO for each node, and Koordinator's priorities while the block runs."""
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in PRIORITY_CLASSES.items()
    ]
    apply(cluster, *classes, *(slo(node) for node in NODES))
    try:
        cluster.helm("install", *SPACE, "agent", "deploy/helm/agent", *settings)
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
        labels={"koordinator.sh/qosClass": "BE", "app": name}, priorityClassName="koord-batch",
    )  # fmt: skip


def agent_log(cluster: Cluster, node: str) -> str:
    """The log of a node's agent."""
    return cluster.kubectl("logs", *SPACE, pod_on(cluster, SELECTOR, node))
