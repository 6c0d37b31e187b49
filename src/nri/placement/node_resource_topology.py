"""Zones of a node's NodeResourceTopology, with the names and units of nri-plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nri.placement import masks


def node_zone(
    name: str, kind: str, resources: Iterable[Mapping[str, str]], attributes: Mapping[str, str | int], parent: str = ""
) -> dict[str, Any]:
    """Make a zone. An attribute that is a number is a mask of CPUs or memory nodes."""
    values = {key: value if isinstance(value, str) else masks.text(value) for key, value in attributes.items()}
    return {
        "name": name,
        "type": kind,
        **({"parent": parent} if parent else {}),
        "resources": list(resources),
        "attributes": [{"name": key, "value": value} for key, value in values.items()],
    }


def cpu_resource(capacity_m: int, allocatable_m: int, available_m: int) -> dict[str, str]:
    """The CPU resource of a zone, in thousandths of CPUs."""
    return _resource("cpu", *map(_cpu_quantity, (capacity_m, allocatable_m, available_m)))


def memory_resource(capacity_bytes: int, available_bytes: int) -> dict[str, str]:
    """The memory resource of a zone; all of it is allocatable."""
    return _resource("memory", str(capacity_bytes), str(capacity_bytes), str(available_bytes))


def _resource(name: str, capacity: str, allocatable: str, available: str) -> dict[str, str]:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


def _cpu_quantity(cpu_m: int) -> str:
    cpus, remainder_m = divmod(cpu_m, 1000)
    return f"{cpu_m}m" if remainder_m else str(cpus)
