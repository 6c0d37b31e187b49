"""The tree of CPUs from which balloons take theirs: system, packages, dies, nodes, second caches, cores, threads.

One job: :meth:`TreeAllocator.resize`, which names the CPUs from which some may be taken, or given back. Each step
narrows the candidates and hands on: devices to be near to or far from, one CPU at a time where that matters, and last
the deepest place in the tree that has enough. Rules: pure; what is equally good is left to the CPU allocator.
Next: `policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nri.host.topology import Cache
from nri.placement import masks
from nri.placement.machine import Machine

__all__ = ["Node", "Preferences", "TreeAllocator", "build"]


#: Places of which, of two with one name, the first is taken; of more the last, as the original's sorting does.
_MOST_IN_ORDER = 12


@dataclass(slots=True, eq=False)
class Node:
    """A place in the tree, and the way to it from below the root. Of equally good ones the name decides, as a text."""

    name: str
    level: str
    cpus: int
    children: list[Node] = field(default_factory=list)
    way: tuple[Node, ...] = field(default=(), repr=False)

    def add(self, name: str, level: str, cpus: int) -> Node:
        """A new place below."""
        child = Node(name, level, cpus)
        child.way = (*self.way, child)
        self.children.append(child)
        return child

    def walk(self) -> Iterator[Node]:
        """Itself and all places below."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


def build(machine: Machine, own: bool = True) -> Node:
    """The tree of a machine. Without `own` all that holds a part of a memory node holds the whole of it."""
    root = Node("system", "system", machine.online)
    cpus = machine.topology.cpus
    for package, mask in machine.packages.items():
        package_node = root.add(f"p{package}", "package", mask)
        for (of, die), die_mask in machine.dies.items():
            if of != package:
                continue
            die_node = package_node.add(f"{package_node.name}d{die}", "die", die_mask)
            for number in sorted({cpus[cpu].node for cpu in masks.members(die_mask)}):
                whole = machine.nodes.get(number, die_mask)
                node = die_node.add(f"{die_node.name}n{number}", "numa", whole & die_mask if own else whole)
                for above in (package_node, die_node):
                    above.cpus |= node.cpus
                _add_caches(machine, node)
    return root


def _add_caches(machine: Machine, node: Node) -> None:
    """Add the second caches of a memory node with their cores; one for all CPUs that have none."""
    found: dict[Cache, int] = {}
    left = node.cpus
    for number in masks.members(node.cpus):
        for cache in machine.topology.cpus[number].caches:
            if cache.level == 2 and cache.kind != "Instruction":
                found.setdefault(cache, masks.of(cache.cpus) & machine.online)
                left &= ~found[cache]
    caches = [(f"{node.name}${cache.number or 0}", cpus) for cache, cpus in found.items()]
    for name, shared in [*caches, (f"{node.name}$", left)] if left else caches:
        cache_node = node.add(name, "l2cache", shared)
        cpus = shared
        while cpus:
            first = masks.first(cpus)
            core = machine.cores[first]
            core_node = cache_node.add(f"{node.name}cpu{first}", "core", core)
            for thread in masks.members(core):
                core_node.add(f"{core_node.name}t{thread}", "thread", 1 << thread)
            cpus &= ~core


def by_thread(root: Node) -> Node:
    """The tree in which the first threads of all cores of a memory node come before the second ones."""
    place = {
        masks.first(thread.cpus): index
        for core in root.walk()
        if core.level == "core"
        for index, thread in enumerate(core.children)
    }
    classes: dict[int, int] = {}
    for cpu, index in place.items():
        classes[index] = classes.get(index, 0) | 1 << cpu
    copied = Node(root.name, root.level, root.cpus)
    waiting = [(root, copied, -1)]
    while waiting:
        node, copy, mask = waiting.pop()
        if node.level == "numa" and mask == -1:
            groups = [(copy.add(f"{node.name}class{n}", "numa", node.cpus & cpus), cpus) for n, cpus in classes.items()]
            waiting += [(Node(node.name, "", node.cpus, node.children), group, cpus) for group, cpus in groups]
            continue
        for child in node.children:
            if child.cpus & mask:
                waiting.append((child, copy.add(child.name, child.level, child.cpus & mask), mask))
    return copied


@dataclass(slots=True)
class Preferences:
    """How a balloon takes CPUs.

    Attributes:
        balancing: where most is free, and not where least is.
        spread: one thread of each core first.
        close, far: names of devices, the most important first.
        devices: the CPUs near to a device by its name, several sets if it has several.
        loads: devices of which the CPUs depend on those that were just taken, with what they grow to.
    """

    balancing: bool = False
    spread: bool = False
    close: list[str] = field(default_factory=list)
    far: list[str] = field(default_factory=list)
    devices: dict[str, list[int]] = field(default_factory=dict)
    loads: dict[str, Callable[[int], int]] = field(default_factory=dict)


class TreeAllocator:
    """Chooses where one balloon grows and shrinks."""

    def __init__(self, root: Node, preferences: Preferences) -> None:
        self.preferences = preferences
        self._root = by_thread(root) if preferences.spread else root

    def resize(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """The CPUs of `free` to take `delta` from, and those of `current` to give back as many if it is below 0.

        Raises ValueError if there are not so many.
        """
        source = free if delta > 0 else current
        if source.bit_count() < abs(delta):
            raise ValueError(f"{abs(delta)} CPUs are wanted, and there are {source.bit_count()}")
        if source.bit_count() == abs(delta):
            return (free, 0) if delta > 0 else (0, current)
        return self._with_loads(current, free, delta)

    def _with_loads(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """Take one CPU after the other where each changes what is near or far."""
        if not self.preferences.loads:
            return self._with_devices(current, free, delta)
        self._load(current)
        add, remove = self._with_devices(current, free, delta)
        if delta <= 0 or add.bit_count() < delta:
            return add, remove
        taken = 0
        while True:
            taken |= 1 << masks.first(add)
            if taken.bit_count() >= delta:
                return taken | add, remove
            current |= taken
            free &= ~current
            self._load(current)
            add, remove = self._with_devices(current, free, 1)
            if not add:
                return taken, remove

    def _load(self, current: int) -> None:
        for name, grown in self.preferences.loads.items():
            before = self.preferences.devices.get(name, [0])[0]
            self.preferences.devices[name] = [before | grown(current)]

    def _with_devices(self, current: int, free: int, delta: int) -> tuple[int, int]:
        devices = self.preferences.devices
        sets = [devices[name] for name in self.preferences.close if devices.get(name)]
        sets += [[free & ~cpus] for name in self.preferences.far for cpus in devices.get(name, ())]
        if not sets or not delta:
            return self._one_at_a_time(current, free, delta)
        if delta > 0:
            for cpus in (cpus for alternatives in sets for cpus in alternatives):
                if (free & cpus).bit_count() >= delta:
                    free &= cpus
            return self._one_at_a_time(current, free, delta)
        return self._give_back_least_wanted(sets, current, free, delta)

    def _give_back_least_wanted(self, sets: list[list[int]], current: int, free: int, delta: int) -> tuple[int, int]:
        """Give back the CPUs that are near the fewest devices; of those that are equal, some."""
        weights = dict.fromkeys(masks.members(current), 0)
        for place, alternatives in enumerate(sets):
            for cpus in alternatives:
                for number in masks.members(cpus & current):
                    weights[number] += 1 << (len(sets) - 1 - place)
        limit = sorted(weights.values())[-delta]
        sure = masks.of(number for number, weight in weights.items() if weight < limit)
        perhaps = masks.of(number for number, weight in weights.items() if weight == limit)
        _, more = self._one_at_a_time(perhaps, free, delta + sure.bit_count())
        for number in masks.members(more):
            if sure.bit_count() >= -delta:
                break
            sure |= 1 << number
        return free, sure

    def _one_at_a_time(self, current: int, free: int, delta: int) -> tuple[int, int]:
        if delta > 0:
            add, remove = self._local(current, free, delta)
            if not self.preferences.spread or add.bit_count() == delta:
                return add, remove
            return self._singly(current, free, delta), remove
        gone = 0
        for _ in range(-delta):
            _, one = self._local(current, free, -1)
            gone |= one
            current &= ~one
            free |= one
        return 0, gone

    def _singly(self, current: int, free: int, delta: int) -> int:
        found = 0
        for _ in range(delta):
            one, _ = self._local(current, free, 1)
            found |= one
            current |= one
            free &= ~one
        return found

    def _local(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """The deepest place with enough CPUs: to take them, where most are taken already; else where fewest are."""
        source, wanted = (free, delta) if delta > 0 else (current, -delta)
        places: list[Node] = []
        below, looked_at = [self._root], 0
        while below := [each for each in below if (each.cpus & source).bit_count() >= wanted]:
            places = below
            looked_at += len(places)
            below = [child for each in places for child in each.children]
        if not places:
            raise ValueError("no place in the machine has enough CPUs")
        places = _narrowed(places, current, most=delta > 0)
        places = _narrowed(places, free, most=delta > 0 and self.preferences.balancing)
        if looked_at > _MOST_IN_ORDER:
            places.reverse()
        best = (min if delta > 0 else max)(places, key=lambda each: each.name)
        return best.cpus & free, best.cpus & current


def _narrowed(places: list[Node], cpus: int, most: bool) -> list[Node]:
    """Of places in one depth those on the way to which, from the root down, there are the most or the fewest CPUs."""
    for depth in range(len(places[0].way)) if cpus else ():
        if len(places) == 1:
            break
        counts = [(each.way[depth].cpus & cpus).bit_count() for each in places]
        chosen = max(counts) if most else min(counts)
        places = [each for each, count in zip(places, counts, strict=True) if count == chosen]
    return places
