"""balloons' decisions: a balloon for each container, CPUs for each balloon, and the pins of all in it.

One job: :class:`Balloons`. A balloon's size follows what its containers request; a container goes to one that fits, to
one that can grow, or to a new one, in the order that its type prefers. Rules: pure; refused is
:class:`~nri.placement.containers.NoPlace`. Next: the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any

from nri.config.complaint import WrongValue
from nri.kube.quantity import shares_of_millicpu
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.balloons import view
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import DEFAULT, RESERVED, BalloonType, LoadClass, Options
from nri.placement.balloons.tree import Preferences, TreeAllocator, build
from nri.placement.balloons.waiting import BEFORE_ALL, Turn, Waiting
from nri.placement.choices import Choices
from nri.placement.containers import Changes, Container, NoPlace, Pins, always, shown
from nri.placement.expressions import expand, matches
from nri.placement.machine import Machine, Priority
from nri.placement.policy import MOST_CANDIDATES, Explanation, Gauge, Place
from nri.placement.scheduling import SchedulingClass, named
from nri.placement.state import BalloonState, ContainerState, Entries, Kept, PartState, PlacementState
from nri.placement.tuning import IrqAffinity, Tuning
from nri.placement.zones import PRESERVED, PRIORITIES, MemoryZones, NoMemory
from nri.placement.zones import Request as MemoryRequest
from nri.text import count

__all__ = ["Balloons"]

_NONE: Mapping[str, Container] = MappingProxyType({})
_RESERVED = ("reservedResources", "cpu")

#: Names of the devices that are no devices: reserved and isolated CPUs, and the two kinds of cores.
_RESERVED_CPUS, _ISOLATED_CPUS, _EFFICIENT, _PERFORMANCE = (
    "reserved CPUs",
    "isolated CPUs",
    "efficient cores",
    "performance cores",
)


class Balloons(Kept):
    """The policy. Raises ValueError for options that do not go with the machine.

    Args:
        near: the CPUs near to a device by its path in /sys, several sets if it has several.
        state: what an earlier policy gave to these containers, the oldest first; those that can keep it do.

    Attributes:
        in_time: called on the way of each decision; what it raises, a NoPlace, ends it, and nothing has changed.
    """

    name = "balloons"

    def __init__(
        self,
        machine: Machine,
        options: Options,
        choices: Choices = Choices.DEFAULT,
        near: Callable[[str], list[int]] = lambda _path: [],
        state: PlacementState | None = None,
        containers: Mapping[str, Container] = _NONE,
    ) -> None:
        self.machine, self.options, self.choices = machine, options, choices
        self._near = near
        self._allocator = CpuAllocator(machine, choices.caches_beside_idle_ones)
        self._tree = build(machine, choices.packages_have_their_own_cpus)
        self.zones = MemoryZones(machine.topology.nodes, choices.trials_leave_no_zone)
        self.allowed = options.availableResources.available(machine.present, machine.online)
        self.free = self.allowed
        self.reserved = 0
        self.types = self._types()
        self._by_name = {each.name: each for each in self.types}
        self._loads = {each.name: each for each in options.loadClasses}
        self._keep_apart()
        self.balloons: list[Balloon] = []
        self.containers: dict[str, Container] = {}
        self.unmet: dict[str, str] = {}
        self._members: dict[str, str] = {}
        self._resized: dict[str, Requests] = {}
        self._decisions: dict[str, view.Decision] = {}
        self._changes = Changes()
        self._set = self._changes.follow if choices.balloons_follow_resizes else self._changes.set
        # How all was before a decision that may be refused yet, once it has changed anything.
        self._before: tuple[Any, ...] | None = None
        self._deciding = False
        # The requests for which there was no memory when the zones had this version: of another one nothing is known.
        self._in_vain: set[MemoryRequest] = set()
        self._in_vain_at = -1
        self.in_time: Callable[[], None] = always
        state = state or PlacementState(self.name)
        for name, balloon in state.balloons.items():
            self._adopt(balloon, [each for one, each in containers.items() if state.members.get(one) == name])
        adopted = list(self.balloons)
        self._share_idle(self.free, 0)
        for container in self.containers.values():
            self._adopt_zone(container, state.zones.get(container.id, ""))
        for priority in Priority:
            for each in self.types:
                if each.priority is priority:
                    self._make_least(each)
        self._starts_empty, self._free_at_start = not adopted, self.free
        self._fit(adopted)
        self._repin(self._share_idle(self.free, 0))
        self._repin(self.balloons)
        self._changes.take()  # they are among the pins

    # -- what is kept over a restart ----------------------------------------------------------------------------------

    def _entries(self, names: Iterable[str]) -> Entries:
        known, zones = self.containers, self.zones.zones
        return {
            "containers": {name: ContainerState.of(known[name]) if name in known else None for name in names},
            "balloons": {balloon.name: balloon.written() for balloon in self.balloons},
            "members": {name: self._members.get(name) for name in names},
            "zones": {name: masks.text(zones[name]) if name in zones else None for name in names},
        }

    def _adopt(self, state: BalloonState, members: list[Container]) -> None:
        """Make a balloon as it was, with those of its containers that still belong there; nothing if it cannot be."""
        free = self.free
        balloon = self._remade(list(state.parts))
        if balloon is None or 0 < balloon.type.maxBalloons <= len(self._of(balloon.type)):
            self.free = free
            return
        members = [each for each in members if self._belongs(each, balloon)]
        if not members and len(self._of(balloon.type)) >= balloon.type.minBalloons:
            self.free = free
            return
        balloon.idle = masks.parse(state.idle) & self._free_for(balloon.type)
        self.balloons.append(balloon)
        for each in members:
            if self._most_m(balloon) >= each.requests.cpu_m + balloon.requested_m:
                self._join(each, balloon)

    def _remade(self, parts: list[PartState]) -> Balloon | None:
        """A balloon of its parts, whose CPUs are taken; None if one of them cannot be as it was."""
        waiting: list[tuple[Balloon, int]] = []
        top = None
        for part in parts:
            kind, cpus = self._by_name.get(part.type), masks.parse(part.cpus)
            count = cpus.bit_count()
            if kind is None or bool(kind.components) != bool(part.components):
                return None
            balloon = self._empty(kind, part.instance)
            if not part.components:
                if cpus & ~self._free_for(kind) or count < kind.minCPUs or 0 < kind.maxCPUs < count:
                    return None
                self.free &= ~cpus
            balloon.cpus = cpus
            if waiting:
                above, left = waiting.pop()
                above.components.append(balloon)
                waiting += [(above, left - 1)] if left > 1 else []
            elif top is not None:
                return None
            top = top or balloon
            waiting += [(balloon, part.components)] if part.components else []
        return None if waiting else top

    def _belongs(self, container: Container, balloon: Balloon) -> bool:
        try:
            return not self._left_alone(container) and self._type_of(container) is balloon.type
        except NoPlace:
            return False

    def _adopt_zone(self, container: Container, zone: str) -> None:
        """Let a container have its memory nodes; if it cannot it gets others when it is pinned."""
        balloon = self._balloon_of(container)
        if balloon is not None and zone:
            nodes = self.machine.nodes_of(balloon.cpus | balloon.idle)
            with suppress(NoMemory):
                self.zones.adopt(self._memory_of(container, balloon, nodes), masks.parse(zone))

    def _fit(self, adopted: Iterable[Balloon]) -> None:
        """Let balloons that were taken up have the CPUs that they need by now."""
        for balloon in adopted:
            try:
                self._resize(balloon, max(1 if balloon.pods else 0, balloon.requested_m))
            except ValueError:
                continue  # it stays as large as it was

    # -- how it shows itself ------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        """All balloons."""
        return view.places(self.balloons, self.zones, self.machine, self._free_m)

    def node_zones(self) -> list[dict[str, Any]]:
        """The zones of the node's NodeResourceTopology: balloons, each followed by its containers if they are shown."""
        zones = []
        for balloon in self.balloons:
            free = self._free_m(balloon), self._most_free_m(balloon)
            zones.append(view.balloon_zone(balloon, self.machine, *free, self._allocatable_m(balloon.type)))
            shown = balloon.type.showContainersInNrt
            for name in balloon.containers if (self.options.showContainersInNrt if shown is None else shown) else ():
                pins = self._changes.pins.get(name, Pins())
                zones.append(view.container_zone(self.containers[name], balloon, pins, self.machine))
        return zones

    def _allocatable_m(self, kind: BalloonType) -> int:
        """The largest CPU request that a balloon of a type could take if there were no containers."""
        most = (self._initially_free & self._allowed_for(kind)).bit_count()
        most += kind.minCPUs if kind.minBalloons else 0  # those that the first balloon has from the start
        return 1000 * (min(most, kind.maxCPUs) if kind.maxCPUs else most)

    @cached_property
    def _initially_free(self) -> int:
        """The CPUs that are in no balloon as long as there are no containers."""
        if self._starts_empty:
            return self._free_at_start
        try:
            return Balloons(self.machine, self.options, self.choices, self._near)._free_at_start
        except ValueError:  # the balloons that there always are fit only as they were
            return self._free_at_start

    def gauges(self) -> Iterator[Gauge]:
        """The measurement of each balloon, under the original's name."""
        return view.gauges(self.balloons, self.places(), self.machine, self.containers)

    def explain(self, container_id: str) -> Explanation:
        """Why a container is where it is. KeyError for one that is not known."""
        container = self.containers[container_id]
        balloon = self._balloon_of(container)
        if balloon is None:
            return Explanation(container, f"{container.qos}, left alone as it asks for", "", True, [])
        decision = self._decisions.get(container_id)
        return view.explanation(container, str(balloon), decision, self.types, balloon.type)

    def tuning(self) -> Tuning:
        """The class of each balloon's CPUs and of idle ones, and the interrupts that its type wants or not."""
        classes = {self.options.idleCPUClass: self.free}
        irq_affinities = []
        for balloon in self.balloons:
            kind = balloon.type
            for part in balloon.parts():
                if not part.components:
                    name = part.type.cpuClass
                    classes[name] = classes.get(name, 0) | part.cpus
            if kind.irqClaim or kind.irqMode:
                mask = ("*",) if kind.irqMode == "isolate" else ()
                rule = IrqAffinity(str(balloon), balloon.cpus, tuple(kind.irqClaim), mask, sink=kind.irqMode == "sink")
                irq_affinities.append(rule)
        return Tuning({name: cpus for name, cpus in classes.items() if name and cpus}, irq_affinities)

    # -- types --------------------------------------------------------------------------------------------------------

    def _types(self) -> list[BalloonType]:
        """The types, with those for the system first, and the one for all others last, unless they are given."""
        types = [replace(each) for each in self.options.balloonTypes]
        named = {each.name: each for each in types}
        reserved = named.get(RESERVED)
        if reserved is None:
            reserved = BalloonType(RESERVED, allocatorPriority="low")
            types.insert(0, reserved)
        if DEFAULT not in named:
            types.append(BalloonType(DEFAULT, minBalloons=1, maxBalloons=1, allocatorPriority="low"))
        self._reserve(reserved)
        reserved.minBalloons = reserved.maxBalloons = 1
        reserved.namespaces = [*reserved.namespaces, "kube-system", *self.options.reservedPoolNamespaces]
        return types

    def _reserve(self, reserved: BalloonType) -> None:
        amounts = self.options.reservedResources
        if amounts.cpu is None:
            return
        cpus = amounts.set_of(self.allowed)
        if cpus is not None:
            if missing := cpus & ~self.allowed:
                raise amounts.refused(f"{masks.text(missing)} are not among the available CPUs", "leave them out")
            self.reserved = cpus
            reserved.minCPUs = reserved.minCPUs or min(cpus.bit_count(), reserved.maxCPUs)
            reserved.allocatorPriority = "normal"
            reserved.preferCloseToDevices = [_RESERVED_CPUS, *reserved.preferCloseToDevices]
            return
        count = amounts.count()
        if reserved.minCPUs not in (0, count) or 0 < reserved.maxCPUs < count:
            asked = f"it asks for {count} CPUs, and the type reserved for {reserved.minCPUs} to {reserved.maxCPUs}"
            raise amounts.refused(asked, "let them agree")
        reserved.minCPUs = count

    def _keep_apart(self) -> None:
        """Let each type be far from what another one would be close to."""
        wanted: dict[str, set[str]] = {_ISOLATED_CPUS: set()} if self.machine.isolated else {}
        for each in self.types:
            close = [*each.preferCloseToDevices]
            close += [_ISOLATED_CPUS] if each.preferIsolCpus else []
            close += {"performance": [_PERFORMANCE], "efficient": [_EFFICIENT]}.get(each.preferCoreType, [])
            each.preferCloseToDevices = close
            for device in close:
                if not device.startswith("podresourceapi:"):
                    wanted.setdefault(device, set()).add(each.name)
        for each in self.types:
            each.far = [device for device, names in wanted.items() if each.name not in names]
            each.far += [_loaded(self._loads[load]) for load in each.loads]

    def _type_of(self, container: Container) -> BalloonType:
        return self._type_and_reason(container)[0]

    def _type_and_reason(self, container: Container) -> tuple[BalloonType, str]:
        """The type for a container, and how it was found.

        NoPlace for the name of none, unless the container runs already: then it is in the reserved or default type.
        """
        name = container.asks("balloon.balloons")
        if name is not None and name[1] in self._by_name:
            return self._by_name[name[1]], "its annotation says so"
        if name is not None:
            missing = f"there is no type of balloons {shown(name[1])}: {', '.join(self._by_name)}"
            if not container.runs:
                raise NoPlace(str(container), missing)
            self.unmet[container.id] = missing
            reserved = matches(container.pod.namespace, self._by_name[RESERVED].namespaces)
            return self._by_name[RESERVED if reserved else DEFAULT], missing
        for each in self.types:
            if any(one.holds(container, container.pod) for one in each.matchExpressions):
                return each, "the first type of which a matchExpression holds"
            if matches(container.pod.namespace, each.namespaces):
                return each, f"the first type whose namespaces have {container.pod.namespace}"
        return self._by_name[DEFAULT], "no other type is for it"

    # -- events -------------------------------------------------------------------------------------------------------

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container; the pins of all that change. Raises NoPlace."""
        if not self.choices.pod_class_is_known:
            container.hide_class()
        self._changes.touched[container.id] = None
        with self._undone_if_refused():
            alone = self._left_alone(container)
            if alone or not self.choices.failure_changes_nothing:
                self.containers[container.id] = container
            if not alone:
                self._place(container)
        return self._changes.take()

    def _left_alone(self, container: Container) -> bool:
        preserve = self.options.preserve
        return container.preserves("cpu") or (
            preserve is not None and any(one.holds(container, container.pod) for one in preserve.matchExpressions)
        )

    def release(self, container_id: str) -> dict[str, Pins]:
        """Take back what a container has, if anything."""
        container = self.containers.pop(container_id, None)
        balloon = None if container is None else self._balloon_of(container)
        if container is not None and balloon is not None:
            self._dismiss(container, balloon)
        self._changes.forget(container_id)
        self._resized.pop(container_id, None)
        self.unmet.pop(container_id, None)
        self._decisions.pop(container_id, None)
        return self._changes.take()

    def resize(self, container_id: str, requests: Requests) -> dict[str, Pins]:
        """Let a container's balloon follow its new requests, or move it. Raises NoPlace."""
        container = self.containers.get(container_id)
        if container is None:
            return self._changes.take()
        self._changes.touched[container_id] = None
        before = self._resized.get(container_id, container.requests)
        self._resized[container_id] = requests
        balloon = self._balloon_of(container)
        if not self.choices.balloons_follow_resizes:
            if not container.resizes(before, requests, self.choices):
                self._changes.again(container_id, container.shares)
        elif balloon is None:  # it is left alone until the configuration says something else
            container.requests = requests
        elif before == requests:
            self._changes.again(container_id)
        else:
            try:
                self._follow(container, balloon, requests)
                self._changes.again(container_id)
            except NoPlace:
                container.requests = self._resized[container_id] = before
                raise
        return self._changes.take()

    def _follow(self, container: Container, balloon: Balloon, requests: Requests) -> None:
        wanted = balloon.requested_m + requests.cpu_m - container.requests.cpu_m
        with self._undone_if_refused():
            if self._most_m(balloon) >= wanted:
                container.requests, balloon.requested_m = requests, wanted
                self._resize(balloon, max(1, wanted))
                self._changes.leave_shares(container.id)
                self.zones.release(container.id)
                self._repin_for(container, balloon)
                return
            self._keep()
            self._changes.leave_shares(container.id)
            self._dismiss(container, balloon, requests)
            self._place(container)

    @contextmanager
    def _undone_if_refused(self) -> Iterator[None]:
        """Be as before if what is done in here is refused."""
        self._before, self._deciding = None, True
        try:
            yield
        except NoPlace:
            if self._before is not None and self.choices.failure_changes_nothing:
                self.balloons, self.free, self.containers, self._members, zones, changes, saved = self._before
                self.zones.restore(zones)
                self._changes.restore(changes)
                for part, state in saved:
                    part.restore(state)
            raise
        finally:
            self._before, self._deciding = None, False

    def _keep(self) -> None:
        """Note how all is, before the first change of a decision that may be refused yet."""
        if self._deciding and self._before is None:
            parts = [(part, part.saved()) for balloon in self.balloons for part in balloon.parts()]
            containers, members = dict(self.containers), dict(self._members)
            zones, changes = self.zones.saved(), self._changes.saved()
            self._before = list(self.balloons), self.free, containers, members, zones, changes, parts

    def scheduling(self, container: Container) -> SchedulingClass | None:
        """How a container's processes are scheduled: by its annotation, else by its type; not if it is left alone."""
        balloon = self._balloon_of(container)
        if balloon is None:
            return None
        return named(container, self.options.schedulingClasses, balloon.type.schedulingClass)

    # -- placing ------------------------------------------------------------------------------------------------------

    def _place(self, container: Container) -> None:
        kind, because = self._type_and_reason(container)
        balloon, decision = self._choose(kind, container, because)
        if balloon is None or decision is None:
            raise NoPlace(str(container), self._why_none(kind, container))
        wanted = max(1, container.requests.cpu_m + balloon.requested_m)
        if balloon.size_m < wanted or (balloon.components and self.choices.composites_keep_their_least):
            self._keep()
            try:
                self._resize(balloon, wanted)
            except ValueError as error:
                raise NoPlace(str(container), f"balloon {balloon} cannot grow to {wanted}m: {error}") from None
        self._join(container, balloon)
        self._repin_for(container, balloon)
        self._decisions[container.id] = decision

    def _join(self, container: Container, balloon: Balloon) -> None:
        self.containers[container.id] = container
        balloon.add(container.pod.id, container.id)
        balloon.requested_m += container.requests.cpu_m
        self._members[container.id] = balloon.name
        self._count_group(balloon, container, 1)

    def _dismiss(self, container: Container, balloon: Balloon, requests: Requests | None = None) -> None:
        """Take a container out of its balloon; from then on these are its requests."""
        self.zones.release(container.id)
        balloon.remove(container.pod.id, container.id)
        balloon.requested_m -= container.requests.cpu_m
        container.requests = requests or container.requests
        del self._members[container.id]
        self._count_group(balloon, container, -1)
        with suppress(ValueError):  # else it keeps what it has
            self._resize(balloon, max(1, balloon.requested_m) if balloon.pods else 0)
        if not balloon.pods and len(self._of(balloon.type)) > balloon.type.minBalloons:
            self.balloons.remove(balloon)
            self._give_back(balloon.cpus)

    def _why_none(self, kind: BalloonType, container: Container) -> str:
        there = self._of(kind)
        looked = [
            f"{balloon} has {self._free_m(balloon)}m free and can grow to {self._most_free_m(balloon)}m"
            for balloon in there
        ]
        if kind.maxBalloons and len(there) >= kind.maxBalloons:
            looked.append(f"there is no new one, for there are at most {kind.maxBalloons}")
        else:
            free = count(self._free_for(kind).bit_count(), "free CPU")
            looked.append(f"a new one would have to be made of {free}")
        return f"{container.requests.cpu_m}m CPU are wanted of balloons {kind.name}; " + "; ".join(looked)

    def _choose(
        self, kind: BalloonType, container: Container, because: str
    ) -> tuple[Balloon | None, view.Decision | None]:
        wanted = container.requests.cpu_m

        def can_grow(balloons: Iterable[Balloon]) -> list[Balloon]:
            return [each for each in balloons if each.type is kind and self._most_free_m(each) >= wanted]

        chain: list[tuple[str, Callable[[], list[Balloon]]]] = []
        if kind.groupBy:
            chain.append(("group", lambda: can_grow(self._of_group(kind, container))))
        if not kind.preferSpreadingPods:
            chain.append(("pod", lambda: can_grow(b for b in self.balloons if container.pod.id in b.pods)))
        new: tuple[str, Callable[[], list[Balloon]]] = ("new", lambda: self._new_for(kind, container))
        if kind.preferPerNamespaceBalloon:
            chain += [("namespace", lambda: can_grow(self._of_namespace(container.pod.namespace))), new]
        fill: list[tuple[str, Callable[[], list[Balloon]]]] = [
            ("fit", lambda: [each for each in self._of(kind) if self._free_m(each) >= wanted]),
            ("grow", lambda: can_grow(self._of(kind))),
        ]
        chain += [new, *fill] if kind.preferNewBalloons else [*fill, new]
        for method, find in chain:
            self.in_time()
            found = find()
            if found:
                room = self._most_free_m if method == "grow" else self._free_m
                best = max(found, key=lambda each: (room(each), -each.count))
                tried = tuple(name for name, _ in chain)
                looked = self._looked([best, *(each for each in found if each is not best)])
                others = self._looked(each for each in self._of(kind) if each not in found)
                return best, view.Decision(because, wanted, tried, method, looked, others)
        return None, None

    def _looked(self, balloons: Iterable[Balloon]) -> list[view.BalloonSnapshot]:
        return [
            view.BalloonSnapshot(str(each), self._free_m(each), self._most_free_m(each), each.count)
            for each in islice(balloons, MOST_CANDIDATES)
        ]

    def _of(self, kind: BalloonType) -> list[Balloon]:
        return [balloon for balloon in self.balloons if balloon.type is kind]

    def _of_group(self, kind: BalloonType, container: Container) -> list[Balloon]:
        group, whole = _group_of(kind, container)
        return [each for each in self.balloons if whole and each.groups.get(group, 0) > 0]

    def _of_namespace(self, namespace: str) -> list[Balloon]:
        return [each for each in self.balloons if each.namespaces.get(namespace, 0) > 0]

    def _balloon_of(self, container: Container) -> Balloon | None:
        return next((each for each in self.balloons if container.id in each.pods.get(container.pod.id, ())), None)

    def _count_group(self, balloon: Balloon, container: Container, sign: int) -> None:
        namespace = container.pod.namespace
        balloon.namespaces[namespace] = balloon.namespaces.get(namespace, 0) + sign
        if balloon.type.groupBy:
            group, _ = _group_of(balloon.type, container)
            balloon.groups[group] = balloon.groups.get(group, 0) + sign

    def _free_m(self, balloon: Balloon) -> int:
        size_m = balloon.size_m
        if balloon.components and self.choices.balloons_keep_their_limit:
            size_m = min(size_m, self._most_m(balloon))  # one of its parts may be larger than the others
        return size_m - balloon.requested_m

    def _most_free_m(self, balloon: Balloon) -> int:
        return self._most_m(balloon) - balloon.requested_m

    def _most_m(self, balloon: Balloon) -> int:
        return balloon.most_m(self._free_for(balloon.type).bit_count(), self.choices.balloons_keep_their_limit)

    def _free_for(self, kind: BalloonType) -> int:
        """The free CPUs that a balloon of a type, or its parts, may take."""
        return self.free & self._allowed_for(kind)

    def _allowed_for(self, kind: BalloonType) -> int:
        """The CPUs that a balloon of a type, or its parts, may take when they are free."""
        if self.choices.reserved_cpus_stay_reserved and (kind.name != RESERVED or kind.components):
            return self.allowed & ~self.reserved
        return self.allowed

    def _make_least(self, kind: BalloonType) -> None:
        """Make those balloons of a type that there always are. Raises ValueError if the CPUs are too few."""
        for _ in range(kind.minBalloons - len(self._of(kind))):
            try:
                self.balloons.append(self._new(kind))
            except ValueError as error:
                wanted = f"{kind.minBalloons} balloons {kind.name} of minCPUs {kind.minCPUs} cannot be made: {error}"
                named = [each.name for each in self.options.balloonTypes]
                path = ("balloonTypes", named.index(kind.name), "minBalloons") if kind.name in named else _RESERVED
                raise WrongValue(path, wanted, "ask for fewer") from None

    # -- new balloons -------------------------------------------------------------------------------------------------

    def _new_for(self, kind: BalloonType, container: Container) -> list[Balloon]:
        """An empty balloon of a type, or a new one; none if there may be no more, or it could not grow enough."""
        wanted = container.requests.cpu_m if self.choices.balloons_keep_their_limit else 0
        empty = [each for each in self._of(kind) if not each.pods and self._most_m(each) >= wanted]
        if empty:
            return empty[:1]
        free = self._free_for(kind).bit_count()
        if free == 0 or free < kind.minCPUs:
            return []
        self._keep()
        try:
            balloon = self._new(kind)
        except ValueError:
            return []
        if self._most_m(balloon) < container.requests.cpu_m:
            self._give_back(balloon.cpus)
            return []
        self.balloons.append(balloon)
        if balloon.cpus:
            self._repin(self._share_idle(self.free, balloon.cpus))
        return [balloon]

    def _new(self, kind: BalloonType) -> Balloon:
        """Make a balloon of a type, with its least CPUs. Raises ValueError if there may be no more, or no CPUs."""
        others = self._of(kind)
        if 0 < kind.maxBalloons <= len(others):
            raise ValueError(f"there are {len(others)} balloons {kind.name} already")
        taken = {each.instance for each in others}
        instance = next(number for number in range(len(others) + 1) if number not in taken)
        balloon = self._empty(kind, instance)
        if kind.components:
            balloon.components = self._new_components(kind)
        try:
            self._resize(balloon, 1000 * kind.minCPUs)
        except ValueError:
            self._give_back(_union(component.cpus for component in balloon.components))
            raise
        return balloon

    def _empty(self, kind: BalloonType, instance: int) -> Balloon:
        """A balloon without CPUs, and without components if it is to be of some."""
        if kind.components:
            return Balloon(kind, instance)
        loaded = frozenset(_loaded(self._loads[load]) for load in kind.loads)
        return Balloon(kind, instance, TreeAllocator(self._tree, self._preferences(kind)), loaded=loaded)

    def _new_components(self, kind: BalloonType) -> list[Balloon]:
        """One of each component; or, to keep them equal, one of that type of which there are fewest."""
        names = [component.balloonType for component in kind.components]
        if kind.componentCreation == "balance-balloons":
            names = [min(names, key=self._count_with_components)]
        made: list[Balloon] = []
        for name in names:
            try:
                made.append(self._new(self._by_name[name]))
            except ValueError:
                self._give_back(_union(each.cpus for each in made))
                raise
        return made

    def _count_with_components(self, name: str) -> int:
        """How many balloons there are of a type, or of those that it is made of."""
        names, waiting = set(), [name]
        while waiting:
            each = waiting.pop()
            names.add(each)
            waiting += [one.balloonType for one in self._by_name[each].components if one.balloonType not in names]
        return sum(part.type.name in names for balloon in self.balloons for part in balloon.parts())

    def _preferences(self, kind: BalloonType) -> Preferences:
        options = self.options
        own_balancing, own_spread = kind.allocatorTopologyBalancing, kind.preferSpreadOnPhysicalCores
        preferences = Preferences(
            options.allocatorTopologyBalancing if own_balancing is None else own_balancing,
            options.preferSpreadOnPhysicalCores if own_spread is None else own_spread,
            [name for name in kind.preferCloseToDevices if not name.startswith("podresourceapi:")],
            list(kind.far),
        )
        preferences.devices = {
            _RESERVED_CPUS: [self.reserved],
            _ISOLATED_CPUS: [self.machine.isolated],
            _EFFICIENT: [self.machine.priorities[Priority.LOW]],
            _PERFORMANCE: [self.machine.priorities[Priority.HIGH]],
        }
        for name in (*preferences.close, *preferences.far):
            if name not in preferences.devices and name.startswith("/"):
                preferences.devices[name] = self._near(name)
        loads = [self._loads[name] for name in kind.loads]
        if any(load.overloadsLevelInBalloon for load in loads):  # then all of them, as in the original
            preferences.loads = {_loaded(load): self._spread_of(load) for load in loads}
        return preferences

    def _spread_of(self, load: LoadClass) -> Callable[[int], int]:
        """Which CPUs a load on some others touches: those of their cores, or of their second caches."""
        places = [node.cpus for node in self._tree.walk() if node.level == load.level]
        return lambda cpus: _union(place for place in places if place & cpus)

    # -- CPUs ---------------------------------------------------------------------------------------------------------

    def _resize(self, balloon: Balloon, size_m: int) -> None:
        """Let a balloon have so many thousandths of CPUs, within its bounds. Raises ValueError if it cannot."""
        kind, tree = balloon.type, balloon.tree
        if balloon.components:
            parts = len(balloon.components)
            if self.choices.composites_keep_their_least:  # and no part is less than what is asked for
                size_m = max(size_m, 1000 * kind.minCPUs) + parts - 1
            self._resize_components(balloon, size_m // parts)
            return
        assert tree is not None
        count = -(-size_m // 1000)
        count = max(min(count, kind.maxCPUs or count), kind.minCPUs)
        delta = count - balloon.cpus.bit_count()
        if delta == 0:
            return
        for load in (self._loads[name] for name in kind.loads):
            others = _union(each.cpus for each in self.balloons if _loaded(load) in each.loaded)
            tree.preferences.devices[_loaded(load)] = [self._spread_of(load)(others)]
        add, remove = tree.resize(balloon.cpus, self._free_for(kind), delta)
        if delta > 0:
            cpus = self._allocator.allocate(add, delta, kind.priority)
            self.free &= ~cpus
            balloon.cpus |= cpus
            self._repin(self._share_idle(self.free, cpus))
        else:
            left = remove.bit_count() + delta
            kept = self._allocator.allocate(remove, left, kind.priority) if left else 0
            remove &= ~kept
            self.free |= remove
            balloon.cpus &= ~remove
            self._repin(self._share_idle(remove, 0))
        self._repin([balloon])

    def _resize_components(self, balloon: Balloon, size_m: int) -> None:
        free, before = self.free, [(part, part.cpus) for part in balloon.parts()]
        try:
            for component in balloon.components:
                self._resize(component, size_m)
        except ValueError:
            self.free = free
            for part, cpus in before:
                part.cpus = cpus
            raise
        balloon.cpus = _union(component.cpus for component in balloon.components)
        if self.choices.freed_cpus_are_shared:  # now that it is known where it is
            self._repin(self._share_idle(self.free, 0))
        self._repin([balloon])

    def _give_back(self, cpus: int) -> None:
        """Let CPUs of a balloon that is gone, or came to nothing, be free, and shared as idle ones."""
        self.free |= cpus
        if self.choices.freed_cpus_are_shared:
            self._repin(self._share_idle(cpus, 0))

    def _share_idle(self, idle: int, taken: int) -> list[Balloon]:
        """Let balloons use idle CPUs beside theirs, and no more those that were taken; the ones that it touches."""
        touched, places = [], dict[str, list[int]]()
        idle &= ~self.machine.isolated
        for balloon in self.balloons:
            before = balloon.idle
            balloon.idle &= ~taken
            level = balloon.type.shareIdleCPUsInSame
            if level and idle and balloon.cpus:
                if level not in places:
                    places[level] = [node.cpus for node in self._tree.walk() if node.level == level]
                lent = idle & self._free_for(balloon.type)
                balloon.idle |= _union(place & lent for place in places[level] if place & balloon.cpus)
            if balloon.idle != before:
                touched.append(balloon)
        return touched

    # -- pins ---------------------------------------------------------------------------------------------------------

    def _repin(self, balloons: Iterable[Balloon]) -> None:
        for balloon in balloons:
            balloon.short, balloon.waiting = False, Waiting()
            self._pin_all(balloon, [self.containers[name] for name in balloon.containers])

    def _repin_for(self, container: Container, balloon: Balloon) -> None:
        """Pin a container; those beside it have their pins, unless one of them may get memory now."""
        if not (self.choices.balloons_follow_resizes and self.choices.memory_follows_cpus):
            self._repin([balloon])
            return
        turn = balloon.turn(container.pod.id, container.id)
        again, balloon.short = balloon.short, False
        if again:
            self._pin_waiting(balloon, BEFORE_ALL, turn)
        self._pin_all(balloon, [container])
        if again:
            self._pin_waiting(balloon, turn, None)
            balloon.short = balloon.waiting.short()

    def _pin_waiting(self, balloon: Balloon, begin: Turn, end: Turn | None) -> None:
        """Pin those between two that may get memory, in their order, as if all were pinned again."""
        at = balloon.waiting.next(begin, end, self._hopeless)
        while at is not None:
            self._pin_all(balloon, [self.containers[at[2]]])
            at = balloon.waiting.next(at, end, self._hopeless)

    def _hopeless(self, request: MemoryRequest | None) -> bool:
        """Whether there was no memory for such a request, whoever's, and none was given or taken since."""
        if self._in_vain_at != self.zones.version or request is None:
            return False
        return request._replace(user="") in self._in_vain

    def _pin_all(self, balloon: Balloon, containers: Iterable[Container]) -> None:
        cpus = balloon.cpus | balloon.idle
        nodes, single = self.machine.nodes_of(cpus), 0
        for container in containers:
            hide = container.asks_flag("hide-hyperthreads")
            hidden = hide[1] if hide is not None else bool(balloon.type.hideHyperthreads)
            if hidden:
                single = single or self.machine.one_thread_per_core(cpus)
            self._pin(container, balloon, single if hidden else cpus, nodes)

    def _pin(self, container: Container, balloon: Balloon, cpus: int, nodes: int) -> None:
        if self.options.pinCPU:
            cpu_m = container.requests.cpu_m
            self._set(container.id, masks.text(cpus), shares=shares_of_millicpu(cpu_m) if cpu_m else None)
        own = balloon.type.pinMemory
        if self.options.pinMemory if own is None else own:
            zone = self._zone(self._memory_of(container, balloon, nodes), balloon)
            if not (container.preserves("memory") and self.choices.preserved_memory_stays):
                self._set(container.id, mems=self._mems(zone))

    def _mems(self, zone: int) -> str:
        """A memory zone as a pin."""
        some = self.zones.with_memory
        if zone and some and self.choices.memory_nodes_have_memory:
            zone = zone & some or some
        return masks.text(zone)

    def _memory_of(self, container: Container, balloon: Balloon, nodes: int) -> MemoryRequest:
        """The request of memory of a container whose CPUs are near to these nodes."""
        preserved = container.preserves("memory")
        kinds = 0
        if not preserved:
            kinds = container.asks_memory(self.choices.mixed_memory_in_balloons) or balloon.type.kinds
        nodes = masks.parse(container.mems) if preserved else nodes
        priority = PRESERVED if preserved else PRIORITIES[container.qos]
        limit = self._resized.get(container.id, container.requests).memory_limit_bytes
        return MemoryRequest(container.id, limit, nodes, kinds, priority)

    def _zone(self, request: MemoryRequest, balloon: Balloon) -> int:
        """The memory nodes of a container; just those to begin with if there is not enough."""
        moved: dict[str, int] = {}
        zones, name, nodes, kinds = self.zones, request.user, request.nodes, request.kinds
        follows = self.choices.memory_follows_cpus
        turn = balloon.turn(self.containers[name].pod.id, name)
        try:
            if name in zones.zones and follows:
                if zones.begins_at(name, nodes, kinds):
                    balloon.waiting.drop(name)
                    return zones.zones[name]
                zones.release(name)
            if name in zones.zones:
                zone, moved = zones.widen(name, nodes, kinds)
            elif follows and self._hopeless(request):
                raise NoMemory("there was not enough, and it is as it was")
            else:
                offer = zones.allocate(request)
                zone, moved = offer.zone, offer.moved
        except NoMemory:
            if self._in_vain_at != zones.version:
                self._in_vain, self._in_vain_at = set(), zones.version
            asked = request._replace(user="")
            self._in_vain.add(asked)
            balloon.short = True
            balloon.waiting.put(turn, asked)
            return nodes
        if zones.begins_at(name, nodes, kinds):
            balloon.waiting.drop(name)
        else:
            balloon.waiting.put(turn, None)
        for user, other in moved.items():
            if not (self.containers[user].preserves("memory") and self.choices.preserved_memory_stays):
                self._set(user, mems=self._mems(other))
        return zone


def _group_of(kind: BalloonType, container: Container) -> tuple[str, bool]:
    """The group of a container, and whether all of it is known; of a `groupBy` that cannot be read nothing is."""
    try:
        return expand(kind.groupBy, container, container.pod)
    except ValueError:
        return "", False


def _loaded(load: LoadClass) -> str:
    return f"loaded-{load.level}"


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found
