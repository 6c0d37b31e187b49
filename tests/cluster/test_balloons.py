"""balloons as a DaemonSet with its custom resource: CPUs of containers, and the NodeResourceTopology of their nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri.placement import masks
from tests.cluster.machine import Cluster
from tests.cluster.placement import cpus, installed, zones
from tests.cluster.pods import NODES, POD_TIMEOUT_S, pod, running
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def balloons(cluster: Cluster, images: None, kinds: None) -> Iterator[None]:
    """balloons from the chart, with a type for pods with a label."""
    config = {
        "reservedResources": {"cpu": "750m"}, "showContainersInNrt": True,
        "balloonTypes": [{
            "name": "fast", "minCPUs": 1, "maxCPUs": 2, "preferNewBalloons": True,
            "matchExpressions": [{"key": "pod/labels/speed", "operator": "Equals", "values": ["fast"]}],
        }],
    }  # fmt: skip
    with installed(cluster, "balloons", config):
        yield


@pytest.mark.parametrize("node", NODES)
def test_a_container_has_the_cpus_of_its_balloon_in_the_topology(cluster: Cluster, balloons: None, node: str) -> None:
    fast = pod(f"fast-{node}", node, limits={"cpu": "1500m", "memory": "64Mi"}, labels={"speed": "fast"})
    with running(cluster, fast):
        name = f"default/fast-{node}/main"
        wait_for(lambda: name in zones(cluster, node), lambda: str(zones(cluster, node)), POD_TIMEOUT_S)
        zone_by_name = zones(cluster, node)
        assert masks.parse(zone_by_name[name]["cpuset"]) == cpus(cluster, f"fast-{node}")
        (balloon,) = (zone for key, zone in zone_by_name.items() if key.startswith("fast["))
        assert balloon["cpuset"] == zone_by_name[name]["cpuset"]
        assert cpus(cluster, f"fast-{node}").bit_count() == 2
    wait_for(lambda: name not in zones(cluster, node), lambda: str(zones(cluster, node)), POD_TIMEOUT_S)
