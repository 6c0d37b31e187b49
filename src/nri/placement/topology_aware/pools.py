"""The tree of pools: machine, packages, dies, memory nodes and caches, each with its CPUs and its free CPUs.

A level is omitted if it does not divide the level above: a single package, a single die, dies that are clusters, a
single node, nodes without memory. Exclusive CPUs are removed from every pool that contains them; promised shares count
in the pool and in all pools above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.choices import Choices
from nri.placement.containers import Hint
from nri.placement.machine import Machine, Priority
from nri.placement.zones import KINDS

#: Levels of pools and of options, from the top.
LEVELS: Final = ("system", "package", "die", "numa", "l3cache", "l2cache", "core", "thread")
#: Factor of a hint's score for each level that a pool is above the hint.
_PENALTY = 0.9


class Pool:
    """A pool.

    Attributes:
        id: its number, counted from the leaves up; of two otherwise equal pools the lower number wins.
        depth: its distance from the root.
        cpus: all its CPUs; `isolated`, `reserved` and `sharable` are the CPUs that containers may use.
        hinted: the CPUs with which the CPUs of a hint are compared.
        free_isolated: isolated CPUs that are not exclusive to a container.
        free_sharable: sharable CPUs that are not exclusive to a container.
        shared_m: thousandths of shared CPUs granted in this pool and below.
        reserved_m: thousandths of reserved CPUs granted in this pool and below.
        idlers: the number of containers in this pool and below without promised CPU that use shared CPUs.
        tenants: the number of containers in this pool by the kind of their CPUs.
        memory: the nodes of each kind of memory, by the kind's bit in `zones`.
    """

    def __init__(self, name: str, level: str, parent: Pool | None, cpus: int, package: int, nodes: list[int]) -> None:
        self.name, self.level, self.parent = name, level, parent
        self.cpus, self.package, self.nodes = cpus, package, nodes
        self.hinted = cpus
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.id = -1
        self.children: list[Pool] = []
        self.isolated = self.reserved = self.sharable = 0
        self.free_isolated = self.free_sharable = 0
        self.shared_m = self.reserved_m = self.idlers = 0
        self.tenants: dict[object, int] = {}
        self.memory: dict[int, int] = {}
        if parent is not None:
            parent.children.append(self)

    def above(self) -> Iterator[Pool]:
        """The pools that contain it, the nearest first."""
        pool = self.parent
        while pool is not None:
            yield pool
            pool = pool.parent

    def below(self) -> Iterator[Pool]:
        """This pool and all pools in it, parents first."""
        stack = [self]
        while stack:
            pool = stack.pop()
            yield pool
            stack += reversed(pool.children)

    def memory_of(self, kinds: int) -> int:
        """The mask of its nodes with memory of these kinds."""
        return sum(nodes for bit, nodes in self.memory.items() if bit & kinds)

    def kinds(self) -> int:
        """The mask of its memory kinds."""
        return sum(bit for bit, nodes in self.memory.items() if nodes)

    # -- free CPUs ----------------------------------------------------------------------------------------------------

    def free_reserved_m(self) -> int:
        """Thousandths of reserved CPUs that are free in this pool and all above. Returns -1 without reserved CPUs."""
        if not self.reserved:
            return -1
        return min(pool.own_reserved_m() for pool in (self, *self.above()))

    def free_shared_m(self) -> int:
        """Thousandths of shared CPUs that are free in this pool and all above, minus 1 if the pool has idlers."""
        return min(pool.own_shared_m() for pool in (self, *self.above())) - bool(self.idlers)

    def own_reserved_m(self) -> int:
        """Thousandths of reserved CPUs that are free in this pool, regardless of the pools above."""
        return 1000 * self.reserved.bit_count() - self.reserved_m

    def own_shared_m(self) -> int:
        """Thousandths of shared CPUs that are free in this pool, regardless of the pools above."""
        return 1000 * self.free_sharable.bit_count() - self.shared_m

    def is_overpromised(self) -> bool:
        """Whether this pool, or a pool above or below, has promised more CPU than it has, or starves idlers."""
        pools = (*self.above(), *self.below())
        return self.starves() or any(pool.own_shared_m() < 0 or pool.own_reserved_m() < 0 for pool in pools)

    def starves(self) -> bool:
        """Whether this pool, or a pool above or below, has idlers but no shared CPU."""
        return any(pool.idlers and not pool.free_sharable for pool in (*self.above(), *self.below()))

    def sliceable(self, allocator: CpuAllocator) -> int:
        """The CPUs that may become exclusive: from each pool at most the CPUs that are not promised as shares."""
        if not self.children:
            return self._whole_free_of(self.free_sharable, allocator)
        sliceable_cpus = 0
        for child in self.children:
            cpus = child.sliceable(allocator)
            sliceable_cpus |= child._whole_free_of(cpus, allocator) if child.children else cpus
        return sliceable_cpus

    def sliceable_by_each(self, allocator: CpuAllocator) -> int:
        """The CPUs that may become exclusive in nri-plugins, which ignores promises of the pools in between."""
        sliceable_cpus = 0
        for pool in self.below():
            if pool is not self or not self.children:
                sliceable_cpus |= pool._whole_free_of(pool.free_sharable, allocator)
        return sliceable_cpus

    def _whole_free_of(self, cpus: int, allocator: CpuAllocator) -> int:
        """Entire CPUs of the set `cpus` that the pool has not promised as shares."""
        count = max(self.free_shared_m() // 1000, 0)
        return allocator.allocate(cpus, min(count, cpus.bit_count()), Priority.NONE)

    # -- accounts -----------------------------------------------------------------------------------------------------

    def promise(self, shared_m: int, reserved_m: int, idlers: int) -> None:
        """Add to the promises of this pool and all pools above. Negative numbers subtract."""
        for pool in (self, *self.above()):
            pool.shared_m += shared_m
            pool.reserved_m += reserved_m
            pool.idlers += idlers

    def take(self, cpus: int) -> None:
        """Remove CPUs from the free CPUs of this pool, and of all above and below."""
        for pool in (*self.above(), *self.below()):
            pool.free_isolated &= ~cpus
            pool.free_sharable &= ~cpus

    def give_back(self, cpus: int) -> None:
        """Return CPUs to this pool, and to all above and below."""
        for pool in (*self.above(), *self.below()):
            pool.free_isolated |= cpus & pool.isolated
            pool.free_sharable |= cpus & pool.sharable

    # -- hints --------------------------------------------------------------------------------------------------------

    def hint_score(self, hint: Hint) -> float:
        """The share of a hint's resources that the pool has, from 0 to 1, less if the pool is larger than the hint."""
        try:
            if hint.cpus:
                hinted_cpus = masks.parse(hint.cpus)
                return (hinted_cpus & self.hinted).bit_count() / hinted_cpus.bit_count() if hinted_cpus else 0.0
            if hint.nodes:
                return self._nodes_score(masks.parse(hint.nodes))
            return self._package_score(masks.parse(hint.packages)) if hint.packages else 0.0
        except ValueError:
            return 0.0

    def _nodes_score(self, hinted_nodes: int) -> float:
        if self.level == "system":
            return _PENALTY * _PENALTY
        hit = float(any(hinted_nodes >> number & 1 for number in self.nodes))
        return hit if self.level == "numa" else _PENALTY * hit

    def _package_score(self, hinted_packages: int) -> float:
        if self.level == "system":
            return _PENALTY
        if self.level == "l3cache" and self.parent is not None:
            return _PENALTY * self.parent._package_score(hinted_packages)
        score = float(hinted_packages >> self.package & 1)
        if self.level == "numa":
            package = next(pool for pool in (self, *self.above()) if pool.level in ("package", "system"))
            return score / (len(package.nodes) or 1)
        return score / (len(self.nodes) or 1) if self.level == "die" else score


class Pools:
    """All pools of a machine; `by_id` has the root last."""

    def __init__(self, machine: Machine, allowed: int, reserved: int, choices: Choices = Choices.DEFAULT) -> None:
        self.machine, self._choices = machine, choices
        self._top_pools: list[Pool] = []
        packages = machine.packages
        root = None
        if len(packages) > 1:
            root = self._add("root", "system", None, machine.present, 0, list(machine.nodes))
        for package, cpus in packages.items():
            self._add_package(package, cpus, root)
        self.root = root or self._top_pools[0]
        self.by_id: list[Pool] = []
        self._enumerate()
        self.by_name = {pool.name: pool for pool in self.by_id}
        for pool in self.by_id:
            pool_cpus = pool.cpus & allowed
            pool.isolated = pool.free_isolated = pool_cpus & machine.isolated
            pool.reserved = pool_cpus & reserved
            pool.sharable = pool.free_sharable = pool_cpus & ~machine.isolated & ~reserved
            self._set_memory(pool)

    def _add(self, name: str, level: str, parent: Pool | None, cpus: int, package: int, nodes: list[int]) -> Pool:
        pool = Pool(name, level, parent, cpus, package, nodes)
        if parent is None:
            self._top_pools.append(pool)
        return pool

    def _enumerate(self) -> None:
        """Number the pools, children before parents."""
        visited: set[int] = set()
        stack = [self.root]
        while stack:
            pool = stack[-1]
            if id(pool) in visited or not pool.children:
                stack.pop()
                pool.id = len(self.by_id)
                self.by_id.append(pool)
            else:
                visited.add(id(pool))
                stack += reversed(pool.children)

    def _add_package(self, package: int, cpus: int, root: Pool | None) -> None:
        topology = self.machine.topology
        nodes = sorted({topology.cpus[number].node for number in masks.members(cpus)})
        top = self._add(f"socket #{package}", "package", root, cpus, package, nodes)
        dies = {die: mask for (die_package, die), mask in self.machine.dies.items() if die_package == package}
        clusters = {
            die: {topology.cpus[number].cluster for number in masks.members(mask)} for die, mask in dies.items()
        }
        if len(dies) < 2 or all(len(die_clusters) < 2 for die_clusters in clusters.values()):
            self._add_nodes(top, nodes)
            return
        for die, mask in dies.items():
            die_nodes = sorted({topology.cpus[number].node for number in masks.members(mask)})
            pool = self._add(f"die #{package}/{die}", "die", top, mask, package, die_nodes)
            if not self._choices.dies_have_their_own_hints:
                pool.hinted = cpus
            self._add_nodes(pool, die_nodes)

    def _add_nodes(self, parent: Pool, nodes: list[int]) -> None:
        if len(nodes) < 2:
            self._add_caches(parent)
            return
        for number in nodes:
            if self.machine.topology.nodes[number].memory_bytes:
                cpus = self.machine.nodes[number]
                self._add_caches(self._add(f"NUMA node #{number}", "numa", parent, cpus, parent.package, [number]))

    def _add_caches(self, parent: Pool) -> None:
        caches = self.machine.l3_caches[parent.package]
        inside = {number: cpus for number, cpus in caches.items() if cpus & parent.cpus == cpus}
        for number, cpus in inside.items() if len(inside) > 1 else ():
            self._add(f"{parent.name}/L3 cache #{number}", "l3cache", parent, cpus, parent.package, parent.nodes)

    def _set_memory(self, pool: Pool) -> None:
        """Set the memory nodes of a pool: the nodes of its CPUs, and the nearest nodes without CPUs."""
        nodes = self.machine.topology.nodes
        pool_nodes = self.machine.nodes_of(pool.cpus)
        if pool is self.root:
            pool_nodes = masks.of(number for number, node in nodes.items() if node.memory_bytes)
        else:
            for number, node in nodes.items():
                if node.memory_bytes and not node.cpus and self._nearest_nodes(number) & pool_nodes:
                    pool_nodes |= 1 << number
        pool.memory = dict.fromkeys(KINDS.values(), 0)
        for number in masks.members(pool_nodes):
            pool.memory[KINDS[nodes[number].kind]] |= 1 << number

    def _nearest_nodes(self, number: int) -> int:
        """The nodes with CPUs that are nearest to a node without CPUs."""
        nodes = self.machine.topology.nodes
        distances = {other: nodes[number].distances[other] for other, node in nodes.items() if node.cpus}
        least = min(distances.values(), default=0)
        return masks.of(other for other, distance in distances.items() if distance == least)

    def existing_level(self, level: str) -> str:
        """This level if it has pools, else the nearest level above with pools. Raises ValueError if it is unknown."""
        rank = LEVELS.index(level)
        for pool in self.by_id:
            if LEVELS.index(pool.level) <= rank:
                return pool.level
        return "package"
