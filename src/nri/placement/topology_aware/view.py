"""Reports of topology-aware: pools as places, explanations, zones of the node, and the metrics of nri-plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nri.placement import masks
from nri.placement.containers import Container
from nri.placement.node_resource_topology import cpu_resource, memory_resource, node_zone
from nri.placement.policy import Candidate, Explanation, Gauge, Place
from nri.placement.topology_aware.pools import Pool, Pools
from nri.placement.topology_aware.requests import CpuKind, Request
from nri.placement.topology_aware.scoring import Score, Scoring
from nri.placement.zones import ALL_KINDS, MemoryZones
from nri.text import count, size

#: The names of pool levels in a NodeResourceTopology.
_ZONE_TYPES = {"system": "virtual node", "package": "socket", "die": "die", "numa": "numa node", "l3cache": "L3 cache"}


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a container: its request, the best candidates in order, and the number of all candidates."""

    request: Request
    candidates: list[Score]
    count: int


class Granted(Protocol):
    """The attributes of a grant that this module reads."""

    pool: Pool


def places(pools: Pools, zones: MemoryZones, grants: Mapping[str, Granted]) -> list[Place]:
    """All pools, from the root down."""
    members: dict[int, list[str]] = {}
    for name, grant in grants.items():
        members.setdefault(grant.pool.id, []).append(name)
    pool_places = []
    for pool in pools.root.below():
        mems = pool.memory_of(ALL_KINDS)
        cpus = pool.isolated | pool.reserved | pool.sharable
        pool_places.append(
            Place(
                pool.name,
                pool.level,
                pool.depth,
                cpus,
                pool.free_sharable,
                mems,
                pool.free_shared_m() + 1000 * pool.free_isolated.bit_count(),
                zones.capacity(mems),
                zones.free(mems),
                tuple(members.get(pool.id, ())),
            )
        )
    return pool_places


def node_zones(pools: Pools, zones: MemoryZones) -> list[dict[str, Any]]:
    """The zones of all pools, leaves first as in nri-plugins.

    Isolated CPUs are not part of the capacity, because only exclusive requests can have them.
    """
    return [_node_zone(pool, zones) for pool in pools.by_id]


def _node_zone(pool: Pool, zones: MemoryZones) -> dict[str, Any]:
    mems = pool.memory_of(ALL_KINDS)
    capacity_m = 1000 * (pool.sharable | pool.reserved).bit_count()
    attributes = {"memory set": mems, "shared cpuset": pool.free_sharable}
    if pool.reserved:
        attributes["reserved cpuset"] = pool.reserved
    if pool.free_isolated:  # lists all isolated CPUs, including used ones
        attributes["isolated cpuset"] = pool.isolated
    resources = [
        memory_resource(zones.capacity(mems), zones.free(mems)),
        cpu_resource(capacity_m, capacity_m, pool.free_shared_m()),
    ]
    parent = "" if pool.parent is None else pool.parent.name
    return node_zone(pool.name, _ZONE_TYPES[pool.level], resources, attributes, parent)


def explanation(container: Container, pool: Pool, decision: Decision, scoring: Scoring, *, then: bool) -> Explanation:
    """Explain why a container is in its pool.

    Args:
        then: whether `decision` is the decision of the placement; otherwise pools are compared now.
    """
    request = decision.request
    chosen = next((score for score in decision.candidates if score.pool is pool), decision.candidates[0])
    candidates = []
    for score in decision.candidates:
        if score is chosen:
            candidates.append(Candidate(pool.name, _summary(score, request)))
            continue
        result, name = scoring.compare(chosen, score)
        if result > 0:
            change = _CHANGES[name](score, chosen, request)
            candidates.append(Candidate(score.pool.name, _summary(score, request), name, change))
        elif then and (lack := score.lacks(request)):
            lost = f"could not serve it: {lack}"
            candidates.append(Candidate(score.pool.name, _summary(score, request), lost, "enough free resources"))
        else:  # this pool is better
            lost = "the container still fits in its pool" if then else f"better now: {name}"
            candidates.append(Candidate(score.pool.name, _summary(score, request), lost, "create the container again"))
    text = _request_text(request, any(score.pool.isolated for score in decision.candidates))
    return Explanation(container, text, pool.name, then, candidates, decision.count - len(candidates))


def _request_text(request: Request, some_are_isolated: bool) -> str:
    if request.kind is CpuKind.PRESERVE:
        return f"{request.container.qos}, its CPUs are preserved"
    parts = []
    if request.exclusive:
        isolated = "isolated " if request.isolated and (request.only_isolated or some_are_isolated) else ""
        parts.append(f"{count(request.exclusive, f'exclusive {isolated}CPU')}")
    if request.shared_m or not request.exclusive:
        parts.append(f"{request.shared_m}m of {'reserved' if request.kind is CpuKind.RESERVED else 'shared'} CPUs")
    parts.append(
        "its memory is preserved" if request.memory_kinds is None else f"{size(request.memory_bytes)} of memory"
    )
    return f"{request.container.qos}, " + ", ".join(parts)


def _summary(score: Score, request: Request) -> str:
    """The numbers of a score that matter for a request, in words."""
    if request.kind is CpuKind.RESERVED:
        parts = [f"{score.reserved_m}m reserved left"]
    else:
        parts = [f"{score.free_m}m free", f"{score.shared_m}m left"]
    parts += [f"{score.isolated} isolated left"] if request.isolated and score.pool.isolated else []
    parts += [f"affinity {score.affinity:g}"] if score.affinity else []
    parts += ["hints " + " ".join(f"{hint_score:.2f}" for hint_score in score.hints)] if score.hints else []
    parts.append(count(score.tenants, "container"))
    parts.append("no memory" if score.offer is None else f"memory {masks.text(score.offer.zone)}")
    return ", ".join(parts)


def _level(score: Score, _: Score, request: Request) -> str:
    if request.limit_m is None:
        return f"annotation unlimited-burstable: {score.pool.level}, or more free CPU in it"
    return f"a CPU limit of at most {max(score.free_m, 0)}m"


def _free(_: Score, chosen: Score, request: Request) -> str:
    if request.exclusive or request.isolated:
        return f"more free CPU than the {chosen.shared_m}m left in {chosen.pool.name}"
    return f"fewer containers than the {chosen.tenants} in {chosen.pool.name}, or as many and more free CPU"


def _missing(score: Score, request: Request) -> str:
    if request.kind is CpuKind.NORMAL and score.shared_m >= 0:  # the pool lost because of isolated CPUs
        return count(-score.isolated, "isolated CPU")
    return score.lacks(request)


#: The change after which a place would win, by the comparison that it lost.
_CHANGES: Mapping[str, Callable[[Score, Score, Request], str]] = {
    "enough CPU": lambda score, _, request: f"{_missing(score, request)} more, or a smaller request",
    "affinity": lambda score, chosen, _: f"an affinity above {chosen.affinity:g} for it; it has {score.affinity:g}",
    "hints": lambda *_: "devices that are nearer to it",
    "memory offer": lambda score, *_: f"{score.lack or 'memory'} free in it",
    "kinds of memory offered": lambda *_: "annotation memory-type with the kinds that it has free",
    "memory up to the limit": lambda *_: "a memory limit that fits in it",
    "CPU up to the limit": _level,
    "fewer memory nodes": lambda *_: "a memory request that fits in fewer nodes",
    "kinds of memory": lambda *_: "annotation memory-type with the kinds that it has",
    "CPUs of the priority": lambda *_: "free CPUs of that priority, or another prefer-cpu-priority",
    "deeper pool": lambda _, chosen, __: f"a request that does not fit in {chosen.pool.name}",
    "more reserved CPU for each container": lambda *_: "more reserved CPU",
    "more free CPU": _free,
    "lower number": lambda *_: "any difference: both are equal, and the lower number was chosen",
}


def gauges(pools: Pools, zones: MemoryZones, pool_places: list[Place], shared: set[str]) -> Iterator[Gauge]:
    """The measurements of all pools.

    Args:
        shared: the containers that share CPUs, including reserved CPUs.
    """
    for place in pool_places:
        pool = pools.by_name[place.name]
        zone, mems = {"zone": place.name}, masks.text(place.mems)
        by_nodes, by_mems = {**zone, "mems": f"nodes{{{mems}}}"}, {**zone, "mems": mems}
        sharing = len(shared.intersection(place.containers))
        rows: list[tuple[str, str, dict[str, str], float]] = [
            ("cpu_capacity_cores", "CPUs", {**by_nodes, "cpus": masks.text(place.cpus)}, place.cpus.bit_count()),
            ("cpu_shared_capacity_cores", "CPUs that containers share", zone, place.shared.bit_count()),
            ("cpu_shared_assigned_cores", "shared CPUs promised", zone, pool.shared_m / 1000),
            ("cpu_shared_available_cores", "free shared CPUs", zone, pool.free_shared_m() / 1000),
            ("mem_capacity_bytes", "bytes of memory", by_nodes, place.memory_bytes),
            ("mem_assigned_bytes", "promised bytes of memory", by_mems, zones.used(place.mems)),
            ("mem_available_bytes", "free bytes of memory", by_mems, place.memory_free_bytes),
            ("container_count", "containers", zone, len(place.containers)),
            ("shared_container_count", "containers that share CPUs", zone, sharing),
        ]
        for name, words, labels, value in rows:
            yield Gauge(f"nri_policy_topologyaware_zone_{name}", f"Of each pool: {words}.", labels, value)
