"""A machine for placement: packages, dies, nodes, cores and caches as masks of CPUs, and CPU priorities."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from nri.host.topology import Cpu, Topology
from nri.placement import masks

Key = TypeVar("Key", bound=Hashable)


class Priority(IntEnum):
    """The priority of a CPU or of a request; `NONE` is a request without a preference."""

    HIGH = 0
    NORMAL = 1
    LOW = 2
    NONE = 3

    @classmethod
    def named(cls, name: str) -> Priority:
        """The priority with this name, in any case. Returns `NONE` for an unknown name."""
        return cls.__members__.get(name.upper(), cls.NONE)


#: Energy preferences of the kernel, in the order of their cost in performance; others are ignored.
_ENERGY = {"performance": 0, "balance_performance": 1, "balance_power": 2, "power": 3}


class Group(NamedTuple):
    """The CPUs of one cluster or cache, all in one package and die."""

    package: int
    die: int
    number: int
    cpus: int
    efficient: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """Masks of CPUs by package, die and so on, in the order of their numbers.

    Only `present` contains offline CPUs. Without different kinds of cores all CPUs are performance cores.

    Attributes:
        present: all CPUs of the machine, including offline ones.
        dies: CPUs by package and die.
        cores: the threads of a core, by each of its CPUs.
        priorities: the CPUs of each priority.
        clusters: the clusters of cores, in packages that have several.
        cache_groups: the caches, in packages that have several.
        l3_caches: the CPUs of each L3 cache that the kernel numbers, by package and number.
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
        """Make the masks of a topology."""
        online = masks.of(topology.online)
        efficient = masks.of(n for n, cpu in topology.cpus.items() if cpu.kind == "efficient")
        packages = _cpus_by(topology, lambda cpu: cpu.package)
        dies = _cpus_by(topology, lambda cpu: (cpu.package, cpu.die))
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
        """The first CPU of each core in a set."""
        remaining, threads = cpus, 0
        while remaining:
            number = masks.first(remaining)
            threads |= 1 << number
            remaining &= ~(self.cores.get(number, 0) | 1 << number)
        return threads

    def nodes_of(self, cpus: int) -> int:
        """The mask of the memory nodes of these CPUs."""
        return masks.of(number for number, local in self.nodes.items() if local & cpus)


def _cpus_by(topology: Topology, key: Callable[[Cpu], Key]) -> dict[Key, int]:
    groups: dict[Key, int] = {}
    for number, cpu in topology.cpus.items():
        groups[key(cpu)] = groups.get(key(cpu), 0) | 1 << number
    return dict(sorted(groups.items()))


def _priorities(topology: Topology, packages: dict[int, int]) -> tuple[int, int, int]:
    """Masks of CPUs by priority: by base frequency within their package, then by energy preference."""
    priorities = [0, 0, 0]
    for cpus in packages.values():
        package_cpus = [topology.cpus[number] for number in masks.members(cpus)]
        clocks = sorted({cpu.base_khz for cpu in package_cpus if cpu.base_khz})
        energies = {_ENERGY[cpu.energy_preference] for cpu in package_cpus if cpu.energy_preference in _ENERGY}
        for cpu in package_cpus:
            priority = Priority.NORMAL
            if len(clocks) > 1:
                priority = Priority.HIGH if (cpu.base_khz or 0) > clocks[0] else Priority.LOW
            if cpu.kind == "efficient":
                priority = Priority.LOW
            elif len(energies) > 1:
                cost = _ENERGY.get(cpu.energy_preference, len(_ENERGY))
                priority = Priority.HIGH if cost < max(energies) else Priority.LOW
            priorities[priority] |= 1 << cpu.number
    return priorities[0], priorities[1], priorities[2]


def _clusters(topology: Topology, packages: dict[int, int], efficient: int) -> tuple[Group, ...]:
    """The clusters of cores. Clusters of a single core in a die are merged, because they group nothing."""
    clusters: list[Group] = []
    for package, cpus in packages.items():
        groups: dict[tuple[int, int], int] = {}
        for number in masks.members(cpus):
            cpu = topology.cpus[number]
            groups[cpu.die, cpu.cluster] = groups.get((cpu.die, cpu.cluster), 0) | 1 << number
        merged: dict[int, int] = {}
        package_clusters: list[Group] = []
        for (die, cluster), mask in groups.items():
            if mask == masks.of(topology.cpus[masks.first(mask)].threads):
                merged[die] = merged.get(die, 0) | mask
            else:
                package_clusters.append(Group(package, die, cluster, mask, bool(mask & efficient)))
        for die, mask in merged.items():
            cluster = topology.cpus[masks.first(mask)].cluster
            package_clusters.append(Group(package, die, cluster, mask, bool(1 << masks.first(mask) & efficient)))
        if len(package_clusters) > 1:
            clusters += sorted(package_clusters)
    return tuple(clusters)


def _sharing(cpu: Cpu, level: int) -> int:
    """The CPUs that share a cache of this level with `cpu`. Returns the CPU's core if the kernel reports no caches."""
    if not cpu.caches:
        return masks.of(cpu.threads)
    return masks.of(number for cache in cpu.caches if cache.level == level for number in cache.cpus)


def _cache_groups(
    topology: Topology, online: int, packages: dict[int, int], dies: dict[tuple[int, int], int], efficient: int
) -> tuple[Group, ...]:
    """The CPUs of each cache at the highest level where caches are larger than a core and smaller than a die."""

    def useful(cpu: Cpu, cpus: int) -> bool:
        trivial = (masks.of(cpu.threads) & online, dies[cpu.package, cpu.die], packages[cpu.package])
        return cpus.bit_count() > 1 and cpus not in trivial

    levels = (
        level
        for cpu in topology.cpus.values()
        for level in range(len(cpu.caches) - 1, 0, -1)
        if useful(cpu, _sharing(cpu, level))
    )
    level = next(levels, 0)
    if not level:
        return ()
    caches: list[tuple[Cpu, int]] = []
    for cpus in packages.values():
        package_caches: list[tuple[Cpu, int]] = []
        assigned = 0
        for number in masks.members(cpus):
            cpu = topology.cpus[number]
            group = _sharing(cpu, level) & online
            if not assigned >> number & 1 and useful(cpu, group):
                package_caches.append((cpu, group))
                assigned |= group
        caches += package_caches if len(package_caches) > 1 else []
    by_die = all(_share_key(topology, cpus, lambda cpu: (cpu.package, cpu.die)) for _, cpus in caches)
    if not all(_share_key(topology, cpus, lambda cpu: (cpu.package, cpu.node)) for _, cpus in caches):
        return ()
    caches.sort(key=lambda pair: (pair[0].package, pair[0].die if by_die else 0, pair[0].node, masks.first(pair[1])))
    return tuple(
        Group(cpu.package, cpu.die, place, cpus, bool(1 << cpu.number & efficient))
        for place, (cpu, cpus) in enumerate(caches)
    )


def _share_key(topology: Topology, cpus: int, key: Callable[[Cpu], Hashable]) -> bool:
    return len({key(topology.cpus[number]) for number in masks.members(cpus)}) == 1


def _l3_caches(topology: Topology, cpus: int) -> dict[int, int]:
    caches: dict[int, int] = {}
    for number in masks.members(cpus):
        for cache in topology.cpus[number].caches:
            if cache.level == 3:
                caches.setdefault(cache.number or 0, masks.of(cache.cpus))
                break
    return dict(sorted(caches.items()))
