"""The policy balloons: choose a balloon for each container, CPUs for each balloon, and the pins of its containers.

A balloon's size follows the requests of its containers. A container goes to a balloon that fits, to one that can grow,
or to a new one, in the order that its type prefers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any

from nri.kube.requests import Requests
from nri.placement.balloons import restart, view
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.balloon_set import BalloonSet
from nri.placement.balloons.options import ANNOTATIONS, IGNORED_ANNOTATIONS, BalloonType, Options, PluginOptions
from nri.placement.balloons.pins import BalloonPins
from nri.placement.balloons.types import BalloonTypes, group_of
from nri.placement.choices import Choices
from nri.placement.containers import Container, NoPlace, Pins, no_deadline
from nri.placement.machine import Machine
from nri.placement.policy import MAX_CANDIDATES, NO_DEVICES, Devices, Explanation, Gauge, Place
from nri.placement.scheduling import SchedulingClass, scheduling_class_of
from nri.placement.state import Entries, PersistentPolicy, PlacementState
from nri.placement.tuning import Tuning
from nri.text import count

_NO_CONTAINERS: Mapping[str, Container] = MappingProxyType({})


class Balloons(PersistentPolicy):
    """The policy balloons. Raises ValueError for options that do not fit the machine.

    Args:
        state: the placements of an earlier policy, restored for these containers where possible, the oldest first.

    Attributes:
        in_time: called during each decision; if it raises NoPlace, the decision is undone.
    """

    name = "balloons"
    options_type = Options
    plugin_options_type = PluginOptions
    annotations = ANNOTATIONS
    ignored_annotations = IGNORED_ANNOTATIONS

    def __init__(
        self,
        machine: Machine,
        options: Options,
        choices: Choices = Choices.DEFAULT,
        state: PlacementState | None = None,
        containers: Mapping[str, Container] = _NO_CONTAINERS,
        devices: Devices = NO_DEVICES,
    ) -> None:
        self.machine, self.options, self.choices = machine, options, choices
        self._devices = devices
        self.types = BalloonTypes(machine, options, choices, devices)
        self._pins = BalloonPins(machine, options, choices)
        self._balloon_set = BalloonSet(machine, options, choices, self.types, self._pins)
        self.zones, self.containers, self._changes = self._pins.zones, self._pins.containers, self._pins.changes
        self.unmet = self.types.unmet
        self.in_time: Callable[[], None] = no_deadline
        self._decisions: dict[str, view.Decision] = {}
        #: The state before the current decision; None until the decision has changed something.
        self._saved_state: tuple[Any, ...] | None = None
        self._is_deciding = False
        self._free_at_start = restart.start(self._balloon_set, state or PlacementState(self.name), containers)
        self._starts_empty = state is None or not state.balloons
        self._changes.take()  # the caller reads all pins

    @property
    def balloons(self) -> list[Balloon]:
        """All balloons, the oldest first."""
        return self._balloon_set.balloons

    @property
    def free(self) -> int:
        """The mask of CPUs that are in no balloon."""
        return self._balloon_set.free

    def _entries(self, names: Iterable[str]) -> Entries:
        return restart.entries(self._balloon_set, names)

    # -- events -------------------------------------------------------------------------------------------------------

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container. Returns the pins of all containers that change. Raises NoPlace."""
        if not self.choices.pod_class_is_known:
            container.hide_class()
        self._changes.touched[container.id] = None
        with self._undone_if_refused():
            is_left_alone = self.types.is_left_alone(container)
            if is_left_alone or not self.choices.failure_changes_nothing:
                self.containers[container.id] = container
            if not is_left_alone:
                self._place_container(container)
        return self._changes.take()

    def release(self, container_id: str) -> dict[str, Pins]:
        """Release a container, if it is known. Returns the pins of all containers that change."""
        container = self.containers.pop(container_id, None)
        balloon = None if container is None else self._balloon_set.of_container(container)
        if container is not None and balloon is not None:
            self._balloon_set.dismiss(container, balloon)
        self._changes.forget(container_id)
        self._pins.resized.pop(container_id, None)
        self.unmet.pop(container_id, None)
        self._decisions.pop(container_id, None)
        return self._changes.take()

    def resize(self, container_id: str, requests: Requests) -> dict[str, Pins]:
        """Resize a container's balloon for new requests, or move the container. Raises NoPlace."""
        container = self.containers.get(container_id)
        if container is None:
            return self._changes.take()
        self._changes.touched[container_id] = None
        before = self._pins.resized.get(container_id, container.requests)
        self._pins.resized[container_id] = requests
        balloon = self._balloon_set.of_container(container)
        if not self.choices.balloons_follow_resizes:
            if not container.resizes(before, requests, self.choices):
                self._changes.repeat(container_id, container.shares)
        elif balloon is None:  # the container is not placed, but may be after a change of the configuration
            container.requests = requests
        elif before == requests:
            self._changes.repeat(container_id)
        else:
            try:
                self._follow(container, balloon, requests)
                self._changes.repeat(container_id)
            except NoPlace:
                container.requests = self._pins.resized[container_id] = before
                raise
        return self._changes.take()

    def _follow(self, container: Container, balloon: Balloon, requests: Requests) -> None:
        wanted_m = balloon.requested_m + requests.cpu_m - container.requests.cpu_m
        with self._undone_if_refused():
            if self._balloon_set.max_m(balloon) >= wanted_m:
                container.requests, balloon.requested_m = requests, wanted_m
                self._balloon_set.resize(balloon, max(1, wanted_m))
                self._changes.leave_shares(container.id)
                self.zones.release(container.id)
                self._pins.repin_for(container, balloon)
                return
            self._save_before()
            self._changes.leave_shares(container.id)
            self._balloon_set.dismiss(container, balloon, requests)
            self._place_container(container)

    @contextmanager
    def _undone_if_refused(self) -> Iterator[None]:
        """Restore the previous state if a decision is refused."""
        self._saved_state, self._is_deciding = None, True
        try:
            yield
        except NoPlace:
            if self._saved_state is not None and self.choices.failure_changes_nothing:
                self._balloon_set.restore(self._saved_state)
            raise
        finally:
            self._saved_state, self._is_deciding = None, False

    def _save_before(self) -> None:
        """Save the state before the first change of a decision that may still be refused."""
        if self._is_deciding and self._saved_state is None:
            self._saved_state = self._balloon_set.saved()

    def scheduling(self, container: Container) -> SchedulingClass | None:
        """The scheduling class in a container's annotation, else of its type. Returns None outside of balloons."""
        balloon = self._balloon_set.of_container(container)
        if balloon is None:
            return None
        return scheduling_class_of(container, self.options.schedulingClasses, balloon.type.schedulingClass)

    # -- placing ------------------------------------------------------------------------------------------------------

    def _place_container(self, container: Container) -> None:
        kind, because = self.types.type_of(container)
        balloon, decision = self._choose(kind, container, because)
        if balloon is None or decision is None:
            raise NoPlace(str(container), self._reason_for_refusal(kind, container))
        wanted_m = max(1, container.requests.cpu_m + balloon.requested_m)
        if balloon.size_m < wanted_m or (balloon.components and self.choices.composites_keep_their_least):
            self._save_before()
            try:
                self._balloon_set.resize(balloon, wanted_m)
            except ValueError as error:
                raise NoPlace(str(container), f"balloon {balloon} cannot grow to {wanted_m}m: {error}") from None
        self._balloon_set.join(container, balloon)
        self._pins.repin_for(container, balloon)
        self._decisions[container.id] = decision

    def _choose(
        self, kind: BalloonType, container: Container, because: str
    ) -> tuple[Balloon | None, view.Decision | None]:
        """The best balloon of the type's first successful method, and the comparison for `explain`."""
        wanted_m = container.requests.cpu_m
        methods = self._methods(kind, container)
        for method, find in methods:
            self.in_time()
            balloons = find()
            if balloons:
                free_m = self._balloon_set.max_free_m if method == "grow" else self._balloon_set.free_m
                best = max(balloons, key=lambda balloon: (free_m(balloon), -balloon.count))
                names = tuple(name for name, _ in methods)
                candidates = self._snapshots([best, *(balloon for balloon in balloons if balloon is not best)])
                unsuitable = self._snapshots(b for b in self._balloon_set.of_type(kind) if b not in balloons)
                return best, view.Decision(because, wanted_m, names, method, candidates, unsuitable)
        return None, None

    def _methods(self, kind: BalloonType, container: Container) -> list[tuple[str, Callable[[], list[Balloon]]]]:
        """The methods of finding a balloon for a container, in the order that its type prefers."""
        wanted_m, pod = container.requests.cpu_m, container.pod

        def can_grow(balloons: Iterable[Balloon]) -> list[Balloon]:
            return [b for b in balloons if b.type is kind and self._balloon_set.max_free_m(b) >= wanted_m]

        methods: list[tuple[str, Callable[[], list[Balloon]]]] = []
        if kind.groupBy:
            methods.append(("group", lambda: can_grow(self._of_group(kind, container))))
        if not kind.preferSpreadingPods:
            methods.append(("pod", lambda: can_grow(b for b in self.balloons if pod.id in b.pods)))
        new: tuple[str, Callable[[], list[Balloon]]] = ("new", lambda: self._new_for(kind, container))
        if kind.preferPerNamespaceBalloon:
            methods.append(("namespace", lambda: can_grow(self._of_namespace(pod.namespace))))
            methods.append(new)
        fill: list[tuple[str, Callable[[], list[Balloon]]]] = [
            ("fit", lambda: [b for b in self._balloon_set.of_type(kind) if self._balloon_set.free_m(b) >= wanted_m]),
            ("grow", lambda: can_grow(self._balloon_set.of_type(kind))),
        ]
        return methods + ([new, *fill] if kind.preferNewBalloons else [*fill, new])

    def _of_group(self, kind: BalloonType, container: Container) -> list[Balloon]:
        group, is_complete = group_of(kind, container)
        return [balloon for balloon in self.balloons if is_complete and balloon.groups.get(group, 0) > 0]

    def _of_namespace(self, namespace: str) -> list[Balloon]:
        return [balloon for balloon in self.balloons if balloon.namespaces.get(namespace, 0) > 0]

    def _new_for(self, kind: BalloonType, container: Container) -> list[Balloon]:
        """Find or create an empty balloon. Returns an empty list if there are too many, or if it cannot grow enough."""
        wanted_m = container.requests.cpu_m if self.choices.balloons_keep_their_limit else 0
        for balloon in self._balloon_set.of_type(kind):
            if not balloon.pods and self._balloon_set.max_m(balloon) >= wanted_m:
                return [balloon]
        free = self._balloon_set.free_for(kind).bit_count()
        if free == 0 or free < kind.minCPUs:
            return []
        self._save_before()
        try:
            balloon = self._balloon_set.new(kind)
        except ValueError:
            return []
        if self._balloon_set.max_m(balloon) < container.requests.cpu_m:
            self._balloon_set.give_back(balloon.cpus)
            return []
        self.balloons.append(balloon)
        if balloon.cpus:
            self._pins.repin(self._balloon_set.share_idle(self.free, balloon.cpus))
        return [balloon]

    def _snapshots(self, balloons: Iterable[Balloon]) -> list[view.BalloonSnapshot]:
        return [
            view.BalloonSnapshot(
                str(balloon), self._balloon_set.free_m(balloon), self._balloon_set.max_free_m(balloon), balloon.count
            )
            for balloon in islice(balloons, MAX_CANDIDATES)
        ]

    def _reason_for_refusal(self, kind: BalloonType, container: Container) -> str:
        balloon_set = self._balloon_set
        balloons = balloon_set.of_type(kind)
        reasons = [
            f"{balloon} has {balloon_set.free_m(balloon)}m free and can grow to {balloon_set.max_free_m(balloon)}m"
            for balloon in balloons
        ]
        if kind.maxBalloons and len(balloons) >= kind.maxBalloons:
            reasons.append(f"no new balloon, because maxBalloons is {kind.maxBalloons}")
        else:
            free = count(self._balloon_set.free_for(kind).bit_count(), "free CPU")
            reasons.append(f"a new balloon has only {free}")
        return f"{container.requests.cpu_m}m CPU requested from balloons {kind.name}; " + "; ".join(reasons)

    # -- reports ------------------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        """All balloons as places."""
        return view.places(self._balloon_set, self.machine)

    def node_zones(self) -> list[dict[str, Any]]:
        """The zones of the node's NodeResourceTopology: balloons, each followed by its containers if configured."""
        return view.node_zones(self._balloon_set, self.machine, self._allocatable_m, self.options.showContainersInNrt)

    def _allocatable_m(self, kind: BalloonType) -> int:
        """The largest CPU request that would fit in a balloon of a type without any containers."""
        cpus = (self._initially_free & self.types.allowed_for(kind)).bit_count()
        cpus += kind.minCPUs if kind.minBalloons else 0  # CPUs of the first balloon
        return 1000 * (min(cpus, kind.maxCPUs) if kind.maxCPUs else cpus)

    @cached_property
    def _initially_free(self) -> int:
        """The mask of CPUs outside of all balloons before the first container."""
        if self._starts_empty:
            return self._free_at_start
        try:
            return Balloons(self.machine, self.options, self.choices, devices=self._devices)._free_at_start
        except ValueError:  # the permanent balloons fit only where an earlier policy had put them
            return self._free_at_start

    def gauges(self) -> Iterator[Gauge]:
        """A measurement for each balloon, with the metric names of nri-plugins."""
        return view.gauges(self.balloons, self.places(), self.machine, self.containers)

    def explain(self, container_id: str) -> Explanation:
        """Explain the choice of a container's balloon. Raises KeyError if the container is unknown."""
        container = self.containers[container_id]
        balloon = self._balloon_set.of_container(container)
        if balloon is None:
            return Explanation(container, f"{container.qos}, not placed, as configured", "", True, [])
        decision = self._decisions.get(container_id)
        return view.explanation(container, str(balloon), decision, self.types.all, balloon.type)

    def tuning(self) -> Tuning:
        """The classes of CPUs, and the interrupts that balloons claim or avoid."""
        return view.tuning(self.balloons, self.free, self.options.idleCPUClass)
