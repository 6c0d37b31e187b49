"""A machine as placement sees it: packages, dies, nodes, cores and caches as masks of CPUs, and the CPUs' priorities.

One job: make masks and groups of a `nri.host.topology.Topology`, once. Rules: CPUs that are off line are in no mask;
on a processor without kinds of cores each is a performance core. Next: `allocator`, which picks CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from nri.host.topology import Cpu, Topology
from nri.placement import masks

__all__ = ["Group", "Machine", "Priority"]

Key = TypeVar("Key", bound=Hashable)


class Priority(IntEnum):
    """How much a CPU, or a request, is worth; `NONE` is a request that does not care."""

    HIGH = 0
    NORMAL = 1
    LOW = 2
    NONE = 3

    @classmethod
    def named(cls, word: str) -> Priority:
        """The priority of that name in any case; `NONE` for every other word."""
        return cls.__members__.get(word.upper(), cls.NONE)


#: How much a preference of energy over performance costs in performance; a word that is not here is not counted.
_ENERGY = {"performance": 0, "balance_performance": 1, "balance_power": 2, "power": 3}


class Group(NamedTuple):
    """Some CPUs of one package and die that belong together: a cluster, or those of one cache."""

    package: int
    die: int
    number: int
    cpus: int
    efficient: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """Masks of CPUs by package, die and so on, in the order of their numbers.

    Attributes:
        present: all CPUs that the machine knows, those off line included.
        dies: by package and die.
        cores: of each CPU the threads of its core.
        priorities: the CPUs of each priority.
        clusters, cache_groups: of packages that have more than one; empty if there is nothing to choose.
        l3_caches: by package, of those which the kernel numbers.
    """

    topology: Topology
    present: int
    online: int
    isolated: int
    packages: dict[int, int]
    dies: dict[tuple[int, int], int]
    nodes: dict[int, int]
    cores: dict[int, int]
    performance: int
    efficient: int
    priorities: tuple[int, int, int]
    clusters: tuple[Group, ...]
    cache_groups: tuple[Group, ...]
    l3_caches: dict[int, dict[int, int]]

    @classmethod
    def of(cls, topology: Topology) -> Machine:
        """The masks of a machine that was read."""
        online = masks.of(topology.online)
        efficient = masks.of(n for n, cpu in topology.cpus.items() if cpu.kind == "efficient")
        packages = _by(topology, lambda cpu: cpu.package)
        dies = _by(topology, lambda cpu: (cpu.package, cpu.die))
        return cls(
            topology,
            present=masks.of(topology.present) | online,
            online=online,
            isolated=masks.of(topology.isolated) & online,
            packages=packages,
            dies=dies,
            nodes={number: masks.of(node.cpus) & online for number, node in sorted(topology.nodes.items())},
            cores={number: masks.of(cpu.threads) & online for number, cpu in topology.cpus.items()},
            performance=online & ~efficient,
            efficient=efficient,
            priorities=_priorities(topology, packages),
            clusters=_clusters(topology, packages, efficient),
            cache_groups=_cache_groups(topology, online, packages, dies, efficient),
            l3_caches={package: _l3_caches(topology, cpus) for package, cpus in packages.items()},
        )

    @property
    def hybrid(self) -> bool:
        """Whether it has cores of two kinds."""
        return bool(self.efficient and self.performance)

    def one_thread_per_core(self, cpus: int) -> int:
        """Of some CPUs the first of each core."""
        left, found = cpus, 0
        while left:
            number = masks.first(left)
            found |= 1 << number
            left &= ~(self.cores.get(number, 0) | 1 << number)
        return found

    def nodes_of(self, cpus: int) -> int:
        """The mask of the memory nodes to which some CPUs belong."""
        return masks.of(number for number, local in self.nodes.items() if local & cpus)


def _by(topology: Topology, key: Callable[[Cpu], Key]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for number, cpu in topology.cpus.items():
        found[key(cpu)] = found.get(key(cpu), 0) | 1 << number
    return dict(sorted(found.items()))


def _priorities(topology: Topology, packages: dict[int, int]) -> tuple[int, int, int]:
    """CPUs by how fast they are, within their package: by base frequency, then by preference of energy."""
    found = [0, 0, 0]
    for cpus in packages.values():
        here = [topology.cpus[number] for number in masks.members(cpus)]
        clocks = sorted({cpu.base_khz for cpu in here if cpu.base_khz})
        energies = {_ENERGY[cpu.energy_preference] for cpu in here if cpu.energy_preference in _ENERGY}
        for cpu in here:
            priority = Priority.NORMAL
            if len(clocks) > 1:
                priority = Priority.HIGH if (cpu.base_khz or 0) > clocks[0] else Priority.LOW
            if cpu.kind == "efficient":
                priority = Priority.LOW
            elif len(energies) > 1:
                cost = _ENERGY.get(cpu.energy_preference, len(_ENERGY))
                priority = Priority.HIGH if cost < max(energies) else Priority.LOW
            found[priority] |= 1 << cpu.number
    return found[0], found[1], found[2]


def _clusters(topology: Topology, packages: dict[int, int], efficient: int) -> tuple[Group, ...]:
    """The clusters of cores; those of one core each are one together, for such a cluster says nothing."""
    found: list[Group] = []
    for package, cpus in packages.items():
        groups: dict[tuple[int, int], int] = {}
        for number in masks.members(cpus):
            cpu = topology.cpus[number]
            groups[cpu.die, cpu.cluster] = groups.get((cpu.die, cpu.cluster), 0) | 1 << number
        merged: dict[int, int] = {}
        here: list[Group] = []
        for (die, cluster), mask in groups.items():
            if mask == masks.of(topology.cpus[masks.first(mask)].threads):
                merged[die] = merged.get(die, 0) | mask
            else:
                here.append(Group(package, die, cluster, mask, bool(mask & efficient)))
        for die, mask in merged.items():
            cluster = topology.cpus[masks.first(mask)].cluster
            here.append(Group(package, die, cluster, mask, bool(1 << masks.first(mask) & efficient)))
        if len(here) > 1:
            found += sorted(here)
    return tuple(found)


def _sharing(cpu: Cpu, level: int) -> int:
    """The CPUs that share a cache of some level with one; its core where no cache is known."""
    if not cpu.caches:
        return masks.of(cpu.threads)
    return masks.of(number for cache in cpu.caches if cache.level == level for number in cache.cpus)


def _cache_groups(
    topology: Topology, online: int, packages: dict[int, int], dies: dict[tuple[int, int], int], efficient: int
) -> tuple[Group, ...]:
    """The CPUs of each cache of the highest level that is neither one core's nor a whole die's or package's."""

    def useful(cpu: Cpu, cpus: int) -> bool:
        whole = (masks.of(cpu.threads) & online, dies[cpu.package, cpu.die], packages[cpu.package])
        return cpus.bit_count() > 1 and cpus not in whole

    levels = (
        level
        for cpu in topology.cpus.values()
        for level in range(len(cpu.caches) - 1, 0, -1)
        if useful(cpu, _sharing(cpu, level))
    )
    level = next(levels, 0)
    if not level:
        return ()
    found: list[tuple[Cpu, int]] = []
    for cpus in packages.values():
        here: list[tuple[Cpu, int]] = []
        assigned = 0
        for number in masks.members(cpus):
            cpu = topology.cpus[number]
            group = _sharing(cpu, level) & online
            if not assigned >> number & 1 and useful(cpu, group):
                here.append((cpu, group))
                assigned |= group
        found += here if len(here) > 1 else []
    by_die = all(_same(topology, cpus, lambda cpu: (cpu.package, cpu.die)) for _, cpus in found)
    if not all(_same(topology, cpus, lambda cpu: (cpu.package, cpu.node)) for _, cpus in found):
        return ()
    found.sort(key=lambda each: (each[0].package, each[0].die if by_die else 0, each[0].node, masks.first(each[1])))
    return tuple(
        Group(cpu.package, cpu.die, place, cpus, bool(1 << cpu.number & efficient))
        for place, (cpu, cpus) in enumerate(found)
    )


def _same(topology: Topology, cpus: int, key: Callable[[Cpu], Hashable]) -> bool:
    return len({key(topology.cpus[number]) for number in masks.members(cpus)}) == 1


def _l3_caches(topology: Topology, cpus: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for number in masks.members(cpus):
        for cache in topology.cpus[number].caches:
            if cache.level == 3:
                found.setdefault(cache.number or 0, masks.of(cache.cpus))
                break
    return dict(sorted(found.items()))
