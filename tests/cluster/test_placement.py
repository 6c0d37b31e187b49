"""Placement plugins as DaemonSets with custom resources: CPUs of pods, and the NodeResourceTopology of their nodes."""

from __future__ import annotations

import pytest

from nri.placement import masks
from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE, cpus, zones
from tests.cluster.pods import NODES, POD_TIMEOUT_S, Json, apply, pod, running
from tests.support.waiting import wait_for


def wait_zones(cluster: Cluster, node: str, shared: int) -> Json:
    """Wait until the node's topology states these shared CPUs; returns the zone."""

    def only_zone() -> Json:
        (zone,) = zones(cluster, node).values()
        return zone

    text = masks.text(shared)
    wait_for(lambda: only_zone()["shared cpuset"] == text, lambda: f"{text}: {only_zone()}", POD_TIMEOUT_S)
    return only_zone()


def test_the_policy_s_status_has_each_node(cluster: Cluster, topology_aware: None) -> None:
    def states() -> dict[str, str]:
        status = cluster.get(*SPACE, "topologyawarepolicy", "default").get("status", {})
        return {node: row["status"] for node, row in status.get("nodes", {}).items()}

    wait_for(lambda: states() == dict.fromkeys(NODES, "Success"), lambda: str(states()), POD_TIMEOUT_S)


@pytest.mark.parametrize("node", NODES)
def test_a_guaranteed_pod_has_its_own_cpus_and_the_topology_states_the_rest(
    cluster: Cluster, topology_aware: None, node: str
) -> None:
    exclusive_pod = pod(f"own-{node}", node, limits={"cpu": "2", "memory": "64Mi"})
    with running(cluster, pod(f"shared-{node}", node), exclusive_pod):
        exclusive_cpus, shared_cpus = cpus(cluster, f"own-{node}"), cpus(cluster, f"shared-{node}")
        assert exclusive_cpus.bit_count() == 2
        assert not exclusive_cpus & shared_cpus
        zone = wait_zones(cluster, node, shared_cpus)
        assert int(zone["cpu"].rstrip("m")) <= 1000 * shared_cpus.bit_count(), zone
    with running(cluster, pod(f"later-{node}", node)):
        wait_zones(cluster, node, cpus(cluster, f"later-{node}"))
        assert cpus(cluster, f"later-{node}") == shared_cpus | exclusive_cpus


@pytest.mark.parametrize("node", NODES)
def test_a_wrong_policy_of_a_node_is_reported_in_its_status_and_pods_keep_their_cpus(
    cluster: Cluster, topology_aware: None, node: str
) -> None:
    wrong: Json = {
        "apiVersion": "config.nri/v1alpha1", "kind": "TopologyAwarePolicy",
        "metadata": {"name": f"node.{node}", "namespace": "kube-system"},
        "spec": {"reservedResources": {"cpu": "cpuset:99"}},
    }  # fmt: skip

    def status() -> Json:
        nodes: Json = cluster.get(*SPACE, "topologyawarepolicy", f"node.{node}").get("status", {}).get("nodes", {})
        return nodes

    with running(cluster, pod(f"kept-{node}", node, limits={"cpu": "2", "memory": "64Mi"})):
        before = cpus(cluster, f"kept-{node}")
        apply(cluster, wrong)
        try:
            wait_for(lambda: status().get(node, {}).get("status") == "Failure", lambda: str(status()), POD_TIMEOUT_S)
            assert "99" in status()[node]["errors"]
            assert cpus(cluster, f"kept-{node}") == before
        finally:
            cluster.kubectl("delete", *SPACE, "topologyawarepolicy", f"node.{node}")
