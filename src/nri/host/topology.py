"""Processors and memory of a machine: packages, dies, cores, caches, memory nodes and the distances between them.

One job: :func:`read_topology`, once, into frozen values. Rules: reads only, from /sys; CPU numbers may have gaps, and a
CPU that is offline has no place in a core. A kernel without NUMA is one node with everything. A kind of memory or core
is a fact only as far as the kernel tells: a node without CPUs is HBM if it is smaller than the mean of those with, else
slow memory, as nri-plugins has it. Next: :mod:`nri.host.usage`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from nri.api import cpuset

__all__ = ["Cache", "Cpu", "Node", "Topology", "read_topology"]

_CPUS, _NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"
#: On processors with two kinds of cores, the CPUs of each.
_KINDS: dict[Literal["performance", "efficient"], str] = {
    "performance": "/sys/devices/cpu_core/cpus",
    "efficient": "/sys/devices/cpu_atom/cpus",
}
_LOCAL, _REMOTE = 10, 20

CpuKind = Literal["performance", "efficient", "uniform"]
MemoryKind = Literal["dram", "pmem", "hbm"]


class Cache(NamedTuple):
    """One cache, and the CPUs that share it. The number is that of resctrl's domains; None before Linux 4.10."""

    level: int
    kind: str
    cpus: frozenset[int]
    size_bytes: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """One CPU, which is a thread of a core.

    Attributes:
        cluster: the number of CPUs' cluster, mostly those with a common second cache; -1 if the kernel has none.
        node: its memory node.
        threads: all threads of its core, itself among them.
        caches: from the first level up.
        base_khz: its frequency without turbo; None if the kernel does not tell.
        energy_preference: what its frequency is chosen for, as `balance_power`; "" if the kernel does not tell.
    """

    number: int
    package: int
    die: int
    cluster: int
    core: int
    node: int
    threads: frozenset[int]
    kind: CpuKind = "uniform"
    caches: tuple[Cache, ...] = ()
    base_khz: int | None = None
    energy_preference: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One memory node.

    Attributes:
        distances: to each node by its number; 10 is itself.
        has_normal_memory: whether the kernel may put anything there; if not, only what can be moved.
    """

    number: int
    cpus: frozenset[int]
    memory_bytes: int
    kind: MemoryKind
    distances: dict[int, int]
    has_normal_memory: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine. `cpus` are those that are online, by number; `isolated` are kept from the scheduler at boot."""

    cpus: dict[int, Cpu]
    nodes: dict[int, Node]
    present: frozenset[int]
    offline: frozenset[int]
    isolated: frozenset[int]

    @property
    def online(self) -> frozenset[int]:
        """The numbers of the CPUs that are online."""
        return frozenset(self.cpus)

    def grouped(self, key: Callable[[Cpu], Hashable]) -> list[frozenset[int]]:
        """The CPUs, together where the key is the same, in the order of their first."""
        found: dict[Hashable, set[int]] = {}
        for number in sorted(self.cpus):
            found.setdefault(key(self.cpus[number]), set()).add(number)
        return [frozenset(numbers) for numbers in found.values()]

    def packages(self) -> list[frozenset[int]]:
        """The CPUs of each package, which is what sits in one socket."""
        return self.grouped(lambda cpu: cpu.package)

    def dies(self) -> list[frozenset[int]]:
        """The CPUs of each die of each package."""
        return self.grouped(lambda cpu: (cpu.package, cpu.die))

    def cores(self) -> list[frozenset[int]]:
        """The threads of each core."""
        return self.grouped(lambda cpu: cpu.threads)

    def sharing(self, level: int) -> list[frozenset[int]]:
        """The CPUs of each cache of a level for data; none of those CPUs that have no such cache."""
        caches = {
            cache.cpus & self.online
            for cpu in self.cpus.values()
            for cache in cpu.caches
            if cache.level == level and cache.kind != "Instruction"
        }
        return sorted(caches, key=min)

    def nearest(self, node: int) -> list[int]:
        """All nodes with memory, the nearest to this one first. Raises KeyError if there is no such node."""
        distances = self.nodes[node].distances
        there = (each for each in self.nodes.values() if each.memory_bytes)
        return [each.number for each in sorted(there, key=lambda each: (distances[each.number], each.number))]


class Tree(Protocol):
    """The part of :class:`~nri.host.root.Root` that is needed: what a snapshot of a machine has, too."""

    def find(self, path: str) -> str | None:
        """The text of a file, None if it is not there."""
        ...

    def names(self, path: str) -> list[str]:
        """The names in a folder, none if it is not there."""
        ...


def read_topology(root: Tree) -> Topology:
    """Read the processors and the memory of a machine. Raises ValueError for a text that cannot be understood."""
    online = _numbers(root, f"{_CPUS}/online") or _entries(root, _CPUS, "cpu")
    present = _numbers(root, f"{_CPUS}/present") or online
    nodes = _read_nodes(root, online)
    node_of = {cpu: node.number for node in nodes.values() for cpu in node.cpus}
    kinds = {cpu: kind for kind, path in _KINDS.items() for cpu in _numbers(root, path)}
    cpus = {number: _read_cpu(root, number, node_of, kinds) for number in sorted(online)}
    isolated = _numbers(root, f"{_CPUS}/isolated") & online
    return Topology(cpus, nodes, present, present - online, isolated)


def _read_cpu(
    root: Tree, number: int, node_of: dict[int, int], kinds: dict[int, Literal["performance", "efficient"]]
) -> Cpu:
    base = f"{_CPUS}/cpu{number}"
    threads = _numbers(root, f"{base}/topology/thread_siblings_list")
    return Cpu(
        number,
        package=max(_number(root, f"{base}/topology/physical_package_id"), 0),
        die=max(_number(root, f"{base}/topology/die_id"), 0),
        cluster=_number(root, f"{base}/topology/cluster_id"),
        core=_number(root, f"{base}/topology/core_id"),
        node=node_of.get(number, 0),
        threads=threads or frozenset({number}),
        kind=kinds.get(number, "uniform"),
        caches=tuple(_read_caches(root, base)),
        base_khz=_number(root, f"{base}/cpufreq/base_frequency", 0) or None,
        energy_preference=(root.find(f"{base}/cpufreq/energy_performance_preference") or "").strip(),
    )


def _read_caches(root: Tree, base: str) -> list[Cache]:
    found = []
    for name in sorted(_entries(root, f"{base}/cache", "index")):
        folder = f"{base}/cache/index{name}"
        number = _number(root, f"{folder}/id")
        size = (root.find(f"{folder}/size") or "0").strip()
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        size_bytes = int(size.rstrip("KMG") or 0) * units.get(size[-1:], 1)
        kind = (root.find(f"{folder}/type") or "Unified").strip()
        cpus = _numbers(root, f"{folder}/shared_cpu_list")
        found.append(Cache(_number(root, f"{folder}/level"), kind, cpus, size_bytes, number if number >= 0 else None))
    return sorted(found, key=lambda cache: (cache.level, cache.kind))


def _read_nodes(root: Tree, online: frozenset[int]) -> dict[int, Node]:
    numbers = sorted(_numbers(root, f"{_NODES}/online") or _entries(root, _NODES, "node"))
    if not numbers:
        memory = _memory(root.find("/proc/meminfo") or "")
        return {0: Node(0, online, memory, "dram", {0: _LOCAL})}
    cpus = {number: _numbers(root, f"{_NODES}/node{number}/cpulist") & online for number in numbers}
    memory_of = {number: _memory(root.find(f"{_NODES}/node{number}/meminfo") or "") for number in numbers}
    local = [memory_of[number] for number in numbers if cpus[number] and memory_of[number]]
    mean = sum(local) / len(local) if local else 0
    normal = root.find(f"{_NODES}/has_normal_memory")
    with_normal = frozenset(numbers) if normal is None else cpuset.parse(normal)
    return {
        number: Node(
            number,
            cpus[number],
            memory_of[number],
            _memory_kind(bool(cpus[number]), memory_of[number], mean),
            _distances(root, number, numbers),
            number in with_normal,
        )
        for number in numbers
    }


def _memory_kind(has_cpus: bool, size: int, mean: float) -> MemoryKind:
    if has_cpus:
        return "dram"
    return "hbm" if size < mean else "pmem"


def _distances(root: Tree, number: int, numbers: list[int]) -> dict[int, int]:
    """The row of a node; where the kernel has none, each other node is equally far."""
    words = (root.find(f"{_NODES}/node{number}/distance") or "").split()
    if len(words) == len(numbers):
        return {other: int(word) for other, word in zip(numbers, words, strict=True)}
    return {other: _LOCAL if other == number else _REMOTE for other in numbers}


def _memory(text: str) -> int:
    """All memory in bytes, of a node or of the machine."""
    for line in text.splitlines():
        words = line.split()
        if "MemTotal:" in words:
            return int(words[words.index("MemTotal:") + 1]) << 10
    return 0


def _numbers(root: Tree, path: str) -> frozenset[int]:
    """A list of numbers; none if there is no such file."""
    return cpuset.parse(root.find(path) or "")


def _number(root: Tree, path: str, without: int = -1) -> int:
    text = root.find(path)
    return without if text is None or not text.strip() else int(text)


def _entries(root: Tree, path: str, stem: str) -> frozenset[int]:
    """The numbers of the entries of a folder that begin with a word: `cpu0`, `cpu1`."""
    words = (name.removeprefix(stem) for name in root.names(path) if name.startswith(stem))
    return frozenset(int(word) for word in words if word.isdigit())
