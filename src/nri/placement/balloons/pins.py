"""The pins of containers in balloons: CPUs, shares and memory nodes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from nri.kube.quantity import shares_of_millicpu
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import Options
from nri.placement.balloons.retry_queue import BEFORE_ALL, RetryQueue, Turn
from nri.placement.choices import Choices
from nri.placement.containers import Changes, Container
from nri.placement.machine import Machine
from nri.placement.zones import PRESERVED, PRIORITIES, MemoryZones, NoMemory
from nri.placement.zones import Request as MemoryRequest


class BalloonPins:
    """The pins of all containers, and their memory zones.

    Attributes:
        containers: all placed containers by id.
        resized: the last requests of resized containers by id.
    """

    def __init__(self, machine: Machine, options: Options, choices: Choices) -> None:
        self._machine, self._options, self._choices = machine, options, choices
        self.containers: dict[str, Container] = {}
        self.resized: dict[str, Requests] = {}
        self.zones = MemoryZones(machine.topology.nodes, choices.trials_leave_no_zone)
        self.changes = Changes()
        self._set_pins = self.changes.follow if choices.balloons_follow_resizes else self.changes.set
        #: Requests that failed for lack of memory, with the version of the zones at that time.
        self._failed: set[MemoryRequest] = set()
        self._failed_version = -1

    def repin(self, balloons: Iterable[Balloon]) -> None:
        """Pin all containers of these balloons again."""
        for balloon in balloons:
            balloon.short, balloon.retries = False, RetryQueue()
            self._pin_all(balloon, [self.containers[name] for name in balloon.containers])

    def repin_for(self, container: Container, balloon: Balloon) -> None:
        """Pin a container, and the containers in its balloon that may get memory now."""
        if not (self._choices.balloons_follow_resizes and self._choices.memory_follows_cpus):
            self.repin([balloon])
            return
        turn = balloon.turn(container.pod.id, container.id)
        was_short, balloon.short = balloon.short, False
        if was_short:
            self._retry(balloon, BEFORE_ALL, turn)
        self._pin_all(balloon, [container])
        if was_short:
            self._retry(balloon, turn, None)
            balloon.short = balloon.retries.has_unmet_request()

    def _retry(self, balloon: Balloon, begin: Turn, end: Turn | None) -> None:
        """Pin the queued containers between two turns, in the order of the queue."""
        turn = balloon.retries.next(begin, end, self._is_hopeless)
        while turn is not None:
            self._pin_all(balloon, [self.containers[turn[2]]])
            turn = balloon.retries.next(turn, end, self._is_hopeless)

    def _is_hopeless(self, request: MemoryRequest | None) -> bool:
        """Whether an equal request of any container has failed and no memory was allocated or released since."""
        if self._failed_version != self.zones.version or request is None:
            return False
        return request._replace(user="") in self._failed

    def _pin_all(self, balloon: Balloon, containers: Iterable[Container]) -> None:
        cpus = balloon.cpus | balloon.idle
        nodes, single = self._machine.nodes_of(cpus), 0
        for container in containers:
            annotation = container.scoped_flag("hide-hyperthreads")
            hidden = annotation[1] if annotation is not None else bool(balloon.type.hideHyperthreads)
            if hidden:
                single = single or self._machine.one_thread_per_core(cpus)
            self._pin(container, balloon, single if hidden else cpus, nodes)

    def _pin(self, container: Container, balloon: Balloon, cpus: int, nodes: int) -> None:
        if self._options.pinCPU:
            cpu_m = container.requests.cpu_m
            self._set_pins(container.id, masks.text(cpus), shares=shares_of_millicpu(cpu_m) if cpu_m else None)
        type_pins_memory = balloon.type.pinMemory
        if self._options.pinMemory if type_pins_memory is None else type_pins_memory:
            zone = self._zone(self._memory_of(container, balloon, nodes), balloon)
            if not (container.preserves("memory") and self._choices.preserved_memory_stays):
                self._set_pins(container.id, mems=self._mems(zone))

    def _mems(self, zone: int) -> str:
        """The pin of a memory zone."""
        with_memory = self.zones.with_memory
        if zone and with_memory and self._choices.memory_nodes_have_memory:
            zone = zone & with_memory or with_memory
        return masks.text(zone)

    def adopt_zone(self, container: Container, balloon: Balloon, zone: str) -> None:
        """Give a container its earlier memory nodes. If that fails, it gets other nodes when it is pinned."""
        nodes = self._machine.nodes_of(balloon.cpus | balloon.idle)
        with suppress(NoMemory):
            self.zones.adopt(self._memory_of(container, balloon, nodes), masks.parse(zone))

    def _memory_of(self, container: Container, balloon: Balloon, nodes: int) -> MemoryRequest:
        """The memory request of a container whose CPUs are near these nodes."""
        preserved = container.preserves("memory")
        kinds = 0
        if not preserved:
            kinds = container.memory_mask(self._choices.mixed_memory_in_balloons) or balloon.type.memory_kinds_mask
        nodes = masks.parse(container.mems) if preserved else nodes
        priority = PRESERVED if preserved else PRIORITIES[container.qos]
        limit = self.resized.get(container.id, container.requests).memory_limit_bytes
        return MemoryRequest(container.id, limit, nodes, kinds, priority)

    def _zone(self, request: MemoryRequest, balloon: Balloon) -> int:
        """Allocate the memory nodes of a container. Without enough memory, return the nodes near its CPUs."""
        moved: dict[str, int] = {}
        zones, name, nodes, kinds = self.zones, request.user, request.nodes, request.kinds
        follows = self._choices.memory_follows_cpus
        turn = balloon.turn(self.containers[name].pod.id, name)
        try:
            if name in zones.zones and follows:
                if zones.begins_at(name, nodes, kinds):
                    balloon.retries.drop(name)
                    return zones.zones[name]
                zones.release(name)
            if name in zones.zones:
                zone, moved = zones.widen(name, nodes, kinds)
            elif follows and self._is_hopeless(request):
                raise NoMemory("not enough memory, as before")
            else:
                offer = zones.allocate(request)
                zone, moved = offer.zone, offer.moved
        except NoMemory:
            if self._failed_version != zones.version:
                self._failed, self._failed_version = set(), zones.version
            anonymous = request._replace(user="")
            self._failed.add(anonymous)
            balloon.short = True
            balloon.retries.put(turn, anonymous)
            return nodes
        if zones.begins_at(name, nodes, kinds):
            balloon.retries.drop(name)
        else:
            balloon.retries.put(turn, None)
        for user, other in moved.items():
            if not (self.containers[user].preserves("memory") and self._choices.preserved_memory_stays):
                self._set_pins(user, mems=self._mems(other))
        return zone
