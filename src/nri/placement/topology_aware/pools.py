"""The tree of pools: machine, packages, dies, memory nodes and caches, each with its CPUs and what of them is free.

One job: :class:`Pools`, built of a machine, and the accounts of each :class:`Pool`. A level is left out where it would
say nothing: a single package, a single die, dies that are clusters, a single node, nodes without memory. Exclusive CPUs
leave every pool that has them; shared ones are summed, and no pool or one above it is promised more than it has.
Rules: pure; ids count from the leaves up, and where all else is equal the lower one wins. Next: `scoring`.
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

__all__ = ["LEVELS", "Pool", "Pools"]

#: Levels of pools and of options, from the top.
LEVELS: Final = ("system", "package", "die", "numa", "l3cache", "l2cache", "core", "thread")
#: How much a hint counts less for each level that a pool is above it.
_PENALTY = 0.9


class Pool:
    """One pool.

    Attributes:
        id: its number from the leaves up; `depth` counts from the root down.
        cpus: all its CPUs; `isolated`, `reserved` and `sharable` those that containers may have.
        hinted: the CPUs with which those of a hint are compared.
        free_isolated, free_sharable: what of them nobody has alone.
        shared_m, reserved_m: thousandths that were granted here and below.
        idlers: containers here and below that were promised no CPU and yet need some.
        tenants: containers here by the kind of their CPUs.
        memory: the nodes of each kind of memory, by their bits in `zones`.
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
        """Itself and the pools in it, each before those in it."""
        waiting = [self]
        while waiting:
            pool = waiting.pop()
            yield pool
            waiting += reversed(pool.children)

    def memory_of(self, kinds: int) -> int:
        """Its nodes with memory of these kinds."""
        return sum(nodes for bit, nodes in self.memory.items() if bit & kinds)

    def kinds(self) -> int:
        """The kinds of memory that it has."""
        return sum(bit for bit, nodes in self.memory.items() if nodes)

    # -- what is free -------------------------------------------------------------------------------------------------

    def free_reserved_m(self) -> int:
        """Thousandths of reserved CPUs that are left here and above; -1 if it has no such CPUs."""
        if not self.reserved:
            return -1
        return min(pool.own_reserved_m() for pool in (self, *self.above()))

    def free_shared_m(self) -> int:
        """Thousandths of shared CPUs that are left here and above, one less if somebody here asks for nothing."""
        return min(pool.own_shared_m() for pool in (self, *self.above())) - bool(self.idlers)

    def own_reserved_m(self) -> int:
        """Thousandths of reserved CPUs that are left here, whatever is left above."""
        return 1000 * self.reserved.bit_count() - self.reserved_m

    def own_shared_m(self) -> int:
        """Thousandths of shared CPUs that are left here, whatever is left above."""
        return 1000 * self.free_sharable.bit_count() - self.shared_m

    def is_overpromised(self) -> bool:
        """Whether here, above or below more is promised than there is, or nothing is left to those promised none."""
        pools = (*self.above(), *self.below())
        return self.starves() or any(pool.own_shared_m() < 0 or pool.own_reserved_m() < 0 for pool in pools)

    def starves(self) -> bool:
        """Whether here, above or below somebody who was promised no CPU has none to share."""
        return any(pool.idlers and not pool.free_sharable for pool in (*self.above(), *self.below()))

    def sliceable(self, allocator: CpuAllocator) -> int:
        """The CPUs that may become exclusive: of each pool below as many whole ones as nobody was promised a share of.

        A pool between gives what its own can spare, and of that no more than it can spare itself.
        """
        if not self.children:
            return self._whole_free_of(self.free_sharable, allocator)
        found = 0
        for child in self.children:
            cpus = child.sliceable(allocator)
            found |= child._whole_free_of(cpus, allocator) if child.children else cpus
        return found

    def sliceable_by_each(self, allocator: CpuAllocator) -> int:
        """The same as the original has it: all below are asked for themselves, and lose more than they can spare."""
        found = 0
        for pool in self.below():
            if pool is not self or not self.children:
                found |= pool._whole_free_of(pool.free_sharable, allocator)
        return found

    def _whole_free_of(self, cpus: int, allocator: CpuAllocator) -> int:
        """As many of these CPUs as nobody here was promised a share of."""
        count = max(self.free_shared_m() // 1000, 0)
        return allocator.allocate(cpus, min(count, cpus.bit_count()), Priority.NONE)

    # -- accounts -----------------------------------------------------------------------------------------------------

    def promise(self, shared_m: int, reserved_m: int, idlers: int) -> None:
        """Add to what is granted here, and with it to what is granted above; below 0 to take it back."""
        for pool in (self, *self.above()):
            pool.shared_m += shared_m
            pool.reserved_m += reserved_m
            pool.idlers += idlers

    def take(self, cpus: int) -> None:
        """Give CPUs away: here, above and below."""
        for pool in (*self.above(), *self.below()):
            pool.free_isolated &= ~cpus
            pool.free_sharable &= ~cpus

    def give_back(self, cpus: int) -> None:
        """Take CPUs back: here, above and below."""
        for pool in (*self.above(), *self.below()):
            pool.free_isolated |= cpus & pool.isolated
            pool.free_sharable |= cpus & pool.sharable

    # -- hints --------------------------------------------------------------------------------------------------------

    def hint_score(self, hint: Hint) -> float:
        """How much of what a hint names is here, from 0 to 1; less for a pool that is larger than the hint."""
        try:
            if hint.cpus:
                wanted = masks.parse(hint.cpus)
                return (wanted & self.hinted).bit_count() / wanted.bit_count() if wanted else 0.0
            if hint.nodes:
                return self._nodes_score(masks.parse(hint.nodes))
            return self._package_score(masks.parse(hint.packages)) if hint.packages else 0.0
        except ValueError:
            return 0.0

    def _nodes_score(self, wanted: int) -> float:
        if self.level == "system":
            return _PENALTY * _PENALTY
        hit = float(any(wanted >> number & 1 for number in self.nodes))
        return hit if self.level == "numa" else _PENALTY * hit

    def _package_score(self, wanted: int) -> float:
        if self.level == "system":
            return _PENALTY
        if self.level == "l3cache" and self.parent is not None:
            return _PENALTY * self.parent._package_score(wanted)
        score = float(wanted >> self.package & 1)
        if self.level == "numa":
            package = next(pool for pool in (self, *self.above()) if pool.level in ("package", "system"))
            return score / (len(package.nodes) or 1)
        return score / (len(self.nodes) or 1) if self.level == "die" else score


class Pools:
    """All pools of a machine: by id, with the root last."""

    def __init__(self, machine: Machine, allowed: int, reserved: int, choices: Choices = Choices.DEFAULT) -> None:
        self.machine, self._choices = machine, choices
        self._tops: list[Pool] = []
        packages = machine.packages
        root = None
        if len(packages) > 1:
            root = self._add("root", "system", None, machine.present, 0, list(machine.nodes))
        for package, cpus in packages.items():
            self._add_package(package, cpus, root)
        self.root = root or self._tops[0]
        self.by_id: list[Pool] = []
        self._enumerate()
        self.by_name = {pool.name: pool for pool in self.by_id}
        for pool in self.by_id:
            mine = pool.cpus & allowed
            pool.isolated = pool.free_isolated = mine & machine.isolated
            pool.reserved = mine & reserved
            pool.sharable = pool.free_sharable = mine & ~machine.isolated & ~reserved
            self._set_memory(pool)

    def _add(self, name: str, level: str, parent: Pool | None, cpus: int, package: int, nodes: list[int]) -> Pool:
        pool = Pool(name, level, parent, cpus, package, nodes)
        if parent is None:
            self._tops.append(pool)
        return pool

    def _enumerate(self) -> None:
        """Number the pools, those in a pool before itself."""
        done: set[int] = set()
        waiting = [self.root]
        while waiting:
            pool = waiting[-1]
            if id(pool) in done or not pool.children:
                waiting.pop()
                pool.id = len(self.by_id)
                self.by_id.append(pool)
            else:
                done.add(id(pool))
                waiting += reversed(pool.children)

    def _add_package(self, package: int, cpus: int, root: Pool | None) -> None:
        topology = self.machine.topology
        nodes = sorted({topology.cpus[number].node for number in masks.members(cpus)})
        top = self._add(f"socket #{package}", "package", root, cpus, package, nodes)
        dies = {die: mask for (of, die), mask in self.machine.dies.items() if of == package}
        clusters = {
            die: {topology.cpus[number].cluster for number in masks.members(mask)} for die, mask in dies.items()
        }
        if len(dies) < 2 or all(len(found) < 2 for found in clusters.values()):
            self._add_nodes(top, nodes)
            return
        for die, mask in dies.items():
            here = sorted({topology.cpus[number].node for number in masks.members(mask)})
            pool = self._add(f"die #{package}/{die}", "die", top, mask, package, here)
            if not self._choices.dies_have_their_own_hints:
                pool.hinted = cpus
            self._add_nodes(pool, here)

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
        """Set the nodes of a pool: those of its CPUs, and those without CPUs that are nearest to one of them."""
        nodes = self.machine.topology.nodes
        mine = self.machine.nodes_of(pool.cpus)
        if pool is self.root:
            mine = masks.of(number for number, node in nodes.items() if node.memory_bytes)
        else:
            for number, node in nodes.items():
                if node.memory_bytes and not node.cpus and self._closest(number) & mine:
                    mine |= 1 << number
        pool.memory = dict.fromkeys(KINDS.values(), 0)
        for number in masks.members(mine):
            pool.memory[KINDS[nodes[number].kind]] |= 1 << number

    def _closest(self, number: int) -> int:
        """The nodes with CPUs that are nearest to one without."""
        nodes = self.machine.topology.nodes
        distances = {other: nodes[number].distances[other] for other, node in nodes.items() if node.cpus}
        least = min(distances.values(), default=0)
        return masks.of(other for other, distance in distances.items() if distance == least)

    def existing_level(self, level: str) -> str:
        """The level of that name if there are such pools, else the nearest above that there is."""
        wanted = LEVELS.index(level)
        for pool in self.by_id:
            if LEVELS.index(pool.level) <= wanted:
                return pool.level
        return "package"
