"""The machines and policies of placement cases: snapshots of /sys beside the file, guests described in it, options.

One job: a :class:`~nri.host.topology.Topology` by its name. A snapshot is read in its archive.
"""

from __future__ import annotations

import json
import lzma
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.api import cpuset
from nri.config import Source, read
from nri.config.complaint import WrongValue
from nri.config.layers import refused
from nri.config.place import first_line
from nri.errors import ConfigError
from nri.host import Root
from nri.host.topology import Cache, Cpu, CpuKind, MemoryKind, Node, Topology, read_topology
from nri.policies.placement import masks
from nri.policies.placement.balloons.options import Options as BalloonsOptions
from nri.policies.placement.balloons.policy import Balloons
from nri.policies.placement.choices import Choices
from nri.policies.placement.machine import Machine
from nri.policies.placement.topology_aware.options import Options as TopologyAwareOptions
from nri.policies.placement.topology_aware.policy import TopologyAware

__all__ = ["Machines", "make_policy", "overridden", "policy_of", "read_machine"]

_KIB = 1024
#: No file of /sys is as large.
_MOST_BYTES = 1 << 20
#: An archive has no more, unpacked, nor longer paths: those of /sys have some 200 characters.
_MOST_UNPACKED, _LONGEST_PATH = 512 << 20, 4096
#: Whatever reading of an archive raises that is broken or cut.
_BROKEN = (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError)
_MOST_LINKS = 40
#: The file by which a machine is found in an archive.
_ONLINE = "sys/devices/system/cpu/online"
_NODE = re.compile("/sys/devices/system/node/node([0-9]{1,5})")
_CACHE = re.compile("/sys/devices/system/cpu/cpu([0-9]{1,5})/cache/index([0-9]{1,2})")
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
        try:
            with tarfile.open(archive) as tar:
                return read_topology(_Snapshot(tar, what["inside"].removesuffix("sys")))
        except _BROKEN as error:
            raise ConfigError(str(archive), "", f"no snapshot of a machine: {first_line(error).rstrip(':')}") from error


def read_machine(path: str) -> Topology:
    """The machine of a root folder, or of an archive: FILE, or FILE:FOLDER if it has several machines.

    Raises ConfigError if there is none.
    """
    file, _, inside = path.rpartition(":") if not Path(path).exists() else (path, "", "")
    file = file or path
    if not Path(file).exists():
        raise ConfigError(path, "", "there is no such folder or archive", "name a copy of a machine's root")
    try:
        if not Path(file).is_file():
            found = read_topology(Root(path))
        else:
            with tarfile.open(file) as tar:
                found = read_topology(_Snapshot(tar, inside or _only_machine(file, tar)))
    except _BROKEN as error:
        reason = f"no snapshot of a machine: {first_line(error).rstrip(':')}"
        raise ConfigError(path, "", reason, "name a copy of its root, or an archive of one") from error
    if not found.cpus:
        raise ConfigError(path, "", "there are no CPUs in sys/devices/system/cpu", "name a copy of a machine's root")
    return found


def _only_machine(file: str, tar: tarfile.TarFile) -> str:
    """The folder of the one machine in an archive."""
    names = (posixpath.normpath(member.name) for member in _members(tar))
    roots = {posixpath.normpath(name.removesuffix(_ONLINE)) for name in names if name.endswith(_ONLINE)}
    if len(roots) != 1:
        listed = ", ".join(f"{file}:{root}" for root in sorted(roots)[:_MOST_LINKS])
        raise ConfigError(file, "", f"there are {len(roots)} machines in it", f"name one: {listed}" if roots else "")
    return roots.pop()


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The content of an archive. Raises ValueError for more than a machine has."""
    left = _MOST_UNPACKED
    for member in tar:
        left -= member.size + tarfile.BLOCKSIZE
        if left < 0:
            raise ValueError(f"it has more than {_MOST_UNPACKED >> 20} MiB, unpacked")
        if len(member.name) + len(member.linkname) <= _LONGEST_PATH:
            yield member


class _Snapshot:
    """The files of a machine in an archive, below one of its folders."""

    def __init__(self, tar: tarfile.TarFile, inside: str) -> None:
        self._texts: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        for member in _members(tar):
            path = "/" + posixpath.relpath(member.name, inside)
            folder, name = posixpath.split(path)
            if member.issym():
                self._links[path] = posixpath.join(folder, member.linkname)
            elif member.isfile() and (content := tar.extractfile(member)) is not None:
                text = content.read(_MOST_BYTES).partition(b"\0")[0]  # tar fills up what is shorter than its size
                self._texts[path] = text.decode(errors="replace")
            while name and name not in self._names.setdefault(folder, set()):  # its folders may be in no entry
                self._names[folder].add(name)
                folder, name = posixpath.split(folder)

    def find(self, path: str) -> str | None:
        """The text of a file, None if it is not there."""
        return self._texts.get(self._followed(path))

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        return sorted(self._names.get(self._followed(path), ()))

    def _followed(self, path: str) -> str:
        """A path without links."""
        for _ in range(_MOST_LINKS):
            parts = path.split("/")
            for end in range(2, len(parts) + 1):
                target = self._links.get("/".join(parts[:end]))
                if target is not None:
                    path = posixpath.normpath(posixpath.join(target, *parts[end:]))
                    break
            else:
                return path
        return path


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


def make_policy(name: str, machine: Machine, spec: Mapping[str, Any], choices: Choices) -> TopologyAware | Balloons:
    """A policy. Raises ValueError for a configuration that it refuses."""
    try:
        return policy_of(name, machine, Source("configuration", json.dumps(spec), "json"), choices)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def policy_of(
    name: str, machine: Machine, source: Source, choices: Choices = Choices.DEFAULT
) -> TopologyAware | Balloons:
    """A policy of a configuration, or a resource. Raises ConfigError, ValueError for a name of none."""
    options = {"topology-aware": TopologyAwareOptions, "balloons": BalloonsOptions}.get(name)
    if options is None:
        raise ValueError(f"there is no policy {name!r}")
    given: Any = read(options, [source])
    try:
        if name == "balloons":
            return Balloons(machine, given, choices, lambda path: _near(machine, path))
        return TopologyAware(machine, given, choices)
    except WrongValue as error:
        raise refused(options, source, error) from error


def _near(machine: Machine, path: str) -> list[int]:
    """The CPUs near to a memory node or a cache; none for other devices, which no described machine has."""
    if found := _NODE.fullmatch(path):
        return [machine.nodes.get(int(found[1]), 0)]
    if found := _CACHE.fullmatch(path):
        cpu = machine.topology.cpus.get(int(found[1]))
        caches = cpu.caches if cpu is not None else ()
        return [masks.of(cache.cpus) for cache in caches[int(found[2]) : int(found[2]) + 1]]
    return []
