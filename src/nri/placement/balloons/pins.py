"""The pins of containers in balloons: CPUs, shares and memory nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from nri.kube.quantity import shares_of_millicpu
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import Options
from nri.placement.balloons.waiting import BEFORE_ALL, Turn, Waiting
from nri.placement.choices import Choices
from nri.placement.containers import Changes, Container
from nri.placement.machine import Machine
from nri.placement.zones import PRESERVED, PRIORITIES, MemoryZones, NoMemory
from nri.placement.zones import Request as MemoryRequest


class BalloonPins:
    """All pins, and the memory zones that they come from.

    Attributes:
        containers: by id, all that the policy has placed.
        resized: by id, the last requests of a container that was resized.
    """

    def __init__(self, machine: Machine, options: Options, choices: Choices) -> None:
        self._machine, self._options, self._choices = machine, options, choices
        self.containers: dict[str, Container] = {}
        self.resized: dict[str, Requests] = {}
        self.zones = MemoryZones(machine.topology.nodes, choices.trials_leave_no_zone)
        self.changes = Changes()
        self._set = self.changes.follow if choices.balloons_follow_resizes else self.changes.set
        # The requests for which there was no memory when the zones had this version: of another one nothing is known.
        self._in_vain: set[MemoryRequest] = set()
        self._in_vain_at = -1

    def repin(self, balloons: Iterable[Balloon]) -> None:
        """Pin all containers of some balloons again."""
        for balloon in balloons:
            balloon.short, balloon.waiting = False, Waiting()
            self._pin_all(balloon, [self.containers[name] for name in balloon.containers])

    def repin_for(self, container: Container, balloon: Balloon) -> None:
        """Pin a container; those beside it have their pins, unless one of them may get memory now."""
        if not (self._choices.balloons_follow_resizes and self._choices.memory_follows_cpus):
            self.repin([balloon])
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
        nodes, single = self._machine.nodes_of(cpus), 0
        for container in containers:
            hide = container.asks_flag("hide-hyperthreads")
            hidden = hide[1] if hide is not None else bool(balloon.type.hideHyperthreads)
            if hidden:
                single = single or self._machine.one_thread_per_core(cpus)
            self._pin(container, balloon, single if hidden else cpus, nodes)

    def _pin(self, container: Container, balloon: Balloon, cpus: int, nodes: int) -> None:
        if self._options.pinCPU:
            cpu_m = container.requests.cpu_m
            self._set(container.id, masks.text(cpus), shares=shares_of_millicpu(cpu_m) if cpu_m else None)
        own = balloon.type.pinMemory
        if self._options.pinMemory if own is None else own:
            zone = self._zone(self._memory_of(container, balloon, nodes), balloon)
            if not (container.preserves("memory") and self._choices.preserved_memory_stays):
                self._set(container.id, mems=self._mems(zone))

    def _mems(self, zone: int) -> str:
        """A memory zone as a pin."""
        some = self.zones.with_memory
        if zone and some and self._choices.memory_nodes_have_memory:
            zone = zone & some or some
        return masks.text(zone)

    def adopt_zone(self, container: Container, balloon: Balloon, zone: str) -> None:
        """Let a container have its earlier memory nodes; if it cannot, it gets others when it is pinned."""
        nodes = self._machine.nodes_of(balloon.cpus | balloon.idle)
        with suppress(NoMemory):
            self.zones.adopt(self._memory_of(container, balloon, nodes), masks.parse(zone))

    def _memory_of(self, container: Container, balloon: Balloon, nodes: int) -> MemoryRequest:
        """The request of memory of a container whose CPUs are near to these nodes."""
        preserved = container.preserves("memory")
        kinds = 0
        if not preserved:
            kinds = container.asks_memory(self._choices.mixed_memory_in_balloons) or balloon.type.kinds
        nodes = masks.parse(container.mems) if preserved else nodes
        priority = PRESERVED if preserved else PRIORITIES[container.qos]
        limit = self.resized.get(container.id, container.requests).memory_limit_bytes
        return MemoryRequest(container.id, limit, nodes, kinds, priority)

    def _zone(self, request: MemoryRequest, balloon: Balloon) -> int:
        """The memory nodes of a container; just those to begin with if there is not enough."""
        moved: dict[str, int] = {}
        zones, name, nodes, kinds = self.zones, request.user, request.nodes, request.kinds
        follows = self._choices.memory_follows_cpus
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
            if not (self.containers[user].preserves("memory") and self._choices.preserved_memory_stays):
                self._set(user, mems=self._mems(other))
        return zone
