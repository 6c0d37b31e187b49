"""The agent from its chart with Koordinator's profile: rules in the API server, and what pods of both nodes have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.agent import THRESHOLD, agent_installed, agent_log, batch, slo
from tests.cluster.machine import Cluster
from tests.cluster.pods import NODES, POD_TIMEOUT_S, apply, best_effort_slice, read, running
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def agent(cluster: Cluster, images: None, kinds: None) -> Iterator[None]:
    """The agent on all nodes."""
    with agent_installed(cluster):
        yield


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
    return [*(best_effort_slice(cluster, *batch_pod, file) for file in files), *of_container]


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
