"""Pools or balloons as zones of a NodeResourceTopology, under the attributes that nri-plugins has for them. Pure.

One job: :func:`zones_of`, of the document that `nri.policies.placement.policy` makes. Next: `resources`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["zones_of"]

#: The API's names of levels.
_TYPES = {"system": "virtual node", "package": "socket", "die": "die", "numa": "numa node", "l3cache": "L3 cache"}


def zones_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One zone for each pool or balloon: CPU and memory that it has and has left, its sets of CPUs and of memory.

    Behind them one for each container that is to have one.
    """
    pooled = document["policy"] == "topology-aware"
    parents: list[str] = []
    zones = []
    for place in document["places"]:
        parents = [*parents[: place["depth"]], place["name"]]
        cpu = _resource("cpu", 1000 * place["cpu_count"], place["free_m"], "m")
        memory = _resource("memory", place["memory_bytes"], max(place["memory_free_bytes"], 0), "")
        kind, cpus = ("shared cpuset", place["shared"]) if pooled else ("cpuset", place["cpus"])
        attributes = [("memory set", place["mems"]), (kind, cpus)]
        if not pooled:
            attributes.append(("shared cpuset", place["shared"]))
        zone: dict[str, Any] = {
            "name": place["name"],
            "type": _TYPES.get(place["level"], place["level"]) if pooled else "balloon",
            "resources": [cpu, memory],
            "attributes": [{"name": name, "value": value} for name, value in attributes],
        }
        if len(parents) > 1:
            zone["parent"] = parents[-2]
        zones.append(zone)
    for container in document["containers"]:
        if container.get("in_zones"):
            cpu = _resource("cpu", container["cpu_m"], 0, "m")
            attributes = [("cpuset", container["cpus"]), ("memory set", container["mems"])]
            zones.append(
                {
                    "name": container["container"],
                    "type": "allocation for container",
                    "parent": container["place"],
                    "resources": [cpu],
                    "attributes": [{"name": name, "value": value} for name, value in attributes],
                }
            )
    return zones


def _resource(name: str, capacity: int, available: int, unit: str) -> dict[str, str]:
    return {
        "name": name,
        "capacity": f"{capacity}{unit}",
        "allocatable": f"{capacity}{unit}",
        "available": f"{max(available, 0)}{unit}",
    }
