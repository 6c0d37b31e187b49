"""topology-aware's decisions: a grant for each container, and the pins of all that share with it.

One job: :class:`TopologyAware`. Containers come one after the other; what changes is given out as pins, of the
container itself and of others. Rules: pure; refused is :class:`~nri.placement.containers.NoPlace`, which says
which pools were looked at and what each lacked. Next: the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nri.config.complaint import WrongValue
from nri.kube.quantity import shares_of_millicpu
from nri.kube.requests import Requests
from nri.placement import masks
from nri.placement.affinity import Affinity, affinities
from nri.placement.allocator import CpuAllocator
from nri.placement.choices import Choices
from nri.placement.containers import Changes, Container, Hint, NoPlace, Pins, always, shown
from nri.placement.machine import Machine, Priority
from nri.placement.policy import MOST_CANDIDATES, NO_DEVICES, Devices, Explanation, Gauge, Place
from nri.placement.scheduling import SchedulingClass, named
from nri.placement.state import ContainerState, Entries, GrantState, Kept, PlacementState
from nri.placement.topology_aware import view
from nri.placement.topology_aware.options import ANNOTATIONS, UNREAD_ANNOTATIONS, Options, PluginOptions
from nri.placement.topology_aware.pools import Pool, Pools
from nri.placement.topology_aware.requests import CpuKind, Request, cold_start_s, request_of
from nri.placement.topology_aware.scoring import Score, Scoring, affinity_score
from nri.placement.tuning import Tuning, check_asked, class_of, irq_affinity_of, unmovable
from nri.placement.zones import ALL_KINDS, DRAM, PRIORITIES, MemoryZones, NoMemory, Offer
from nri.placement.zones import Request as MemoryRequest

__all__ = ["Grant", "TopologyAware"]

_NONE: Mapping[str, Container] = MappingProxyType({})


@dataclass(slots=True)
class Grant:
    """The placement of a container.

    Attributes:
        exclusive: its own CPUs; `portion_m` thousandths of those of its kind that it shares.
        zone: its memory nodes.
        idle: whether it was promised no CPU.
        preserved: whether its memory is left alone; `cold` whether DRAM is still to come.
    """

    container: Container
    pool: Pool
    kind: CpuKind
    exclusive: int
    portion_m: int
    zone: int = 0
    idle: bool = False
    preserved: bool = False
    cold: bool = False

    @property
    def shares(self) -> bool:
        """Whether its CPUs change with those of its pool."""
        return self.kind is CpuKind.NORMAL and (self.portion_m > 0 or not self.exclusive)

    def written(self) -> GrantState:
        """It as plain values."""
        cpus, zone = masks.text(self.exclusive), masks.text(self.zone)
        return GrantState(self.pool.name, self.kind.value, cpus, self.portion_m, zone, self.cold)


class TopologyAware(Kept):
    """The policy. Raises ValueError for options that do not go with the machine.

    Args:
        state: what an earlier policy gave to these containers, the oldest first; those that can keep it do.

    Attributes:
        in_time: called on the way of each decision; what it raises, a NoPlace, ends it, and nothing has changed.
    """

    name = "topology-aware"
    options_type = Options
    plugin_options_type = PluginOptions
    annotations = ANNOTATIONS
    unread_annotations = UNREAD_ANNOTATIONS

    def __init__(
        self,
        machine: Machine,
        options: Options,
        choices: Choices = Choices.DEFAULT,
        state: PlacementState | None = None,
        containers: Mapping[str, Container] = _NONE,
        devices: Devices = NO_DEVICES,
    ) -> None:
        self.machine, self.options, self.choices = machine, options, choices
        self._devices = devices
        self._allocator = CpuAllocator(machine, choices.caches_beside_idle_ones)
        self.zones = MemoryZones(machine.topology.nodes, choices.trials_leave_no_zone)
        self.allowed = options.availableResources.available(machine.present, machine.online)
        self.reserved = self._reserve()
        self.pools = Pools(machine, self.allowed, self.reserved, choices)
        self.level = self.pools.existing_level(options.unlimitedBurstable)
        self.grants: dict[str, Grant] = {}
        self.containers: dict[str, Container] = {}
        self.unmet: dict[str, str] = {}
        self._decisions: dict[str, view.Decision] = {}
        #: Containers whose cold start is over.
        self._warm: set[str] = set()
        #: How long the others are to be without DRAM, because it is asked for every second.
        self._cold_s: dict[str, float] = {}
        self._changes = Changes()
        self.in_time: Callable[[], None] = always
        grants = {} if state is None else state.grants
        known = [(container, grants[name]) for name, container in containers.items() if name in grants]
        # Those who were promised none last: they have what the others leave.
        for container, given in sorted(known, key=lambda each: not (each[1].exclusive or each[1].portion_m)):
            self._adopt(container, given)
        self.containers = {name: each for name, each in containers.items() if name in self.containers}
        for grant in self.grants.values():
            self._pin(grant)
        self._changes.take()  # they are among the pins
        #: The CPUs of each pool that those who share there are pinned to.
        self._shared = {pool.id: pool.free_sharable for pool in self.pools.by_id}

    def _reserve(self) -> int:
        amounts, isolated = self.options.reservedResources, self.machine.isolated & self.allowed
        if amounts.cpu is None:
            raise WrongValue(
                ("reservedResources", "cpu"), "missing, and topology-aware cannot start without", "write 1"
            )
        reserved = amounts.set_of(self.allowed)
        if reserved is None:
            try:
                reserved = self._allocator.allocate(self.allowed & ~isolated, amounts.count(), Priority.NORMAL)
            except ValueError as error:
                raise amounts.refused(str(error), "reserve fewer") from None
        elif missing := reserved & ~self.allowed:
            raise amounts.refused(f"{masks.text(missing)} are not among the available CPUs", "leave them out")
        elif reserved & isolated and reserved.bit_count() > 1:
            reason = (
                f"{masks.text(reserved & isolated)} are isolated, and of such CPUs only one, alone, can be reserved"
            )
            raise amounts.refused(reason, "leave them out")
        if not reserved:
            raise amounts.refused("it is no CPU, and topology-aware cannot start without one", "write 1")
        return reserved

    # -- what is kept over a restart ----------------------------------------------------------------------------------

    def _entries(self, names: Iterable[str]) -> Entries:
        known, grants = self.containers, self.grants
        return {
            "containers": {name: ContainerState.of(known[name]) if name in known else None for name in names},
            "grants": {name: grants[name].written() if name in grants else None for name in names},
        }

    def _adopt(self, container: Container, state: GrantState) -> None:
        """Give a container what it had, if there is such a pool, with that much left; else nothing."""
        pool, kind = self.pools.by_name.get(state.pool), CpuKind(state.kind)
        exclusive, zone = masks.parse(state.exclusive), masks.parse(state.zone)
        if pool is None or exclusive & ~(pool.free_isolated | pool.free_sharable):
            return
        if zone & ~self.zones.with_memory and self.choices.memory_nodes_have_memory:
            return  # it is of another machine
        grant = Grant(container, pool, kind, exclusive, state.portion_m, zone, preserved=container.preserves("memory"))
        grant.idle, grant.cold = self._is_idle(grant), state.cold
        self._warm |= set() if state.cold else {container.id}
        try:
            self.zones.adopt(self._memory_of(grant), zone)
        except NoMemory:
            return
        pool.take(exclusive)
        self._enter(grant)
        self.containers[container.id] = container
        if unmet := self._unmet(container, exclusive > 0):
            self.unmet[container.id] = unmet
        if pool.is_overpromised() or (kind is CpuKind.RESERVED and not pool.reserved):
            self._take_back(container.id)
            del self.containers[container.id]

    def _memory_of(self, grant: Grant) -> MemoryRequest:
        """The request of the memory that a container has."""
        container = grant.container
        size = container.requests.memory_bytes or container.requests.memory_limit_bytes
        kinds = self.zones.kinds_of(grant.zone)
        return MemoryRequest(container.id, size, grant.zone, kinds, PRIORITIES[container.qos])

    # -- events -------------------------------------------------------------------------------------------------------

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container; the pins of all that change. Raises NoPlace."""
        if not self.choices.pod_class_is_known:
            container.hide_class()
        self._changes.touched[container.id] = None
        self.containers[container.id] = container
        try:
            try:
                self._place(container, "")
            except NoPlace:
                if not container.runs:
                    raise
                self._place(container, "", lenient=True)
        except NoPlace:
            del self.containers[container.id]
            raise
        return self._changes.take()

    def release(self, container_id: str) -> dict[str, Pins]:
        """Take back what a container has, if anything."""
        grant = self._take_back(container_id)
        if grant is not None:
            self._repin(grant)
        self._changes.forget(container_id)
        self.containers.pop(container_id, None)
        self._decisions.pop(container_id, None)
        self._warm.discard(container_id)
        self._cold_s.pop(container_id, None)
        self.unmet.pop(container_id, None)
        return self._changes.take()

    def resize(self, container_id: str, requests: Requests) -> dict[str, Pins]:
        """Place a container again with other requests, in its pool if that can be. Raises NoPlace."""
        container = self.containers.get(container_id)
        if container is None:
            return self._changes.take()
        self._changes.touched[container_id] = None
        before, container.requests = container.requests, requests
        if not container.resizes(before, requests, self.choices):
            self._changes.again(container_id, None if self.choices.equal_resizes_keep_shares else container.shares)
            return self._changes.take()
        old = self._take_back(container_id)
        if old is not None and not self.choices.failure_changes_nothing:
            self._repin(old)
        try:
            self._place(container, old.pool.name if old else "", lenient=container_id in self.unmet)
        except NoPlace:
            if self.choices.failure_changes_nothing:
                container.requests = before
                if old is not None:
                    self._restore(old)
            raise
        return self._changes.take()

    def cold_starts(self) -> dict[str, float]:
        """The containers that began without DRAM, and for how many seconds they are to be without it."""
        cold = {name: grant.container for name, grant in self.grants.items() if grant.cold}
        for name, container in cold.items():
            if name not in self._cold_s:
                try:
                    self._cold_s[name] = cold_start_s(container)
                except NoPlace as error:  # it has been written anew since
                    container.doubt("cold-start", error.reason)
                    self._cold_s[name] = 0.0
        return {name: self._cold_s[name] for name in cold}

    def warm(self, container_id: str) -> dict[str, Pins]:
        """Let a container have DRAM as well, at the end of its cold start; without enough of it it stays as it is."""
        grant = self.grants.get(container_id)
        if grant is not None and grant.cold:
            grant.cold = False
            self._changes.touched[container_id] = None
            self._warm.add(container_id)
            with suppress(NoMemory):
                grant.zone, moved = self.zones.widen(container_id, 0, DRAM)
                self._move({**moved, container_id: grant.zone})
        return self._changes.take()

    def scheduling(self, container: Container) -> SchedulingClass | None:
        """How a container's processes are scheduled: by its annotation, else by its namespace, else by its class."""
        default = self.options.scheduling_class(container.pod.namespace, container.qos)
        return named(container, self.options.schedulingClasses, default)

    def tuning(self) -> Tuning:
        """The class of shared, reserved and exclusive CPUs, and whose interrupts go where."""
        options = self.options
        classes = {options.sharedPoolCPUClass: self.allowed & ~self.reserved}

        def put(name: str, cpus: int) -> None:
            for each in classes:
                classes[each] &= ~cpus
            classes[name] = classes.get(name, 0) | cpus

        put(options.reservedPoolCPUClass or options.sharedPoolCPUClass, self.reserved)
        own = [grant for grant in self.grants.values() if grant.exclusive]
        for grant in own:
            default = options.defaultExclusiveCPUClass or options.sharedPoolCPUClass
            put(class_of(grant.container, options.cpuClasses, default), grant.exclusive)
        irq_affinities = [
            rule for grant in own if (rule := irq_affinity_of(grant.container, grant.exclusive)) is not None
        ]
        return Tuning({name: cpus for name, cpus in classes.items() if name and cpus}, irq_affinities)

    # -- placing ------------------------------------------------------------------------------------------------------

    def _place(self, container: Container, hinted: str, lenient: bool = False) -> None:
        """Give a container a grant. Raises NoPlace.

        With `lenient` annotations that cannot be met are noted in `unmet`, and do not refuse it.
        """
        request, candidates = self._looked_at(container, hinted)
        unmet = self._unmet(container, request.exclusive > 0)
        if unmet and not lenient:
            raise NoPlace(str(container), unmet)
        grant = self._first_that_serves(candidates, request, lenient)
        unmet = unmet or self._unmet_strictness(grant, request)
        self.unmet.pop(container.id, None)
        if unmet:
            self.unmet[container.id] = unmet
        self._decisions[container.id] = view.Decision(request, candidates[:MOST_CANDIDATES], len(candidates))
        self._enter(grant)
        self._pin(grant)
        self._repin(grant)

    def _looked_at(self, container: Container, hinted: str) -> tuple[Request, list[Score]]:
        """The request of a container, and the pools for it, the best first."""
        request = request_of(container, self.options, self.choices, self.zones)
        if request.cold and container.id in self._warm:
            request.cold, request.memory_kinds = False, (request.memory_kinds or 0) | DRAM
        root = self.pools.root
        if request.kind is CpuKind.RESERVED and not root.reserved:
            request.kind = CpuKind.NORMAL
        if request.kind is CpuKind.NORMAL:
            return request, self._candidates(request, hinted)
        score = Score.of(root, request, self.machine)
        self._offer(score, request)
        return request, [score]

    def _candidates(self, request: Request, hinted: str) -> list[Score]:
        weights = self._affinity(request.container)
        scores = []
        for pool in self.pools.by_id:
            self.in_time()
            score = Score.of(pool, request, self.machine)
            score.affinity = affinity_score(weights, pool) if weights else 0.0
            self._offer(score, request)
            scores.append(score)
        found = self._scoring(request).sort(scores)
        first = [score for score in found if score.pool.name == hinted]
        if not first:
            return found
        rest = [score for score in found if score not in first]
        return [*first, *rest] if self.choices.resize_can_move else first

    def _unmet(self, container: Container, own: bool) -> str:
        """Why an annotation for the own CPUs of a container cannot be met; "" if all can."""
        try:
            check_asked(container, own, self.options.cpuClasses, self._unmovable)
        except NoPlace as error:
            return error.reason
        return ""

    def _unmovable(self, patterns: Sequence[str]) -> str:
        controllable, choices = self.options.controllableInterrupts, self.choices
        return unmovable(self._devices.interrupts, controllable, choices.movable_interrupts_will_do, patterns)

    def _scoring(self, request: Request) -> Scoring:
        return Scoring(request, self.zones, self._burstable_level(request.container), self.choices)

    def _first_that_serves(self, candidates: list[Score], request: Request, lenient: bool) -> Grant:
        lacks = []
        for score in candidates if self.choices.next_pool_is_tried else candidates[:1]:
            try:
                return self._serve(score, request, lenient)
            except (NoMemory, NoPlace, ValueError) as error:
                score.lack = score.lack or (error.reason if isinstance(error, NoPlace) else str(error))
                lacks.append(f"{score.pool.name} lacks {score.lacks(request)}")
        raise NoPlace(str(request.container), "; ".join(lacks) or "there is no pool")

    def _offer(self, score: Score, request: Request) -> None:
        """Ask for memory of a pool; of the root, for what is left alone."""
        kinds = request.memory_kinds
        if kinds is None:
            nodes = self.pools.root.memory_of(ALL_KINDS)
            kinds = self.zones.kinds_of(nodes)
        else:
            nodes = score.pool.memory_of(kinds)
        wanted = MemoryRequest(
            request.container.id, request.memory_bytes, nodes, kinds, PRIORITIES[request.container.qos]
        )
        try:
            score.offer = self.zones.offer(wanted)
        except NoMemory as error:
            score.lack = f"memory ({error})"

    def _serve(self, score: Score, request: Request, lenient: bool) -> Grant:
        """Give a container what it asks of a pool. Raises NoMemory, NoPlace or ValueError, and then nothing changed."""
        pool, kind = score.pool, request.kind
        exclusive, shared_m = request.exclusive, request.shared_m
        if score.offer is None:
            raise NoMemory(score.lack)
        if kind is CpuKind.RESERVED and shared_m > 0 and pool.free_reserved_m() < shared_m:
            kind = CpuKind.NORMAL
        cpus = self._pick(pool, request, exclusive)
        pool.take(cpus)
        grant = Grant(request.container, pool, kind, cpus, shared_m, preserved=request.memory_kinds is None)
        grant.idle, grant.cold = self._is_idle(grant), request.cold
        try:
            if kind is CpuKind.NORMAL and shared_m > 0 and pool.free_shared_m() < shared_m:
                raise ValueError(f"{shared_m - pool.free_shared_m()}m shared CPU")
            if self.choices.idle_containers_have_a_cpu and (pool.starves() or (grant.idle and not pool.free_sharable)):
                raise ValueError("a shared CPU for containers that ask for none")
            grant.zone = score.offer.zone
            if not lenient and (unmet := self._unmet_strictness(grant, request)):
                raise ValueError(unmet)
            self._commit(grant, score.offer)
        except (NoMemory, ValueError):
            pool.give_back(cpus)
            raise
        return grant

    def _enter(self, grant: Grant) -> None:
        """Note a grant, whose exclusive CPUs and memory are taken already."""
        self.grants[grant.container.id] = grant
        _account(grant, 1)

    def _pick(self, pool: Pool, request: Request, count: int) -> int:
        """Whole CPUs of a pool: isolated ones if they are wanted and enough, else of those that are shared."""
        if request.isolated and pool.free_isolated.bit_count() >= count:
            return self._allocator.allocate(pool.free_isolated, count, request.priority)
        if not count and self.choices.idle_containers_fit:
            return 0
        free_m = pool.free_shared_m()
        if free_m < 1000 * count:
            raise ValueError(f"{1000 * count - free_m}m CPU for {count} exclusive CPUs")
        slices = pool.sliceable if self.choices.lower_pools_keep_their_shares else pool.sliceable_by_each
        sliceable = slices(self._allocator)
        return self._allocator.allocate(sliceable, count, request.priority) if count else 0

    def _unmet_strictness(self, grant: Grant, request: Request) -> str:
        """What strict hints, or a requirement of isolated CPUs, lack in a grant; "" if they are met."""
        strict = request.container.asks_flag("strict.topologyhints")
        for hint in request.container.hints.values() if strict is not None and strict[1] else ():
            cpus = grant.exclusive
            if grant.kind is CpuKind.RESERVED and request.shared_m:
                cpus |= grant.pool.reserved
            elif grant.kind is CpuKind.NORMAL and request.shared_m:
                cpus |= grant.pool.free_sharable
            zone = grant.zone if self.choices.strict_hints_bind_memory and not grant.preserved else 0
            for wanted_cpus, wanted_nodes in self._wanted(hint):
                if cpus & ~wanted_cpus or zone & ~wanted_nodes:
                    return f"CPUs {masks.text(wanted_cpus)}, which it strictly wants"
        if request.exclusive and request.isolated and request.only_isolated:
            missing = request.exclusive - (grant.exclusive & grant.pool.isolated).bit_count()
            if missing > 0:
                return f"{missing} isolated CPUs, which it requires"
        return ""

    def _wanted(self, hint: Hint) -> list[tuple[int, int]]:
        """CPUs and memory nodes that a hint allows."""
        found = []
        if hint.cpus:
            cpus = masks.parse(hint.cpus)
            found.append((cpus, self.machine.nodes_of(cpus)))
        if hint.nodes:
            nodes = masks.parse(hint.nodes)
            found.append((sum(self.machine.nodes.get(number, 0) for number in masks.members(nodes)), nodes))
        return [each for each in found if each[0]]

    def _commit(self, grant: Grant, offer: Offer) -> None:
        """Take memory, and move others; never one whose memory is left alone, for it has all nodes."""
        offer = self.zones.commit(offer)
        grant.zone = offer.zone
        self._move(offer.moved)

    def _move(self, moved: Mapping[str, int]) -> None:
        """Let others have the memory nodes to which they were moved."""
        for user, zone in moved.items():
            other = self.grants[user]
            other.zone = zone
            if self.options.pinMemory:
                self._changes.follow(user, mems=masks.text(zone))

    def _is_idle(self, grant: Grant) -> bool:
        if self.choices.idle_containers_have_a_cpu:
            return grant.shares and not grant.portion_m and self.pools.root.sharable > 0
        if grant.kind is CpuKind.RESERVED and grant.pool.reserved:
            return False
        qos = grant.container.qos
        return qos == "BestEffort" or (qos == "Burstable" and grant.container.requests.cpu_m == 0)

    # -- taking back --------------------------------------------------------------------------------------------------

    def _take_back(self, container_id: str) -> Grant | None:
        grant = self.grants.pop(container_id, None)
        if grant is not None:
            grant.pool.give_back(grant.exclusive)
            _account(grant, -1)
            self.zones.release(container_id)
        return grant

    def _restore(self, grant: Grant) -> None:
        """Give a container back exactly what it had."""
        grant.pool.take(grant.exclusive)
        self.zones.allocate(self._memory_of(grant))
        self._enter(grant)

    # -- pins ---------------------------------------------------------------------------------------------------------

    def _pin(self, grant: Grant) -> None:
        name, options = grant.container.id, self.options
        if options.pinCPU:
            if grant.kind is not CpuKind.PRESERVE:
                self._changes.set(name, cpus=self._cpus(grant))
            portion = grant.portion_m if grant.kind is not CpuKind.PRESERVE else 0
            millicpu = portion or 1000 * grant.exclusive.bit_count()
            self._changes.set(name, shares=shares_of_millicpu(millicpu))
        if not grant.preserved:
            self._changes.set(name, mems=masks.text(grant.zone) if options.pinMemory else "")

    def _cpus(self, grant: Grant) -> str:
        cpus = grant.exclusive | (grant.pool.free_sharable if grant.shares else 0)
        if grant.kind is CpuKind.RESERVED:
            cpus = grant.pool.reserved
        hide = grant.container.asks_flag("hide-hyperthreads")
        return masks.text(self.machine.one_thread_per_core(cpus) if hide is not None and hide[1] else cpus)

    def _repin(self, cause: Grant) -> None:
        """Pin all others that share to the CPUs that their pools have now."""
        if cause.kind is CpuKind.RESERVED or not self.options.pinCPU:
            return
        before, self._shared = self._shared, {pool.id: pool.free_sharable for pool in self.pools.by_id}
        changed = {number: masks.text(cpus) for number, cpus in self._shared.items() if cpus != before[number]}
        for name, grant in self.grants.items() if changed else ():
            if grant is not cause and grant.shares and grant.pool.id in changed:
                plain = not (grant.exclusive or grant.container.pod.asks)
                self._changes.follow(name, cpus=changed[grant.pool.id] if plain else self._cpus(grant))

    # -- how it shows itself ------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        """All pools, from the root down."""
        return view.places(self.pools, self.zones, self.grants)

    def node_zones(self) -> list[dict[str, Any]]:
        """One zone of the node's NodeResourceTopology for each pool; containers have none, as in the original."""
        return view.node_zones(self.pools, self.zones)

    def gauges(self) -> Iterator[Gauge]:
        """The measurements of all pools, under the original's names."""
        shared = {name for name, grant in self.grants.items() if grant.portion_m}
        return view.gauges(self.pools, self.zones, self.places(), shared)

    def explain(self, container_id: str) -> Explanation:
        """Why a container is where it is. KeyError for one that is not known.

        One that was taken over from an earlier policy is compared now, with all others where they are.
        """
        container, grant = self.containers[container_id], self.grants[container_id]
        known = self._decisions.get(container_id)
        decision = known or self._as_if_it_came_now(container)
        scoring = self._scoring(decision.request)
        return view.explanation(container, grant.pool, decision, scoring, then=known is not None)

    def _as_if_it_came_now(self, container: Container) -> view.Decision:
        grants, zones = dict(self.grants), self.zones.saved()
        grant = self._take_back(container.id)
        try:
            request, candidates = self._looked_at(container, "")
        finally:
            if grant is not None:
                grant.pool.take(grant.exclusive)
                _account(grant, 1)
            self.grants = grants
            self.zones.restore(zones)
        return view.Decision(request, candidates[:MOST_CANDIDATES], len(candidates))

    # -- affinity and levels ------------------------------------------------------------------------------------------

    def _affinity(self, container: Container) -> dict[int, int]:
        """The weight of each pool, by the containers there that this one would be near to, or far from."""
        wanted = affinities(container, self.choices)
        if not wanted:
            wanted = self._implicit(container)
        weights: dict[int, int] = {}
        for affinity in wanted:
            for name, grant in self.grants.items():
                if name != container.id and affinity.holds(grant.container):
                    weights[grant.pool.id] = weights.get(grant.pool.id, 0) + affinity.weight
        return weights

    def _implicit(self, container: Container) -> list[Affinity]:
        found = []
        if self.options.colocatePods:
            found.append(Affinity.to_pod(container.pod.name))
        if self.options.colocateNamespaces:
            found.append(Affinity.to_namespace(container.pod.namespace))
        return found

    def _burstable_level(self, container: Container) -> str:
        found = container.asks("unlimited-burstable")
        if found is None:
            return self.level
        try:
            return self.pools.existing_level(found[1])
        except ValueError:
            words = f"{shown(found[1])} is no level: system, package, die, numa or l3cache"
            container.doubt("unlimited-burstable", words)
            return self.level


def _account(grant: Grant, sign: int) -> None:
    """Add a grant to the sums of its pool, or take it out."""
    pool, portion_m = grant.pool, sign * grant.portion_m
    shared_m = portion_m if grant.kind is CpuKind.NORMAL else 0
    pool.promise(shared_m, portion_m if grant.kind is CpuKind.RESERVED else 0, sign * grant.idle)
    pool.tenants[grant.kind] = pool.tenants.get(grant.kind, 0) + sign
