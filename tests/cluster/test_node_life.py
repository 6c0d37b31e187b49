"""Nodes and programs that end: pods, placement and cgroups are the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.cluster.machine import RUNTIMES, Cluster
from tests.cluster.placement import SPACE, cpus
from tests.cluster.pods import NODES, POD_TIMEOUT_S, pod, pod_on, read, running, wait_ready
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("topology_aware"), pytest.mark.parametrize("node", NODES, scope="module")]

UNITS = {"engine": "nri-engine", "containerd": "containerd"}
LIMITS = {"cpu": "2", "memory": "64Mi"}
CGROUP_FILES = ("cpu.max", "cpu.weight", "memory.max", "pids.max")
#: Prints the number of container scopes of pods, and of addresses that pods have.
COUNTS = (
    "find /sys/fs/cgroup/kubepods.slice -name '*.scope' ! -name 'conmon-*' | wc -l;"
    " ls /var/lib/cni/networks/pods | grep -c '^10'"
)


class State(NamedTuple):
    """What is the same before and afterwards: cgroup files of two pods, exclusive CPUs, cgroups and addresses."""

    exclusive: tuple[str, ...]
    shared: tuple[str, ...]
    exclusive_cpus: int
    overlapping_cpus: int
    counts: str


class Pods(NamedTuple):
    """Two pods of a node: one with exclusive CPUs and one without."""

    node: str
    exclusive: str
    shared: str


@pytest.fixture(scope="module")
def pods(cluster: Cluster, topology_aware: None, node: str) -> Iterator[Pods]:
    """Two pods on the node."""
    names = Pods(node, f"own-{node}", f"shared-{node}")
    with running(cluster, pod(names.exclusive, node, limits=LIMITS), pod(names.shared, node)):
        yield names


def state(cluster: Cluster, pods: Pods) -> State:
    """The state of the pods and of their node."""
    files = "; ".join(f"cat /sys/fs/cgroup/{name}" for name in CGROUP_FILES)
    exclusive, shared = (tuple(read(cluster, name, files).splitlines()) for name in (pods.exclusive, pods.shared))
    exclusive_cpus, shared_cpus = cpus(cluster, pods.exclusive), cpus(cluster, pods.shared)
    counts = cluster.run(int(pods.node[1:]), COUNTS)
    return State(exclusive, shared, exclusive_cpus.bit_count(), exclusive_cpus & shared_cpus, counts)


def wait_state(cluster: Cluster, pods: Pods, before: State) -> None:
    """Wait until all pods of the node are Ready and the state is the same again."""
    wait_ready(cluster, pods.exclusive, pods.shared)
    wait_ready(
        cluster, pod_on(cluster, "app.kubernetes.io/name=nri-plugin-topology-aware", pods.node), namespace=SPACE[1]
    )
    wait_for(lambda: state(cluster, pods) == before, lambda: f"{before}, but {state(cluster, pods)}", POD_TIMEOUT_S)


def container_ids(cluster: Cluster, pods: Pods) -> list[str]:
    """The ids of the pods' containers."""
    return [
        cluster.get("pod", name)["status"]["containerStatuses"][0]["containerID"]
        for name in (pods.exclusive, pods.shared)
    ]


def kill_unit(cluster: Cluster, node: str, unit: str) -> None:
    """End the main process of a unit by SIGKILL, and wait until systemd has started it again."""
    number, show = int(node[1:]), f"systemctl show -P MainPID {unit}"
    pid = cluster.run(number, show).strip()
    cluster.run(number, f"kill -9 {pid}")
    wait_for(
        lambda: (
            cluster.run(number, f"systemctl is-active {unit} || true").strip() == "active"
            and cluster.run(number, show).strip() not in (pid, "0")
        ),
        f"{unit} is active",
        POD_TIMEOUT_S,
    )


def run_another(cluster: Cluster, node: str) -> None:
    """Run a pod on the node and remove it: kubelet and runtime work."""
    with running(cluster, pod(f"another-{node}", node)):
        pass


def test_pods_survive_a_killed_runtime(cluster: Cluster, pods: Pods) -> None:
    before, ids = state(cluster, pods), container_ids(cluster, pods)
    kill_unit(cluster, pods.node, UNITS[RUNTIMES[int(pods.node[1:]) - 1]])
    run_another(cluster, pods.node)
    wait_state(cluster, pods, before)
    assert container_ids(cluster, pods) == ids


def test_pods_survive_a_killed_kubelet(cluster: Cluster, pods: Pods) -> None:
    before, ids = state(cluster, pods), container_ids(cluster, pods)
    kill_unit(cluster, pods.node, "kubelet")
    run_another(cluster, pods.node)
    wait_state(cluster, pods, before)
    assert container_ids(cluster, pods) == ids


def test_pods_keep_their_cpus_when_the_plugin_is_killed(cluster: Cluster, pods: Pods) -> None:
    before, ids, exclusive_cpus = state(cluster, pods), container_ids(cluster, pods), cpus(cluster, pods.exclusive)
    plugin = pod_on(cluster, "app.kubernetes.io/name=nri-plugin-topology-aware", pods.node)

    def restarts() -> int:
        rows = cluster.get("pod", *SPACE, plugin)["status"]["containerStatuses"]
        return int(next(row["restartCount"] for row in rows if row["name"] == "plugin"))

    count = restarts()
    cluster.run(int(pods.node[1:]), "pkill -9 -f '^/plugin/bin/python .*nri.plugins'")
    wait_for(lambda: restarts() > count, "the plugin was started again", POD_TIMEOUT_S)
    wait_state(cluster, pods, before)
    assert (container_ids(cluster, pods), cpus(cluster, pods.exclusive)) == (ids, exclusive_cpus)


@pytest.mark.parametrize("power_cut", [False, True], ids=["reboot", "power-cut"])
def test_a_node_that_ends_has_its_pods_again_afterwards(cluster: Cluster, pods: Pods, power_cut: bool) -> None:
    before, number = state(cluster, pods), int(pods.node[1:])
    cluster.stop_node(number, power_cut=power_cut)
    cluster.start_node(number)
    run_another(cluster, pods.node)
    wait_state(cluster, pods, before)


def test_a_drained_node_keeps_only_pods_of_daemon_sets(cluster: Cluster, pods: Pods) -> None:
    """Last: the pods are gone afterwards."""
    cluster.kubectl("drain", pods.node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=200s")
    try:
        # topology-aware's pod with its two containers is left.
        wait_for(
            lambda: cluster.run(int(pods.node[1:]), COUNTS).split() == ["2", "1"],
            lambda: cluster.run(int(pods.node[1:]), COUNTS),
            POD_TIMEOUT_S,
        )
    finally:
        cluster.kubectl("uncordon", pods.node)
    run_another(cluster, pods.node)
