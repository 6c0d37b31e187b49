"""Pools and balloons as zones, under nri-plugins' attributes."""

from __future__ import annotations

from typing import Any

from nri.plugins.placement.nodezones import zones_of
from nri.policies.placement.policy import document
from tests.support.placement import balloons, container, topology_aware


def attributes(zone: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in zone["attributes"]}


def test_pools_are_zones_with_their_parents_and_what_they_have_left() -> None:
    policy = topology_aware()
    policy.create(container("own", 2000, memory=1 << 30))
    zones = {each["name"]: each for each in zones_of(document(policy))}
    assert list(zones)[:3] == ["root", "socket #0", "NUMA node #0"]
    assert "parent" not in zones["root"]
    assert (zones["NUMA node #3"]["parent"], zones["NUMA node #3"]["type"]) == ("socket #1", "numa node")
    own = zones[next(place.name for place in policy.places() if place.containers)]
    cpu, memory = own["resources"]
    assert (cpu["name"], cpu["capacity"], cpu["available"]) == ("cpu", "4000m", "2000m")
    assert (memory["capacity"], memory["available"]) == (str(2 << 30), str(1 << 30))
    assert set(attributes(own)) == {"memory set", "shared cpuset"}


def test_balloons_are_zones_with_their_own_cpus() -> None:
    policy = balloons({"name": "web", "namespaces": ["default"]})
    policy.create(container("a", 2000))
    zone = zones_of(document(policy))[-1]
    assert (zone["name"], zone["type"]) == ("web[0]", "balloon")
    assert attributes(zone)["cpuset"] == policy.pins["a"].cpus
    assert "parent" not in zone


def test_containers_are_zones_below_their_balloons_where_that_is_wanted() -> None:
    dark = {"name": "dark", "namespaces": ["dark"], "showContainersInNrt": False}
    policy = balloons({"name": "web", "namespaces": ["default"]}, dark, showContainersInNrt=True)
    for name, namespace in (("a", "default"), ("b", "dark")):
        policy.create(container(name, 2000, namespace=namespace))
    policy.create(container("left", 0, **{"cpu.preserve": "true"}))
    (zone,) = [each for each in zones_of(document(policy)) if each["type"] == "allocation for container"]
    assert (zone["name"], zone["parent"]) == ("default/a/a", "web[0]")
    assert attributes(zone) == {"cpuset": policy.pins["a"].cpus, "memory set": policy.pins["a"].mems}
    assert zone["resources"][0]["capacity"] == "2000m"
