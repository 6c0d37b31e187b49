"""Zones of a NodeResourceTopology; recorded ones are in tests/conformance/test_node_zones.py."""

from __future__ import annotations

from typing import Any

import pytest

from nri.placement.policy import document, exposition
from tests.support.placement import balloons, container, guest, topology_aware


def attributes(zone: dict[str, Any]) -> dict[str, str]:
    return {attribute["name"]: attribute["value"] for attribute in zone["attributes"]}


def zones_by_name(policy: Any) -> dict[str, dict[str, Any]]:
    return {zone["name"]: zone for zone in document(policy)["zones"]}


def test_shared_cpus_exclude_reserved_cpus_in_zones_and_metrics() -> None:
    policy = topology_aware(reservedResources={"cpu": "cpuset:0,4"})
    policy.create(container("system", 500, qos="Burstable", namespace="kube-system"))
    root = next(place for place in document(policy)["places"] if place["name"] == "root")
    assert attributes(zones_by_name(policy)["root"])["shared cpuset"] == root["shared"] == "1-3,5-15"
    metrics = exposition(policy.gauges())
    assert 'zone_cpu_shared_capacity_cores{zone="root"} 14\n' in metrics
    assert 'zone_cpu_shared_assigned_cores{zone="root"} 0\n' in metrics


def test_isolated_cpus_are_not_allocatable() -> None:
    policy = topology_aware(guest(isolated_cpus="4-5"))
    zone = zones_by_name(policy)["NUMA node #1"]
    cpu = next(resource for resource in zone["resources"] if resource["name"] == "cpu")
    assert (cpu["capacity"], cpu["available"]) == ("2", "2")
    assert attributes(zone)["isolated cpuset"] == "4-5"


def test_allocatable_resources_are_equal_after_a_restart() -> None:
    types = {"name": "web", "namespaces": ["default"], "minBalloons": 1, "minCPUs": 2}, {"name": "db"}
    before = balloons(*types)
    running = container("a", 5000)
    before.create(running)
    after = type(before)(before.machine, before.options, state=before.saved(), containers={"a": running})
    assert after.pins["a"] == before.pins["a"]
    assert zones_by_name(after) == zones_by_name(before)


@pytest.mark.parametrize(("limit_m", "capacity"), [(0, "3"), (1500, "1500m"), (9000, "3")])
def test_the_capacity_of_a_container_is_its_usable_cpus(limit_m: int, capacity: str) -> None:
    policy = balloons({"name": "web", "namespaces": ["default"], "minCPUs": 3, "showContainersInNrt": True})
    policy.create(container("a", 500, qos="Burstable", limit_m=limit_m))
    zone = zones_by_name(policy)["default/a/a"]
    assert zone["resources"] == [{"name": "cpu", "capacity": capacity, "allocatable": "500m", "available": "0"}]
    assert zone["parent"] == "web[0]"


def test_a_preserved_container_has_no_zone() -> None:
    policy = balloons({"name": "web", "namespaces": ["default"]}, showContainersInNrt=True)
    policy.create(container("left", **{"cpu.preserve": "true"}))
    assert set(zones_by_name(policy)) == {"reserved[0]", "default[0]"}
