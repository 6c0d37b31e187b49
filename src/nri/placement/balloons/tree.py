"""The tree from which balloons take CPUs: system, packages, dies, memory nodes, L2 caches, cores, threads.

`TreeAllocator.resize` narrows the candidates step by step: devices to be near to or far from, one CPU at a time where
the order matters, and finally the deepest node of the tree with enough CPUs. The CPU allocator decides between equal
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nri.host.topology import Cache
from nri.placement import masks
from nri.placement.machine import Machine

#: Up to this number of nodes the first of several equal nodes wins, otherwise the last: nri-plugins uses Go's sort,
#: which is stable only up to this length.
_MAX_STABLE_SORT = 12


@dataclass(slots=True, eq=False)
class Node:
    """A node of the tree. `path` has the nodes from below the root to this node; names decide between equal nodes."""

    name: str
    level: str
    cpus: int
    children: list[Node] = field(default_factory=list)
    path: tuple[Node, ...] = field(default=(), repr=False)

    def add(self, name: str, level: str, cpus: int) -> Node:
        """Add a child."""
        child = Node(name, level, cpus)
        child.path = (*self.path, child)
        self.children.append(child)
        return child

    def walk(self) -> Iterator[Node]:
        """This node and all nodes below it, depth first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children)


def build(machine: Machine, exact: bool = True) -> Node:
    """Make the tree of a machine.

    Args:
        exact: whether packages and dies have only their CPUs. Otherwise, as in nri-plugins, a package or die has all
            CPUs of each memory node that it shares.
    """
    root = Node("system", "system", machine.online)
    cpus = machine.topology.cpus
    for package, mask in machine.packages.items():
        package_node = root.add(f"p{package}", "package", mask)
        for (die_package, die), die_mask in machine.dies.items():
            if die_package != package:
                continue
            die_node = package_node.add(f"{package_node.name}d{die}", "die", die_mask)
            for number in sorted({cpus[cpu].node for cpu in masks.members(die_mask)}):
                node_mask = machine.nodes.get(number, die_mask)
                node = die_node.add(f"{die_node.name}n{number}", "numa", node_mask & die_mask if exact else node_mask)
                for parent in (package_node, die_node):
                    parent.cpus |= node.cpus
                _add_caches(machine, node)
    return root


def _add_caches(machine: Machine, node: Node) -> None:
    """Add the L2 caches of a memory node with their cores; CPUs without an L2 cache get a common node."""
    cpus_by_cache: dict[Cache, int] = {}
    remaining = node.cpus
    for number in masks.members(node.cpus):
        for cache in machine.topology.cpus[number].caches:
            if cache.level == 2 and cache.kind != "Instruction":
                cpus_by_cache.setdefault(cache, masks.of(cache.cpus) & machine.online)
                remaining &= ~cpus_by_cache[cache]
    caches = [(f"{node.name}${cache.number or 0}", cpus) for cache, cpus in cpus_by_cache.items()]
    for name, shared in [*caches, (f"{node.name}$", remaining)] if remaining else caches:
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
    """Copy a tree so that the first threads of all cores of a memory node come before the second threads."""
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
    stack = [(root, copied, -1)]
    while stack:
        node, copy, mask = stack.pop()
        if node.level == "numa" and mask == -1:
            groups = [(copy.add(f"{node.name}class{n}", "numa", node.cpus & cpus), cpus) for n, cpus in classes.items()]
            stack += [(Node(node.name, "", node.cpus, node.children), group, cpus) for group, cpus in groups]
            continue
        for child in node.children:
            if child.cpus & mask:
                stack.append((child, copy.add(child.name, child.level, child.cpus & mask), mask))
    return copied


@dataclass(slots=True)
class Preferences:
    """Which CPUs a balloon prefers.

    Attributes:
        balancing: take CPUs from the part with the most free CPUs; otherwise from the part with the fewest.
        spread: take one thread of each core first.
        close: names of devices to be near to, the most important first.
        avoided: names of devices to be far from, the most important first.
        devices: the sets of CPUs near a device, by its name.
        loads: functions from the balloon's CPUs to the CPUs of a load, by the load's device.
    """

    balancing: bool = False
    spread: bool = False
    close: list[str] = field(default_factory=list)
    avoided: list[str] = field(default_factory=list)
    devices: dict[str, list[int]] = field(default_factory=dict)
    loads: dict[str, Callable[[int], int]] = field(default_factory=dict)


class TreeAllocator:
    """Choose where a balloon grows and shrinks."""

    def __init__(self, root: Node, preferences: Preferences) -> None:
        self.preferences = preferences
        self._root = by_thread(root) if preferences.spread else root

    def resize(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """Return the CPUs of `free` to take from, and the CPUs of `current` to release if `delta` is negative.

        Raises ValueError if there are too few CPUs.
        """
        source = free if delta > 0 else current
        if source.bit_count() < abs(delta):
            raise ValueError(f"{abs(delta)} CPUs requested, but only {source.bit_count()} available")
        if source.bit_count() == abs(delta):
            return (free, 0) if delta > 0 else (0, current)
        return self._resize_with_loads(current, free, delta)

    def _resize_with_loads(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """Take CPUs one by one if each of these CPUs changes the CPUs of a load."""
        if not self.preferences.loads:
            return self._resize_with_devices(current, free, delta)
        self._update_load_devices(current)
        add, remove = self._resize_with_devices(current, free, delta)
        if delta <= 0 or add.bit_count() < delta:
            return add, remove
        added = 0
        while True:
            added |= 1 << masks.first(add)
            if added.bit_count() >= delta:
                return added | add, remove
            current |= added
            free &= ~current
            self._update_load_devices(current)
            add, remove = self._resize_with_devices(current, free, 1)
            if not add:
                return added, remove

    def _update_load_devices(self, current: int) -> None:
        for name, loaded_cpus in self.preferences.loads.items():
            before = self.preferences.devices.get(name, [0])[0]
            self.preferences.devices[name] = [before | loaded_cpus(current)]

    def _resize_with_devices(self, current: int, free: int, delta: int) -> tuple[int, int]:
        devices = self.preferences.devices
        sets = [devices[name] for name in self.preferences.close if devices.get(name)]
        sets += [[free & ~cpus] for name in self.preferences.avoided for cpus in devices.get(name, ())]
        if not sets or not delta:
            return self._one_at_a_time(current, free, delta)
        if delta > 0:
            for cpus in (cpus for alternatives in sets for cpus in alternatives):
                if (free & cpus).bit_count() >= delta:
                    free &= cpus
            return self._one_at_a_time(current, free, delta)
        return self._release_farthest(sets, current, free, delta)

    def _release_farthest(self, sets: list[list[int]], current: int, free: int, delta: int) -> tuple[int, int]:
        """Release the CPUs near the fewest devices. Of CPUs near equally many devices, release as many as needed."""
        weights = dict.fromkeys(masks.members(current), 0)
        for place, alternatives in enumerate(sets):
            for cpus in alternatives:
                for number in masks.members(cpus & current):
                    weights[number] += 1 << (len(sets) - 1 - place)
        limit = sorted(weights.values())[-delta]
        released = masks.of(number for number, weight in weights.items() if weight < limit)
        equal = masks.of(number for number, weight in weights.items() if weight == limit)
        _, more = self._one_at_a_time(equal, free, delta + released.bit_count())
        for number in masks.members(more):
            if released.bit_count() >= -delta:
                break
            released |= 1 << number
        return free, released

    def _one_at_a_time(self, current: int, free: int, delta: int) -> tuple[int, int]:
        if delta > 0:
            add, remove = self._resize_in_one_node(current, free, delta)
            if not self.preferences.spread or add.bit_count() == delta:
                return add, remove
            return self._one_by_one(current, free, delta), remove
        released = 0
        for _ in range(-delta):
            _, one = self._resize_in_one_node(current, free, -1)
            released |= one
            current &= ~one
            free |= one
        return 0, released

    def _one_by_one(self, current: int, free: int, delta: int) -> int:
        added = 0
        for _ in range(delta):
            one, _ = self._resize_in_one_node(current, free, 1)
            added |= one
            current |= one
            free &= ~one
        return added

    def _resize_in_one_node(self, current: int, free: int, delta: int) -> tuple[int, int]:
        """The deepest node with enough CPUs: to grow, the node with most CPUs of `current`; to shrink, with fewest."""
        source, number = (free, delta) if delta > 0 else (current, -delta)
        places: list[Node] = []
        nodes, visited = [self._root], 0
        while nodes := [node for node in nodes if (node.cpus & source).bit_count() >= number]:
            places = nodes
            visited += len(places)
            nodes = [child for place in places for child in place.children]
        if not places:
            raise ValueError("no part of the machine has enough CPUs")
        places = _select_by_count(places, current, maximize=delta > 0)
        places = _select_by_count(places, free, maximize=delta > 0 and self.preferences.balancing)
        if visited > _MAX_STABLE_SORT:
            places.reverse()
        best = (min if delta > 0 else max)(places, key=lambda place: place.name)
        return best.cpus & free, best.cpus & current


def _select_by_count(places: list[Node], cpus: int, maximize: bool) -> list[Node]:
    """Select places of equal depth by the number of `cpus` in each node of their path, from the root down."""
    for depth in range(len(places[0].path)) if cpus else ():
        if len(places) == 1:
            break
        counts = [(place.path[depth].cpus & cpus).bit_count() for place in places]
        best = max(counts) if maximize else min(counts)
        places = [place for place, count in zip(places, counts, strict=True) if count == best]
    return places
