"""The driver dra-cpu as a DaemonSet with the shipped manifests: claims of the manual's pod, and CPUs of containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from nri.placement import masks
from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE, cpus
from tests.cluster.pods import CONTAINER, NODES, POD_TIMEOUT_S, Json, apply, pod, pod_on, running, wait_rolled_out
from tests.support.pages import read_blocks
from tests.support.waiting import wait_for
from tools.nodes.machine import ROOT

DRIVER = "dra-cpu.nri.io"
SELECTOR = "app.kubernetes.io/name=nri-dra-cpu"
#: Nodes have four CPUs; the DaemonSet reserves CPU 0.
ALL_CPUS, OFFERED_CPUS = 0b1111, 0b1110


def offered(cluster: Cluster, node: str) -> int:
    """The mask of the CPUs in a node's slices."""
    mask = 0
    for item in cluster.get("resourceslices")["items"]:
        if item["spec"]["driver"] == DRIVER and item["spec"]["nodeName"] == node:
            mask |= masks.of(int(device["name"].removeprefix("cpu-")) for device in item["spec"]["devices"])
    return mask


def wait_offered(cluster: Cluster) -> None:
    """Wait until each node offers its CPUs."""
    expected = dict.fromkeys(NODES, OFFERED_CPUS)

    def current() -> dict[str, int]:
        return {node: offered(cluster, node) for node in NODES}

    wait_for(lambda: current() == expected, lambda: f"{current()}", POD_TIMEOUT_S)


@pytest.fixture(scope="module")
def driver(cluster: Cluster, images: None) -> Iterator[None]:
    """The driver on all nodes, installed as the manual says."""
    try:
        cluster.kubectl("apply", "-k", "deploy/dra-cpu")
        wait_rolled_out(cluster, "nri-dra-cpu")
        wait_offered(cluster)
        yield
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-k", "deploy/dra-cpu")


def manual_objects(node: str) -> tuple[Json, Json]:
    """The claim template and the pod of docs/howto/dra.md, with the image of the tests, for one node."""
    text = next(
        block.text for block in read_blocks(ROOT / "docs/howto/dra.md") if "ResourceClaimTemplate" in block.text
    )
    template, manifest = yaml.safe_load_all(text)
    for document in (template, manifest):
        document["metadata"] |= {"namespace": "default", "name": f"{document['metadata']['name']}-{node}"}
    spec = manifest["spec"]
    spec["resourceClaims"][0]["resourceClaimTemplateName"] = template["metadata"]["name"]
    # The scheduler allocates claims, so the pod selects its node instead of naming it.
    spec |= {"nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0}
    spec["containers"] = [CONTAINER | {"name": item["name"]} | _resources(item) for item in spec["containers"]]
    return template, manifest


def _resources(container: Json) -> Json:
    return {"resources": container["resources"]} if "resources" in container else {}


def allocated(cluster: Cluster, name: str) -> int:
    """The mask of the CPUs that the scheduler has allocated to the claim of a pod."""
    (status,) = cluster.get("pod", name)["status"]["resourceClaimStatuses"]
    devices = cluster.get("resourceclaim", status["resourceClaimName"])["status"]["allocation"]["devices"]["results"]
    return masks.of(int(device["device"].removeprefix("cpu-")) for device in devices)


@pytest.fixture(params=NODES)
def claimed(request: pytest.FixtureRequest, cluster: Cluster, driver: None) -> Iterator[tuple[str, str, str]]:
    """A node, a pod without claims, and the manual's pod, which starts after it."""
    node = str(request.param)
    template, manifest = manual_objects(node)
    name = manifest["metadata"]["name"]
    with running(cluster, pod(f"plain-{node}", node)):
        apply(cluster, template)
        try:
            with running(cluster, manifest):
                yield node, f"plain-{node}", name
        finally:
            cluster.kubectl("delete", "resourceclaimtemplate", template["metadata"]["name"])
        wait_for(lambda: cpus(cluster, f"plain-{node}") == ALL_CPUS, "the CPUs of the released claim", POD_TIMEOUT_S)


def test_claimed_cpus_are_those_of_the_container_also_after_kills_and_an_update_of_the_daemon_set(
    cluster: Cluster, claimed: tuple[str, str, str]
) -> None:
    node, plain, owner = claimed
    own_cpus = allocated(cluster, owner)

    def current() -> list[int]:
        return [cpus(cluster, owner), cpus(cluster, owner, "log"), cpus(cluster, plain)]

    expected = [own_cpus, ALL_CPUS & ~own_cpus, ALL_CPUS & ~own_cpus]
    assert own_cpus.bit_count() == 2
    assert current() == expected
    cluster.run(int(node[1:]), "pkill -9 -f '^/agent/bin/python .*nri.plugins dra-cpu'")
    assert current() == expected, "while the plugin is absent"
    cluster.kubectl("rollout", "restart", *SPACE, "daemonset/nri-dra-cpu")
    wait_rolled_out(cluster, "nri-dra-cpu")
    assert current() == expected, "after the rolling update"
    with running(cluster, pod(f"late-{node}", node)):
        wait_for(lambda: cpus(cluster, f"late-{node}") == ALL_CPUS & ~own_cpus, "CPUs of a later pod", POD_TIMEOUT_S)
    assert current() == expected, "after another pod"


def test_the_driver_logs_neither_warnings_nor_errors(cluster: Cluster, claimed: tuple[str, str, str]) -> None:
    log = cluster.kubectl("logs", *SPACE, pod_on(cluster, SELECTOR, claimed[0]))
    assert "registered with the kubelet as dra-cpu.nri.io" in log
    assert "warning" not in log.lower() and "error" not in log.lower(), log
