"""The policy topology-aware: choose a grant for each container, and the pins of all containers that share its CPUs."""

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
from nri.placement.containers import Changes, Container, Hint, NoPlace, Pins, no_deadline, quoted
from nri.placement.machine import Machine, Priority
from nri.placement.policy import MAX_CANDIDATES, NO_DEVICES, Devices, Explanation, Gauge, Place
from nri.placement.scheduling import SchedulingClass, scheduling_class_of
from nri.placement.state import ContainerState, Entries, GrantState, PersistentPolicy, PlacementState
from nri.placement.topology_aware import view
from nri.placement.topology_aware.options import ANNOTATIONS, IGNORED_ANNOTATIONS, Options, PluginOptions
from nri.placement.topology_aware.pools import Pool, Pools
from nri.placement.topology_aware.requests import CpuKind, Request, cold_start_s, request_of
from nri.placement.topology_aware.scoring import Score, Scoring, affinity_score
from nri.placement.tuning import Tuning, check_annotations, class_of, irq_affinity_of, unmovable
from nri.placement.zones import ALL_KINDS, DRAM, PRIORITIES, MemoryZones, NoMemory, Offer
from nri.placement.zones import Request as MemoryRequest

_NO_CONTAINERS: Mapping[str, Container] = MappingProxyType({})


@dataclass(slots=True)
class Grant:
    """The placement of a container.

    Attributes:
        exclusive: the mask of its exclusive CPUs.
        portion_m: its share of the pool's CPUs, in thousandths of CPUs.
        zone: the mask of its memory nodes.
        idle: whether it was not promised any CPU.
        preserved: whether its memory nodes are not changed.
        cold: whether it gets DRAM later, at the end of its cold start.
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
        """Whether its CPUs change with the CPUs of its pool."""
        return self.kind is CpuKind.NORMAL and (self.portion_m > 0 or not self.exclusive)

    def written(self) -> GrantState:
        """The grant for the state file."""
        cpus, zone = masks.text(self.exclusive), masks.text(self.zone)
        return GrantState(self.pool.name, self.kind.value, cpus, self.portion_m, zone, self.cold)


class TopologyAware(PersistentPolicy):
    """The policy topology-aware. Raises ValueError if the options do not fit the machine.

    Args:
        state: the placements of an earlier policy, restored for these containers where possible, the oldest first.

    Attributes:
        in_time: called during each decision; if it raises NoPlace, the decision is undone.
    """

    name = "topology-aware"
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
        #: The cold start of other containers in seconds, cached because it is read every second.
        self._cold_s: dict[str, float] = {}
        self._changes = Changes()
        self.in_time: Callable[[], None] = no_deadline
        grants = {} if state is None else state.grants
        restorable = [(container, grants[name]) for name, container in containers.items() if name in grants]
        # Containers without promised CPU come last, because they use the CPUs that other containers leave.
        for container, saved in sorted(restorable, key=lambda pair: not (pair[1].exclusive or pair[1].portion_m)):
            self._restore_grant(container, saved)
        self.containers = {name: container for name, container in containers.items() if name in self.containers}
        for grant in self.grants.values():
            self._pin(grant)
        self._changes.take()  # the caller reads all pins
        #: The shared CPUs of each pool that its containers are pinned to.
        self._shared = {pool.id: pool.free_sharable for pool in self.pools.by_id}

    def _reserve(self) -> int:
        amounts, isolated = self.options.reservedResources, self.machine.isolated & self.allowed
        if amounts.cpu is None:
            raise WrongValue(("reservedResources", "cpu"), "missing; topology-aware requires it", "write 1")
        reserved = amounts.set_of(self.allowed)
        if reserved is None:
            try:
                reserved = self._allocator.allocate(self.allowed & ~isolated, amounts.count(), Priority.NORMAL)
            except ValueError as error:
                raise amounts.refused(str(error), "reserve fewer") from None
        elif missing := reserved & ~self.allowed:
            raise amounts.refused(f"{masks.text(missing)} are not among the available CPUs", "remove them")
        elif reserved & isolated and reserved.bit_count() > 1:
            reason = f"{masks.text(reserved & isolated)} are isolated; only a single isolated CPU can be reserved"
            raise amounts.refused(reason, "remove them")
        if not reserved:
            raise amounts.refused("topology-aware requires at least one reserved CPU", "write 1")
        return reserved

    # -- state --------------------------------------------------------------------------------------------------------

    def _entries(self, names: Iterable[str]) -> Entries:
        containers, grants = self.containers, self.grants
        return {
            "containers": {n: ContainerState.of(containers[n]) if n in containers else None for n in names},
            "grants": {name: grants[name].written() if name in grants else None for name in names},
        }

    def _restore_grant(self, container: Container, state: GrantState) -> None:
        """Restore a container's grant, if its pool exists and has enough free resources."""
        pool, kind = self.pools.by_name.get(state.pool), CpuKind(state.kind)
        exclusive, zone = masks.parse(state.exclusive), masks.parse(state.zone)
        if pool is None or exclusive & ~(pool.free_isolated | pool.free_sharable):
            return
        if zone & ~self.zones.with_memory and self.choices.memory_nodes_have_memory:
            return  # the state is from another machine
        grant = Grant(container, pool, kind, exclusive, state.portion_m, zone, preserved=container.preserves("memory"))
        grant.idle, grant.cold = self._is_idle(grant), state.cold
        self._warm |= set() if state.cold else {container.id}
        try:
            self.zones.adopt(self._memory_of(grant), zone)
        except NoMemory:
            return
        pool.take(exclusive)
        self._record_grant(grant)
        self.containers[container.id] = container
        if unmet := self._unmet_annotation(container, exclusive > 0):
            self.unmet[container.id] = unmet
        if pool.is_overpromised() or (kind is CpuKind.RESERVED and not pool.reserved):
            self._take_back(container.id)
            del self.containers[container.id]

    def _memory_of(self, grant: Grant) -> MemoryRequest:
        """The request for the memory that a container already has."""
        container = grant.container
        size = container.requests.memory_bytes or container.requests.memory_limit_bytes
        kinds = self.zones.kinds_of(grant.zone)
        return MemoryRequest(container.id, size, grant.zone, kinds, PRIORITIES[container.qos])

    # -- events -------------------------------------------------------------------------------------------------------

    def create(self, container: Container) -> dict[str, Pins]:
        """Place a container. Returns the pins of all containers that change. Raises NoPlace if no pool fits."""
        if not self.choices.pod_class_is_known:
            container.hide_class()
        self._changes.touched[container.id] = None
        self.containers[container.id] = container
        try:
            try:
                self._place_container(container, "")
            except NoPlace:
                if not container.runs:
                    raise
                self._place_container(container, "", lenient=True)
        except NoPlace:
            del self.containers[container.id]
            raise
        return self._changes.take()

    def release(self, container_id: str) -> dict[str, Pins]:
        """Release a container, if it is known. Returns the pins of all containers that change."""
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
        """Place a container again with other requests, in its pool if possible. Raises NoPlace if no pool fits."""
        container = self.containers.get(container_id)
        if container is None:
            return self._changes.take()
        self._changes.touched[container_id] = None
        before, container.requests = container.requests, requests
        if not container.resizes(before, requests, self.choices):
            self._changes.repeat(container_id, None if self.choices.equal_resizes_keep_shares else container.shares)
            return self._changes.take()
        old = self._take_back(container_id)
        if old is not None and not self.choices.failure_changes_nothing:
            self._repin(old)
        try:
            self._place_container(container, old.pool.name if old else "", lenient=container_id in self.unmet)
        except NoPlace:
            if self.choices.failure_changes_nothing:
                container.requests = before
                if old is not None:
                    self._restore(old)
            raise
        return self._changes.take()

    def cold_starts(self) -> dict[str, float]:
        """The duration in seconds of the cold start of each container that started without DRAM."""
        cold = {name: grant.container for name, grant in self.grants.items() if grant.cold}
        for name, container in cold.items():
            if name not in self._cold_s:
                try:
                    self._cold_s[name] = cold_start_s(container)
                except NoPlace as error:  # the annotation has changed since the placement
                    container.doubt("cold-start", error.reason)
                    self._cold_s[name] = 0.0
        return {name: self._cold_s[name] for name in cold}

    def warm(self, container_id: str) -> dict[str, Pins]:
        """Add DRAM to a container's memory at the end of its cold start, if there is enough."""
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
        """The scheduling class in a container's annotation, else of its namespace, else of its QoS class."""
        default = self.options.scheduling_class(container.pod.namespace, container.qos)
        return scheduling_class_of(container, self.options.schedulingClasses, default)

    def tuning(self) -> Tuning:
        """The classes of shared, reserved and exclusive CPUs, and the interrupts that containers claim or avoid."""
        options = self.options
        classes = {options.sharedPoolCPUClass: self.allowed & ~self.reserved}

        def put(name: str, cpus: int) -> None:
            for other in classes:
                classes[other] &= ~cpus
            classes[name] = classes.get(name, 0) | cpus

        put(options.reservedPoolCPUClass or options.sharedPoolCPUClass, self.reserved)
        exclusive_grants = [grant for grant in self.grants.values() if grant.exclusive]
        for grant in exclusive_grants:
            default = options.defaultExclusiveCPUClass or options.sharedPoolCPUClass
            put(class_of(grant.container, options.cpuClasses, default), grant.exclusive)
        irq_affinities = [
            rule
            for grant in exclusive_grants
            if (rule := irq_affinity_of(grant.container, grant.exclusive)) is not None
        ]
        return Tuning({name: cpus for name, cpus in classes.items() if name and cpus}, irq_affinities)

    # -- placing ------------------------------------------------------------------------------------------------------

    def _place_container(self, container: Container, hinted: str, lenient: bool = False) -> None:
        """Give a container a grant. Raises NoPlace if no pool fits.

        Args:
            hinted: the name of the preferred pool, or "".
            lenient: record annotations that cannot be satisfied in `unmet` instead of refusing the container.
        """
        request, candidates = self._ranked_pools(container, hinted)
        unmet = self._unmet_annotation(container, request.exclusive > 0)
        if unmet and not lenient:
            raise NoPlace(str(container), unmet)
        grant = self._first_that_serves(candidates, request, lenient)
        unmet = unmet or self._unmet_strictness(grant, request)
        self.unmet.pop(container.id, None)
        if unmet:
            self.unmet[container.id] = unmet
        self._decisions[container.id] = view.Decision(request, candidates[:MAX_CANDIDATES], len(candidates))
        self._record_grant(grant)
        self._pin(grant)
        self._repin(grant)

    def _ranked_pools(self, container: Container, hinted: str) -> tuple[Request, list[Score]]:
        """The request of a container, and the scores of the pools for it, the best first."""
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
        ranked = self._scoring(request).sort(scores)
        first = [score for score in ranked if score.pool.name == hinted]
        if not first:
            return ranked
        rest = [score for score in ranked if score not in first]
        return [*first, *rest] if self.choices.resize_can_move else first

    def _unmet_annotation(self, container: Container, has_exclusive: bool) -> str:
        """Why an annotation about exclusive CPUs cannot be satisfied. Returns "" if all annotations can be."""
        try:
            check_annotations(container, has_exclusive, self.options.cpuClasses, self._unmovable)
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
        raise NoPlace(str(request.container), "; ".join(lacks) or "no pool found")

    def _offer(self, score: Score, request: Request) -> None:
        """Store an offer of the pool's memory in a score, or of the root's memory for an unpinned container."""
        kinds = request.memory_kinds
        if kinds is None:
            nodes = self.pools.root.memory_of(ALL_KINDS)
            kinds = self.zones.kinds_of(nodes)
        else:
            nodes = score.pool.memory_of(kinds)
        memory_request = MemoryRequest(
            request.container.id, request.memory_bytes, nodes, kinds, PRIORITIES[request.container.qos]
        )
        try:
            score.offer = self.zones.offer(memory_request)
        except NoMemory as error:
            score.lack = f"memory ({error})"

    def _serve(self, score: Score, request: Request, lenient: bool) -> Grant:
        """Allocate a request from a pool. Raises NoMemory, NoPlace or ValueError, and then changes nothing."""
        pool, kind = score.pool, request.kind
        exclusive, shared_m = request.exclusive, request.shared_m
        if score.offer is None:
            raise NoMemory(score.lack)
        if kind is CpuKind.RESERVED and shared_m > 0 and pool.free_reserved_m() < shared_m:
            kind = CpuKind.NORMAL
        cpus = self._pick_exclusive_cpus(pool, request, exclusive)
        pool.take(cpus)
        grant = Grant(request.container, pool, kind, cpus, shared_m, preserved=request.memory_kinds is None)
        grant.idle, grant.cold = self._is_idle(grant), request.cold
        try:
            if kind is CpuKind.NORMAL and shared_m > 0 and pool.free_shared_m() < shared_m:
                raise ValueError(f"{shared_m - pool.free_shared_m()}m shared CPU")
            if self.choices.idle_containers_have_a_cpu and (pool.starves() or (grant.idle and not pool.free_sharable)):
                raise ValueError("a shared CPU for containers without a CPU request")
            grant.zone = score.offer.zone
            if not lenient and (unmet := self._unmet_strictness(grant, request)):
                raise ValueError(unmet)
            self._commit(grant, score.offer)
        except (NoMemory, ValueError):
            pool.give_back(cpus)
            raise
        return grant

    def _record_grant(self, grant: Grant) -> None:
        """Record a grant whose exclusive CPUs and memory are already allocated."""
        self.grants[grant.container.id] = grant
        _account(grant, 1)

    def _pick_exclusive_cpus(self, pool: Pool, request: Request, count: int) -> int:
        """Choose exclusive CPUs of a pool: isolated CPUs if preferred and enough, else shared CPUs."""
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
        """The CPUs that a grant lacks for strict hints or required isolated CPUs. Returns "" if it lacks none."""
        strict = request.container.scoped_flag("strict.topologyhints")
        for hint in request.container.hints.values() if strict is not None and strict[1] else ():
            cpus = grant.exclusive
            if grant.kind is CpuKind.RESERVED and request.shared_m:
                cpus |= grant.pool.reserved
            elif grant.kind is CpuKind.NORMAL and request.shared_m:
                cpus |= grant.pool.free_sharable
            zone = grant.zone if self.choices.strict_hints_bind_memory and not grant.preserved else 0
            for hinted_cpus, hinted_nodes in self._hinted_places(hint):
                if cpus & ~hinted_cpus or zone & ~hinted_nodes:
                    return f"CPUs {masks.text(hinted_cpus)}, which its strict hints require"
        if request.exclusive and request.isolated and request.only_isolated:
            missing = request.exclusive - (grant.exclusive & grant.pool.isolated).bit_count()
            if missing > 0:
                return f"{missing} isolated CPUs, which it requires"
        return ""

    def _hinted_places(self, hint: Hint) -> list[tuple[int, int]]:
        """Pairs of CPUs and memory nodes that a hint allows."""
        pairs = []
        if hint.cpus:
            cpus = masks.parse(hint.cpus)
            pairs.append((cpus, self.machine.nodes_of(cpus)))
        if hint.nodes:
            nodes = masks.parse(hint.nodes)
            pairs.append((sum(self.machine.nodes.get(number, 0) for number in masks.members(nodes)), nodes))
        return [(cpus, nodes) for cpus, nodes in pairs if cpus]

    def _commit(self, grant: Grant, offer: Offer) -> None:
        """Allocate memory, and move other containers. Containers with preserved memory have all nodes and stay."""
        offer = self.zones.commit(offer)
        grant.zone = offer.zone
        self._move(offer.moved)

    def _move(self, moved: Mapping[str, int]) -> None:
        """Pin other containers to the memory nodes to which they were moved."""
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

    # -- release ------------------------------------------------------------------------------------------------------

    def _take_back(self, container_id: str) -> Grant | None:
        grant = self.grants.pop(container_id, None)
        if grant is not None:
            grant.pool.give_back(grant.exclusive)
            _account(grant, -1)
            self.zones.release(container_id)
        return grant

    def _restore(self, grant: Grant) -> None:
        """Allocate a released grant again, exactly as it was."""
        grant.pool.take(grant.exclusive)
        self.zones.allocate(self._memory_of(grant))
        self._record_grant(grant)

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
        hide = grant.container.scoped_flag("hide-hyperthreads")
        return masks.text(self.machine.one_thread_per_core(cpus) if hide is not None and hide[1] else cpus)

    def _repin(self, cause: Grant) -> None:
        """Pin all other sharing containers to the current shared CPUs of their pools."""
        if cause.kind is CpuKind.RESERVED or not self.options.pinCPU:
            return
        before, self._shared = self._shared, {pool.id: pool.free_sharable for pool in self.pools.by_id}
        changed = {number: masks.text(cpus) for number, cpus in self._shared.items() if cpus != before[number]}
        for name, grant in self.grants.items() if changed else ():
            if grant is not cause and grant.shares and grant.pool.id in changed:
                plain = not (grant.exclusive or grant.container.pod.policy_annotations)
                self._changes.follow(name, cpus=changed[grant.pool.id] if plain else self._cpus(grant))

    # -- reports ------------------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        """All pools, from the root down."""
        return view.places(self.pools, self.zones, self.grants)

    def node_zones(self) -> list[dict[str, Any]]:
        """A zone of the node's NodeResourceTopology for each pool. As in nri-plugins, containers have no zones."""
        return view.node_zones(self.pools, self.zones)

    def gauges(self) -> Iterator[Gauge]:
        """The measurements of all pools, with the metric names of nri-plugins."""
        shared = {name for name, grant in self.grants.items() if grant.portion_m}
        return view.gauges(self.pools, self.zones, self.places(), shared)

    def explain(self, container_id: str) -> Explanation:
        """Explain the choice of a container's pool. Raises KeyError if the container is unknown.

        If an earlier policy has placed the container, the pools are compared now.
        """
        container, grant = self.containers[container_id], self.grants[container_id]
        saved = self._decisions.get(container_id)
        decision = saved or self._current_decision(container)
        scoring = self._scoring(decision.request)
        return view.explanation(container, grant.pool, decision, scoring, then=saved is not None)

    def _current_decision(self, container: Container) -> view.Decision:
        grants, zones = dict(self.grants), self.zones.saved()
        grant = self._take_back(container.id)
        try:
            request, candidates = self._ranked_pools(container, "")
        finally:
            if grant is not None:
                grant.pool.take(grant.exclusive)
                _account(grant, 1)
            self.grants = grants
            self.zones.restore(zones)
        return view.Decision(request, candidates[:MAX_CANDIDATES], len(candidates))

    # -- affinity and levels ------------------------------------------------------------------------------------------

    def _affinity(self, container: Container) -> dict[int, int]:
        """The weights of pools with containers that this container should be near to, or far from."""
        container_affinities = affinities(container, self.choices) or self._implicit_affinities(container)
        weights: dict[int, int] = {}
        for affinity in container_affinities:
            for name, grant in self.grants.items():
                if name != container.id and affinity.holds(grant.container):
                    weights[grant.pool.id] = weights.get(grant.pool.id, 0) + affinity.weight
        return weights

    def _implicit_affinities(self, container: Container) -> list[Affinity]:
        implicit = []
        if self.options.colocatePods:
            implicit.append(Affinity.to_pod(container.pod.name))
        if self.options.colocateNamespaces:
            implicit.append(Affinity.to_namespace(container.pod.namespace))
        return implicit

    def _burstable_level(self, container: Container) -> str:
        annotation = container.scoped_annotation("unlimited-burstable")
        if annotation is None:
            return self.level
        try:
            return self.pools.existing_level(annotation[1])
        except ValueError:
            problem = f"{quoted(annotation[1])} is not a level; write system, package, die, numa or l3cache"
            container.doubt("unlimited-burstable", problem)
            return self.level


def _account(grant: Grant, sign: int) -> None:
    """Add a grant to the sums of its pool (`sign` 1), or subtract it (-1)."""
    pool, portion_m = grant.pool, sign * grant.portion_m
    shared_m = portion_m if grant.kind is CpuKind.NORMAL else 0
    pool.promise(shared_m, portion_m if grant.kind is CpuKind.RESERVED else 0, sign * grant.idle)
    pool.tenants[grant.kind] = pool.tenants.get(grant.kind, 0) + sign
