"""Machines and policies of placement cases: snapshots of /sys next to the file, and guests that the file describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.api import cpuset
from nri.config import Source
from nri.errors import ConfigError
from nri.host.topology import Cache, Cpu, CpuKind, MemoryKind, Node, Topology
from nri.placement.choices import Choices
from nri.placement.machine import Machine
from nri.placement.policy import Policy
from nri.placement.registry import POLICIES
from nri.placement.simulate import policy_of
from nri.placement.snapshot import read_archive

_KIB = 1024
#: Default distance of a node of a guest to itself.
_SELF_DISTANCE = 10
#: Default distance between two nodes of a guest.
_DISTANCE = 21


class Machines:
    """Topologies by name, each created once."""

    def __init__(self, descriptions: Mapping[str, Any], folder: Path) -> None:
        self._descriptions, self.folder = descriptions, folder
        self._cache: dict[str, Topology] = {}

    def get(self, name: str) -> Topology:
        """The machine of this name. Raises ConfigError if its description or its snapshot is missing."""
        if name not in self._cache:
            self._cache[name] = self._make_machine(name)
        return self._cache[name]

    def _make_machine(self, name: str) -> Topology:
        description = self._descriptions.get(name)
        if description is None:
            raise ConfigError(str(self.folder), name, "unknown machine")
        if "base" in description:
            return replace(self.get(description["base"]), isolated=cpuset.parse(description["isolated_cpus"]))
        return self._read(description) if description["kind"] == "sysfs-snapshot" else _machine_of_shape(description)

    def _read(self, description: Mapping[str, Any]) -> Topology:
        name = description["data_file"].split(" ")[0].replace("/", "_")
        archive = self.folder / "sysfs" / name
        return read_archive(archive, description["inside"].removesuffix("sys"))


def _machine_of_shape(shape: Mapping[str, Any]) -> Topology:
    """Make a machine from its shape; CPUs are numbered depth first."""
    packages = shape.get("packages", 1)
    dies = shape.get("dies_per_package", shape.get("dies", 1))
    nodes = shape.get("numa_nodes_per_die", shape.get("numa_per_die", 1))
    cores = shape.get("cores_per_node", shape.get("cores_per_numa", shape.get("cores", 1)))
    threads = shape.get("threads_per_core", shape.get("threads", 1))
    cpus: dict[int, Cpu] = {}
    node_cpus: dict[int, set[int]] = {}
    for place in range(packages * dies * nodes * cores):
        node = place // cores
        siblings = frozenset(range(place * threads, (place + 1) * threads))
        node_cpus.setdefault(node, set()).update(siblings)
        die = node // nodes
        for number in sorted(siblings):
            cpus[number] = Cpu(number, die // dies, die % dies, place % (cores * nodes), place, node, siblings)
    size = cores * nodes * threads
    caches = {n: _caches(cpu, frozenset(range(n // size * size, (n // size + 1) * size))) for n, cpu in cpus.items()}
    if "l3_groups" in shape:
        caches = {n: _caches(cpu, frozenset(range(n // 8 * 8, n // 8 * 8 + 8))) for n, cpu in cpus.items()}
    cpus = {number: replace(cpu, caches=caches[number]) for number, cpu in cpus.items()}
    isolated = cpuset.parse(shape.get("isolated_cpus", ""))
    return Topology(cpus, _nodes(shape, node_cpus), frozenset(cpus), frozenset(), isolated)


def _caches(cpu: Cpu, last: frozenset[int]) -> tuple[Cache, ...]:
    core_caches = [(1, "Data"), (1, "Instruction"), (2, "Unified")]
    return (*(Cache(level, kind, cpu.threads, 0, cpu.core) for level, kind in core_caches),
            Cache(3, "Unified", last, 0, min(last) // len(last)))  # fmt: skip


def _nodes(shape: Mapping[str, Any], node_cpus: Mapping[int, set[int]]) -> dict[int, Node]:
    nodes = shape.get("nodes") or [
        {"id": number, "type": "DRAM", "mem_kib": shape.get("mem_kib_per_node", 0)} for number in node_cpus
    ]
    count = len(nodes)
    distances = shape.get("distances") or [
        [_SELF_DISTANCE if one == other else _DISTANCE for other in range(count)] for one in range(count)
    ]
    return {
        node["id"]: _node(node["id"], node["type"], node["mem_kib"], node_cpus, distances[node["id"]]) for node in nodes
    }


def _node(number: int, kind: str, kib: int, node_cpus: Mapping[int, set[int]], distances: list[int]) -> Node:
    memory_kind: MemoryKind = {"DRAM": "dram", "PMEM": "pmem", "HBM": "hbm"}[kind]  # type: ignore[assignment]
    return Node(number, frozenset(node_cpus.get(number, ())), kib * _KIB, memory_kind, dict(enumerate(distances)))


def with_overrides(topology: Topology, overrides: Mapping[str, Any]) -> Topology:
    """Replace the kinds of cores, or the caches, of a machine by the values of a case."""
    cpus = dict(topology.cpus)
    kinds: dict[CpuKind, str] = {"performance": "performance_cores", "efficient": "efficient_cores"}
    for kind, key in kinds.items():
        if key in overrides:
            other: CpuKind = "efficient" if kind == "performance" else "performance"
            cpus_of_kind = cpuset.parse(overrides[key])
            cpus = {n: replace(cpu, kind=kind if cpu.threads & cpus_of_kind else other) for n, cpu in cpus.items()}
    caches_by_cpu: dict[int, list[Cache]] = {}
    numbers: dict[tuple[int, str], int] = {}
    for override in overrides.get("cache_override", ()):
        level = override.get("level", 1)
        cache_kind = {"d": "Data", "i": "Instruction"}.get(override.get("kind", ""), "Unified")
        for cpu_list in override["cpusets"]:
            number = numbers[level, cache_kind] = numbers.get((level, cache_kind), -1) + 1
            shared = cpuset.parse(cpu_list)
            for cpu_number in shared:
                caches_by_cpu.setdefault(cpu_number, []).append(Cache(level, cache_kind, shared, 0, number))
    for cpu_number, caches in caches_by_cpu.items():
        ordered = tuple(sorted(caches, key=lambda cache: (cache.level, cache.kind)))
        cpus[cpu_number] = replace(cpus[cpu_number], caches=ordered)
    return replace(topology, cpus=cpus)


def make_policy(name: str, machine: Machine, spec: Mapping[str, Any], choices: Choices) -> Policy:
    """Make a policy. Raises ValueError if it refuses the configuration."""
    row = POLICIES.get(name)
    if row is None:
        raise ValueError(f"unknown policy {name!r}")
    try:
        return policy_of(row, machine, Source("configuration", json.dumps(spec), "json"), choices)
    except ConfigError as error:
        raise ValueError(str(error)) from error
