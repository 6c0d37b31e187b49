"""Placement plugins on the cluster: install them from the chart, and read CPUs of pods and topologies of nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from nri.placement import masks
from tests.cluster.machine import Cluster
from tests.cluster.pods import Json, read, wait_rolled_out

SPACE = ("-n", "kube-system")
TOPOLOGIES = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"


@contextmanager
def installed(cluster: Cluster, plugin: str, config: Mapping[str, object]) -> Iterator[None]:
    """Have a placement plugin on all nodes, with its policy as a custom resource, while the block runs."""
    settings = (
        "--set",
        f"plugin={plugin},follow.enabled=true,health.enabled=true",
        "--set-json",
        f"config={json.dumps(config)}",
    )
    try:
        cluster.helm("install", *SPACE, plugin, "deploy/helm/nri-plugin", *settings)
        wait_rolled_out(cluster, f"nri-plugin-{plugin}")
        yield
    finally:
        cluster.helm("uninstall", *SPACE, plugin, "--ignore-not-found", "--wait")
        cluster.kubectl("delete", TOPOLOGIES, "--all")


def cpus(cluster: Cluster, name: str, container: str = "main") -> int:
    """The mask of the CPUs that a container of a pod may use."""
    return masks.parse(read(cluster, name, "grep Cpus_allowed_list /proc/1/status", container).split()[-1])


def zones(cluster: Cluster, node: str) -> dict[str, Json]:
    """The zones of a node's NodeResourceTopology, by name: attributes, and `available` of each resource."""
    answer = cluster.get(TOPOLOGIES, node)["zones"]
    return {
        zone["name"]: {row["name"]: row["value"] for row in zone["attributes"]}
        | {row["name"]: row["available"] for row in zone["resources"]}
        for zone in answer
    }
