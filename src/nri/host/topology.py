"""Read a machine's topology from /sys: packages, dies, cores, caches, memory nodes and their distances.

CPU numbers may have gaps. A kernel without NUMA has one node with all CPUs and memory. As in nri-plugins, a node
without CPUs is HBM if it is smaller than the mean of the nodes with CPUs, else PMEM (slow memory).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from nri.api import cpuset

_CPUS, _NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"
#: The files with the CPUs of each kind of core, on processors with two kinds.
_KINDS: dict[Literal["performance", "efficient"], str] = {
    "performance": "/sys/devices/cpu_core/cpus",
    "efficient": "/sys/devices/cpu_atom/cpus",
}
_LOCAL_DISTANCE, _REMOTE_DISTANCE = 10, 20

CpuKind = Literal["performance", "efficient", "uniform"]
MemoryKind = Literal["dram", "pmem", "hbm"]


class Cache(NamedTuple):
    """A cache, and the CPUs that share it. The number is its domain in resctrl, or None before Linux 4.10."""

    level: int
    kind: str
    cpus: frozenset[int]
    size_bytes: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU, which is a thread of a core.

    Attributes:
        cluster: the number of the CPU's cluster, usually the CPUs with a common L2 cache, or -1 if not reported.
        node: the number of the CPU's memory node.
        threads: all threads of the CPU's core, including this CPU.
        caches: the CPU's caches by ascending level.
        base_khz: the CPU's frequency without turbo, or None if not reported.
        energy_preference: the CPU's energy preference, for example `balance_power`, or "" if not reported.
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
    """A memory node.

    Attributes:
        distances: the distance to each node by number. The distance from a node to the same node is 10.
        has_normal_memory: whether the node's memory can hold unmovable pages.
    """

    number: int
    cpus: frozenset[int]
    memory_bytes: int
    kind: MemoryKind
    distances: dict[int, int]
    has_normal_memory: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine. `cpus` has the online CPUs by number. The scheduler does not use `isolated` CPUs by default."""

    cpus: dict[int, Cpu]
    nodes: dict[int, Node]
    present: frozenset[int]
    offline: frozenset[int]
    isolated: frozenset[int]

    @property
    def online(self) -> frozenset[int]:
        """The numbers of the online CPUs."""
        return frozenset(self.cpus)

    def grouped(self, key: Callable[[Cpu], Hashable]) -> list[frozenset[int]]:
        """Sets of CPUs with the same key, ordered by their first CPU."""
        groups: dict[Hashable, set[int]] = {}
        for number in sorted(self.cpus):
            groups.setdefault(key(self.cpus[number]), set()).add(number)
        return [frozenset(numbers) for numbers in groups.values()]

    def packages(self) -> list[frozenset[int]]:
        """The CPUs of each package (socket)."""
        return self.grouped(lambda cpu: cpu.package)

    def dies(self) -> list[frozenset[int]]:
        """The CPUs of each die of each package."""
        return self.grouped(lambda cpu: (cpu.package, cpu.die))

    def cores(self) -> list[frozenset[int]]:
        """The threads of each core."""
        return self.grouped(lambda cpu: cpu.threads)

    def sharing(self, level: int) -> list[frozenset[int]]:
        """The CPUs of each data cache of a level."""
        caches = {
            cache.cpus & self.online
            for cpu in self.cpus.values()
            for cache in cpu.caches
            if cache.level == level and cache.kind != "Instruction"
        }
        return sorted(caches, key=min)

    def nearest(self, node: int) -> list[int]:
        """All nodes with memory, the nearest to `node` first. Raises KeyError if the node does not exist."""
        distances = self.nodes[node].distances
        with_memory = (other for other in self.nodes.values() if other.memory_bytes)
        return [
            other.number for other in sorted(with_memory, key=lambda other: (distances[other.number], other.number))
        ]


class Tree(Protocol):
    """The methods of :class:`~nri.host.root.Root` that this module needs. A snapshot of a machine has them, too."""

    def find(self, path: str) -> str | None:
        """The content of a file, or None if it cannot be read."""
        ...

    def names(self, path: str) -> list[str]:
        """The names in a folder. Returns an empty list if the folder does not exist."""
        ...


def read_topology(root: Tree) -> Topology:
    """Read the processors and the memory of a machine. Raises ValueError if a file is invalid."""
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
    caches = []
    for name in sorted(_entries(root, f"{base}/cache", "index")):
        folder = f"{base}/cache/index{name}"
        number = _number(root, f"{folder}/id")
        size = (root.find(f"{folder}/size") or "0").strip()
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        size_bytes = int(size.rstrip("KMG") or 0) * units.get(size[-1:], 1)
        kind = (root.find(f"{folder}/type") or "Unified").strip()
        cpus = _numbers(root, f"{folder}/shared_cpu_list")
        caches.append(Cache(_number(root, f"{folder}/level"), kind, cpus, size_bytes, number if number >= 0 else None))
    return sorted(caches, key=lambda cache: (cache.level, cache.kind))


def _read_nodes(root: Tree, online: frozenset[int]) -> dict[int, Node]:
    numbers = sorted(_numbers(root, f"{_NODES}/online") or _entries(root, _NODES, "node"))
    if not numbers:
        memory = _memory(root.find("/proc/meminfo") or "")
        return {0: Node(0, online, memory, "dram", {0: _LOCAL_DISTANCE})}
    cpus = {number: _numbers(root, f"{_NODES}/node{number}/cpulist") & online for number in numbers}
    memory_of = {number: _memory(root.find(f"{_NODES}/node{number}/meminfo") or "") for number in numbers}
    sizes_bytes = [memory_of[number] for number in numbers if cpus[number] and memory_of[number]]
    mean = sum(sizes_bytes) / len(sizes_bytes) if sizes_bytes else 0
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
    """The distances of a node. If the kernel does not report them, all other nodes are equally far."""
    words = (root.find(f"{_NODES}/node{number}/distance") or "").split()
    if len(words) == len(numbers):
        return {other: int(word) for other, word in zip(numbers, words, strict=True)}
    return {other: _LOCAL_DISTANCE if other == number else _REMOTE_DISTANCE for other in numbers}


def _memory(text: str) -> int:
    """The total memory in bytes, of a node or of the machine."""
    for line in text.splitlines():
        words = line.split()
        if "MemTotal:" in words:
            return int(words[words.index("MemTotal:") + 1]) << 10
    return 0


def _numbers(root: Tree, path: str) -> frozenset[int]:
    """The numbers in a file. Returns an empty set if the file does not exist."""
    return cpuset.parse(root.find(path) or "")


def _number(root: Tree, path: str, default: int = -1) -> int:
    text = root.find(path)
    return default if text is None or not text.strip() else int(text)


def _entries(root: Tree, path: str, stem: str) -> frozenset[int]:
    """The numbers of a folder's entries with this stem: 0 and 1 for `cpu0` and `cpu1`."""
    words = (name.removeprefix(stem) for name in root.names(path) if name.startswith(stem))
    return frozenset(int(word) for word in words if word.isdigit())
