"""The set of all balloons, which are created, grow, shrink and are deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from nri.config.complaint import WrongValue
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import BalloonType, Options
from nri.placement.balloons.pins import BalloonPins
from nri.placement.balloons.types import BalloonTypes, group_of, load_device
from nri.placement.choices import Choices
from nri.placement.containers import Container
from nri.placement.machine import Machine


class BalloonSet:
    """The balloons of a machine.

    Attributes:
        balloons: all balloons, the oldest first.
        free: the mask of CPUs that are in no balloon.
        members: the name of each container's balloon, by the container's id.
    """

    def __init__(
        self, machine: Machine, options: Options, choices: Choices, types: BalloonTypes, pins: BalloonPins
    ) -> None:
        self._machine, self._options, self._choices = machine, options, choices
        self.types, self.pins = types, pins
        self._allocator = CpuAllocator(machine, choices.caches_beside_idle_ones)
        self.free = types.allowed
        self.balloons: list[Balloon] = []
        self.members: dict[str, str] = {}

    # -- queries ------------------------------------------------------------------------------------------------------

    def of_type(self, kind: BalloonType) -> list[Balloon]:
        """The balloons of a type."""
        return [balloon for balloon in self.balloons if balloon.type is kind]

    def of_container(self, container: Container) -> Balloon | None:
        """The balloon of a container, or None."""
        id_, pod = container.id, container.pod.id
        return next((balloon for balloon in self.balloons if id_ in balloon.pods.get(pod, ())), None)

    def free_for(self, kind: BalloonType) -> int:
        """The mask of free CPUs that a balloon of a type, or its components, may take."""
        return self.free & self.types.allowed_for(kind)

    def max_m(self, balloon: Balloon) -> int:
        """The size of a balloon if it grows as far as it can now, in thousandths of CPUs."""
        return balloon.max_size_m(self.free_for(balloon.type).bit_count(), self._choices.balloons_keep_their_limit)

    def free_m(self, balloon: Balloon) -> int:
        """The largest CPU request that fits in a balloon as it is, in thousandths of CPUs."""
        size_m = balloon.size_m
        if balloon.components and self._choices.balloons_keep_their_limit:
            size_m = min(size_m, self.max_m(balloon))  # one component may be larger than the others
        return size_m - balloon.requested_m

    def max_free_m(self, balloon: Balloon) -> int:
        """The largest CPU request that fits in a balloon if it grows as far as it can now."""
        return self.max_m(balloon) - balloon.requested_m

    # -- containers ---------------------------------------------------------------------------------------------------

    def join(self, container: Container, balloon: Balloon) -> None:
        """Put a container into a balloon that is large enough."""
        self.pins.containers[container.id] = container
        balloon.add(container.pod.id, container.id)
        balloon.requested_m += container.requests.cpu_m
        self.members[container.id] = balloon.name
        _count_group(balloon, container, 1)

    def dismiss(self, container: Container, balloon: Balloon, requests: Requests | None = None) -> None:
        """Take a container out of its balloon. `requests` replace the container's requests if they are not None."""
        self.pins.zones.release(container.id)
        balloon.remove(container.pod.id, container.id)
        balloon.requested_m -= container.requests.cpu_m
        container.requests = requests or container.requests
        del self.members[container.id]
        _count_group(balloon, container, -1)
        with suppress(ValueError):  # on failure the balloon keeps its size
            self.resize(balloon, max(1, balloon.requested_m) if balloon.pods else 0)
        if not balloon.pods and len(self.of_type(balloon.type)) > balloon.type.minBalloons:
            self.balloons.remove(balloon)
            self.give_back(balloon.cpus)

    # -- new balloons -------------------------------------------------------------------------------------------------

    def add_minimum(self, kind: BalloonType) -> None:
        """Add the balloons that a type always has. Raises WrongValue if there are too few CPUs."""
        for _ in range(kind.minBalloons - len(self.of_type(kind))):
            try:
                self.balloons.append(self.new(kind))
            except ValueError as error:
                reason = f"cannot create {kind.minBalloons} balloons {kind.name} with minCPUs {kind.minCPUs}: {error}"
                names = [configured.name for configured in self._options.balloonTypes]
                path = (
                    ("balloonTypes", names.index(kind.name), "minBalloons")
                    if kind.name in names
                    else ("reservedResources", "cpu")
                )
                raise WrongValue(path, reason, "reduce the number") from None

    def new(self, kind: BalloonType) -> Balloon:
        """Create a balloon of a type with its minimum CPUs; the caller adds it to `balloons`.

        Raises ValueError if the type has its maximum number of balloons, or if there are too few CPUs.
        """
        existing = self.of_type(kind)
        if 0 < kind.maxBalloons <= len(existing):
            raise ValueError(f"{len(existing)} balloons {kind.name} exist already")
        instances = {balloon.instance for balloon in existing}
        instance = next(number for number in range(len(existing) + 1) if number not in instances)
        balloon = self.types.empty_balloon(kind, instance)
        if kind.components:
            balloon.components = self._new_components(kind)
        try:
            self.resize(balloon, 1000 * kind.minCPUs)
        except ValueError:
            self.give_back(masks.union(component.cpus for component in balloon.components))
            raise
        return balloon

    def _new_components(self, kind: BalloonType) -> list[Balloon]:
        """Create a balloon for each component; with `balance-balloons` only for the type with the fewest balloons."""
        names = [component.balloonType for component in kind.components]
        if kind.componentCreation == "balance-balloons":
            names = [min(names, key=self._count_with_components)]
        components: list[Balloon] = []
        for name in names:
            try:
                components.append(self.new(self.types.by_name[name]))
            except ValueError:
                self.give_back(masks.union(component.cpus for component in components))
                raise
        return components

    def _count_with_components(self, name: str) -> int:
        """The number of balloons of a type, and of the types that it is composed of."""
        names, stack = set(), [name]
        while stack:
            kind = self.types.by_name[stack.pop()]
            names.add(kind.name)
            stack += [part.balloonType for part in kind.components if part.balloonType not in names]
        return sum(part.type.name in names for balloon in self.balloons for part in balloon.parts())

    # -- CPUs ---------------------------------------------------------------------------------------------------------

    def resize(self, balloon: Balloon, size_m: int) -> None:
        """Give a balloon this many thousandths of CPUs, within its bounds. Raises ValueError if there are too few."""
        kind, tree = balloon.type, balloon.tree
        if balloon.components:
            parts = len(balloon.components)
            if self._choices.composites_keep_their_least:  # round up, so that the components have the full size
                size_m = max(size_m, 1000 * kind.minCPUs) + parts - 1
            self._resize_components(balloon, size_m // parts)
            return
        assert tree is not None
        count = -(-size_m // 1000)
        count = max(min(count, kind.maxCPUs or count), kind.minCPUs)
        delta = count - balloon.cpus.bit_count()
        if delta == 0:
            return
        for load in self.types.loads_of(kind):
            device = load_device(load)
            loaded = masks.union(other.cpus for other in self.balloons if device in other.loaded)
            tree.preferences.devices[device] = [self.types.spread_of(load)(loaded)]
        add, remove = tree.resize(balloon.cpus, self.free_for(kind), delta)
        if delta > 0:
            cpus = self._allocator.allocate(add, delta, kind.priority)
            self.free &= ~cpus
            balloon.cpus |= cpus
            self.pins.repin(self.share_idle(self.free, cpus))
        else:
            surplus = remove.bit_count() + delta
            if surplus:  # keep those that suit the balloon best
                remove &= ~self._allocator.allocate(remove, surplus, kind.priority)
            self.free |= remove
            balloon.cpus &= ~remove
            self.pins.repin(self.share_idle(remove, 0))
        self.pins.repin([balloon])

    def _resize_components(self, balloon: Balloon, size_m: int) -> None:
        free, before = self.free, [(part, part.cpus) for part in balloon.parts()]
        try:
            for component in balloon.components:
                self.resize(component, size_m)
        except ValueError:
            self.free = free
            for part, cpus in before:
                part.cpus = cpus
            raise
        balloon.cpus = masks.union(component.cpus for component in balloon.components)
        if self._choices.freed_cpus_are_shared:  # the balloon's location is only known now
            self.pins.repin(self.share_idle(self.free, 0))
        self.pins.repin([balloon])

    def give_back(self, cpus: int) -> None:
        """Free the CPUs of a deleted or discarded balloon, and share them as idle CPUs."""
        self.free |= cpus
        if self._choices.freed_cpus_are_shared:
            self.pins.repin(self.share_idle(cpus, 0))

    def share_idle(self, idle: int, removed: int) -> list[Balloon]:
        """Let balloons use idle CPUs near their own CPUs, but not removed CPUs. Returns the changed balloons."""
        changed, places = [], dict[str, list[int]]()
        idle &= ~self._machine.isolated
        for balloon in self.balloons:
            before = balloon.idle
            balloon.idle &= ~removed
            level = balloon.type.shareIdleCPUsInSame
            if level and idle and balloon.cpus:
                if level not in places:
                    places[level] = [node.cpus for node in self.types.tree.walk() if node.level == level]
                lent = idle & self.free_for(balloon.type)
                balloon.idle |= masks.union(place & lent for place in places[level] if place & balloon.cpus)
            if balloon.idle != before:
                changed.append(balloon)
        return changed

    # -- undo ---------------------------------------------------------------------------------------------------------

    def saved(self) -> tuple[Any, ...]:
        """Copies of all state that a decision changes, for `restore`."""
        parts = [(part, part.saved()) for balloon in self.balloons for part in balloon.parts()]
        pins = dict(self.pins.containers), self.pins.zones.saved(), self.pins.changes.saved()
        return list(self.balloons), self.free, dict(self.members), parts, *pins

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Return to an earlier state."""
        self.balloons, self.free, self.members, parts, containers, zones, changes = saved
        self.pins.containers.clear()  # the policy has the same dict
        self.pins.containers.update(containers)
        self.pins.zones.restore(zones)
        self.pins.changes.restore(changes)
        for part, state in parts:
            part.restore(state)


def _count_group(balloon: Balloon, container: Container, sign: int) -> None:
    namespace = container.pod.namespace
    balloon.namespaces[namespace] = balloon.namespaces.get(namespace, 0) + sign
    if balloon.type.groupBy:
        group, _ = group_of(balloon.type, container)
        balloon.groups[group] = balloon.groups.get(group, 0) + sign
