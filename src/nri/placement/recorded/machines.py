"""The machines and policies of placement cases: snapshots of /sys next to the file, guests described in it, options."""

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
#: Distances on a guest that names none: itself, a neighbour.
_NEAR, _FAR = 10, 21


class Machines:
    """Topologies by name, each made once."""

    def __init__(self, described: Mapping[str, Any], folder: Path) -> None:
        self._described, self.folder = described, folder
        self._made: dict[str, Topology] = {}

    def get(self, name: str) -> Topology:
        """The machine of that name. Raises ConfigError if it is not described, or its snapshot is not there."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Topology:
        what = self._described.get(name)
        if what is None:
            raise ConfigError(str(self.folder), name, "no such machine is described")
        if "base" in what:
            return replace(self.get(what["base"]), isolated=cpuset.parse(what["isolated_cpus"]))
        return self._read(what) if what["kind"] == "sysfs-snapshot" else _guest(what)

    def _read(self, what: Mapping[str, Any]) -> Topology:
        name = what["data_file"].split(" ")[0].replace("/", "_")
        archive = self.folder / "sysfs" / name
        return read_archive(archive, what["inside"].removesuffix("sys"))


def _guest(what: Mapping[str, Any]) -> Topology:
    """A machine of which only the shape is described; CPUs are numbered depth first."""
    packages = what.get("packages", 1)
    dies = what.get("dies_per_package", what.get("dies", 1))
    nodes = what.get("numa_nodes_per_die", what.get("numa_per_die", 1))
    cores = what.get("cores_per_node", what.get("cores_per_numa", what.get("cores", 1)))
    threads = what.get("threads_per_core", what.get("threads", 1))
    cpus: dict[int, Cpu] = {}
    of_node: dict[int, set[int]] = {}
    for place in range(packages * dies * nodes * cores):
        node = place // cores
        siblings = frozenset(range(place * threads, (place + 1) * threads))
        of_node.setdefault(node, set()).update(siblings)
        die = node // nodes
        for number in sorted(siblings):
            cpus[number] = Cpu(number, die // dies, die % dies, place % (cores * nodes), place, node, siblings)
    size = cores * nodes * threads
    caches = {n: _caches(cpu, frozenset(range(n // size * size, (n // size + 1) * size))) for n, cpu in cpus.items()}
    if "l3_groups" in what:
        caches = {n: _caches(cpu, frozenset(range(n // 8 * 8, n // 8 * 8 + 8))) for n, cpu in cpus.items()}
    cpus = {number: replace(cpu, caches=caches[number]) for number, cpu in cpus.items()}
    everything = frozenset(cpus)
    return Topology(cpus, _nodes(what, of_node), everything, frozenset(), cpuset.parse(what.get("isolated_cpus", "")))


def _caches(cpu: Cpu, last: frozenset[int]) -> tuple[Cache, ...]:
    own = [(1, "Data"), (1, "Instruction"), (2, "Unified")]
    return (*(Cache(level, kind, cpu.threads, 0, cpu.core) for level, kind in own),
            Cache(3, "Unified", last, 0, min(last) // len(last)))  # fmt: skip


def _nodes(what: Mapping[str, Any], of_node: Mapping[int, set[int]]) -> dict[int, Node]:
    listed = what.get("nodes") or [
        {"id": number, "type": "DRAM", "mem_kib": what.get("mem_kib_per_node", 0)} for number in of_node
    ]
    count = len(listed)
    distances = what.get("distances") or [
        [_NEAR if one == other else _FAR for other in range(count)] for one in range(count)
    ]
    return {
        each["id"]: _node(each["id"], each["type"], each["mem_kib"], of_node, distances[each["id"]]) for each in listed
    }


def _node(number: int, kind: str, kib: int, of_node: Mapping[int, set[int]], distances: list[int]) -> Node:
    word: MemoryKind = {"DRAM": "dram", "PMEM": "pmem", "HBM": "hbm"}[kind]  # type: ignore[assignment]
    return Node(number, frozenset(of_node.get(number, ())), kib * _KIB, word, dict(enumerate(distances)))


def overridden(topology: Topology, overrides: Mapping[str, Any]) -> Topology:
    """A machine with the kinds of cores, or the caches, that a case has instead."""
    cpus = dict(topology.cpus)
    kinds: dict[CpuKind, str] = {"performance": "performance_cores", "efficient": "efficient_cores"}
    for kind, key in kinds.items():
        if key in overrides:
            other: CpuKind = "efficient" if kind == "performance" else "performance"
            named = cpuset.parse(overrides[key])
            cpus = {n: replace(cpu, kind=kind if cpu.threads & named else other) for n, cpu in cpus.items()}
    found: dict[int, list[Cache]] = {}
    numbers: dict[tuple[int, str], int] = {}
    for each in overrides.get("cache_override", ()):
        level, kind_of = each.get("level", 1), {"d": "Data", "i": "Instruction"}.get(each.get("kind", ""), "Unified")
        for words in each["cpusets"]:
            number = numbers[level, kind_of] = numbers.get((level, kind_of), -1) + 1
            shared = cpuset.parse(words)
            for cpu_number in shared:
                found.setdefault(cpu_number, []).append(Cache(level, kind_of, shared, 0, number))
    for cpu_number, caches in found.items():
        ordered = tuple(sorted(caches, key=lambda cache: (cache.level, cache.kind)))
        cpus[cpu_number] = replace(cpus[cpu_number], caches=ordered)
    return replace(topology, cpus=cpus)


def make_policy(name: str, machine: Machine, spec: Mapping[str, Any], choices: Choices) -> Policy:
    """A policy. Raises ValueError for a configuration that it refuses."""
    row = POLICIES.get(name)
    if row is None:
        raise ValueError(f"there is no policy {name!r}")
    try:
        return policy_of(row, machine, Source("configuration", json.dumps(spec), "json"), choices)
    except ConfigError as error:
        raise ValueError(str(error)) from error
