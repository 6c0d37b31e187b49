"""How topology-aware shows itself: its pools as places, why a container got its pool, and the original's gauges.

One job: values for people, of what the policy has. Rules: pure; reads only. Next: `nri.placement.policy`.
"""

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

__all__ = ["Decision", "explanation", "gauges", "node_zones", "places"]

#: What a NodeResourceTopology calls the levels of pools.
_ZONE_TYPES = {"system": "virtual node", "package": "socket", "die": "die", "numa": "numa node", "l3cache": "L3 cache"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A placing as it was decided: the request, the best candidates with the best first, and how many there were."""

    request: Request
    candidates: list[Score]
    count: int


class Granted(Protocol):
    """Of a grant, where it is."""

    pool: Pool


def places(pools: Pools, zones: MemoryZones, grants: Mapping[str, Granted]) -> list[Place]:
    """All pools, from the root down."""
    members: dict[int, list[str]] = {}
    for name, grant in grants.items():
        members.setdefault(grant.pool.id, []).append(name)
    found = []
    for pool in pools.root.below():
        mems = pool.memory_of(ALL_KINDS)
        cpus = pool.isolated | pool.reserved | pool.sharable
        found.append(
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
    return found


def node_zones(pools: Pools, zones: MemoryZones) -> list[dict[str, Any]]:
    """One zone for each pool, the leaves first, as the original exports them.

    Isolated CPUs are neither in the capacity nor available: only exclusive requests can have them.
    """
    return [_node_zone(pool, zones) for pool in pools.by_id]


def _node_zone(pool: Pool, zones: MemoryZones) -> dict[str, Any]:
    mems = pool.memory_of(ALL_KINDS)
    capacity_m = 1000 * (pool.sharable | pool.reserved).bit_count()
    attributes = {"memory set": mems, "shared cpuset": pool.free_sharable}
    if pool.reserved:
        attributes["reserved cpuset"] = pool.reserved
    if pool.free_isolated:  # then all of them, those in use included
        attributes["isolated cpuset"] = pool.isolated
    resources = [
        memory_resource(zones.capacity(mems), zones.free(mems)),
        cpu_resource(capacity_m, capacity_m, pool.free_shared_m()),
    ]
    parent = "" if pool.parent is None else pool.parent.name
    return node_zone(pool.name, _ZONE_TYPES[pool.level], resources, attributes, parent)


def explanation(container: Container, pool: Pool, decision: Decision, scoring: Scoring, *, then: bool) -> Explanation:
    """Why a container is in a pool, or would be in another one if it came now."""
    request = decision.request
    chosen = next((score for score in decision.candidates if score.pool is pool), decision.candidates[0])
    candidates = []
    for score in decision.candidates:
        if score is chosen:
            candidates.append(Candidate(pool.name, _has(score, request)))
            continue
        result, name = scoring.compare(chosen, score)
        if result > 0:
            change = _CHANGES[name](score, chosen, request)
            candidates.append(Candidate(score.pool.name, _has(score, request), name, change))
        elif then and (lack := score.lacks(request)):
            lost = f"could not serve it: {lack}"
            candidates.append(Candidate(score.pool.name, _has(score, request), lost, "room in it"))
        else:  # it is better
            lost = "it fits where it was" if then else f"better by now: {name}"
            candidates.append(Candidate(score.pool.name, _has(score, request), lost, "to be created again"))
    words = _words(request, any(score.pool.isolated for score in decision.candidates))
    return Explanation(container, words, pool.name, then, candidates, decision.count - len(candidates))


def _words(request: Request, some_are_isolated: bool) -> str:
    """A request in words."""
    if request.kind is CpuKind.PRESERVE:
        return f"{request.container.qos}, its CPUs are left alone"
    parts = []
    if request.exclusive:
        isolated = "isolated " if request.isolated and (request.only_isolated or some_are_isolated) else ""
        parts.append(f"{count(request.exclusive, f'{isolated}CPU')} of its own")
    if request.shared_m or not request.exclusive:
        parts.append(f"{request.shared_m}m of {'reserved' if request.kind is CpuKind.RESERVED else 'shared'} CPUs")
    parts.append(
        "its memory is left alone" if request.memory_kinds is None else f"{size(request.memory_bytes)} of memory"
    )
    return f"{request.container.qos}, " + ", ".join(parts)


def _has(score: Score, request: Request) -> str:
    """The numbers of a score that count for a request."""
    if request.kind is CpuKind.RESERVED:
        parts = [f"{score.reserved_m}m reserved left"]
    else:
        parts = [f"{score.free_m}m free", f"{score.shared_m}m left"]
    parts += [f"{score.isolated} isolated left"] if request.isolated and score.pool.isolated else []
    parts += [f"affinity {score.affinity:g}"] if score.affinity else []
    parts += ["hints " + " ".join(f"{each:.2f}" for each in score.hints)] if score.hints else []
    parts.append(count(score.tenants, "container"))
    parts.append("no memory" if score.offer is None else f"memory {masks.text(score.offer.zone)}")
    return ", ".join(parts)


def _level(score: Score, _: Score, request: Request) -> str:
    if request.limit_m is None:
        return f"annotation unlimited-burstable: {score.pool.level}, or more free CPU there"
    return f"a CPU limit of at most {max(score.free_m, 0)}m"


def _free(_: Score, chosen: Score, request: Request) -> str:
    if request.exclusive or request.isolated:
        return f"more free CPU there than the {chosen.shared_m}m that {chosen.pool.name} has left"
    return f"fewer containers there than the {chosen.tenants} in {chosen.pool.name}, or as many and more free CPU"


def _short(score: Score, request: Request) -> str:
    if request.kind is CpuKind.NORMAL and score.shared_m >= 0:  # then it lost by isolated CPUs
        return count(-score.isolated, "isolated CPU")
    return score.lacks(request)


#: By comparison: what would have to be different for a place that lost by it to win.
_CHANGES: Mapping[str, Callable[[Score, Score, Request], str]] = {
    "enough CPU": lambda score, _, request: f"{_short(score, request)} more there, or a smaller request",
    "affinity": lambda score, chosen, _: f"an affinity above {chosen.affinity:g} for it; it has {score.affinity:g}",
    "hints": lambda *_: "devices that are nearer to it",
    "memory offer": lambda score, *_: f"{score.lack or 'memory'} free there",
    "kinds of memory offered": lambda *_: "annotation memory-type with the kinds that it has free",
    "memory up to the limit": lambda *_: "a memory limit that fits there",
    "CPU up to the limit": _level,
    "fewer memory nodes": lambda *_: "a memory request that fewer of its nodes can take",
    "kinds of memory": lambda *_: "annotation memory-type with the kinds that it has",
    "CPUs of the priority": lambda *_: "free CPUs of that priority there, or another prefer-cpu-priority",
    "deeper pool": lambda _, chosen, __: f"a request that does not fit in {chosen.pool.name}",
    "more reserved CPU for each container": lambda *_: "more reserved CPU there",
    "more free CPU": _free,
    "lower number": lambda *_: "any difference: they are equal, and the lower number was taken",
}


def gauges(pools: Pools, zones: MemoryZones, found: list[Place], shared: set[str]) -> Iterator[Gauge]:
    """The measurements of all pools. `shared`: containers that have a part of shared or reserved CPUs."""
    for place in found:
        pool = pools.by_name[place.name]
        zone, mems = {"zone": place.name}, masks.text(place.mems)
        whole, by_mems = {**zone, "mems": f"nodes{{{mems}}}"}, {**zone, "mems": mems}
        sharing = len(shared.intersection(place.containers))
        rows: list[tuple[str, str, dict[str, str], float]] = [
            ("cpu_capacity_cores", "CPUs", {**whole, "cpus": masks.text(place.cpus)}, place.cpus.bit_count()),
            ("cpu_shared_capacity_cores", "CPUs that containers share", zone, place.shared.bit_count()),
            ("cpu_shared_assigned_cores", "shared CPUs promised", zone, pool.shared_m / 1000),
            ("cpu_shared_available_cores", "shared CPUs that are left", zone, pool.free_shared_m() / 1000),
            ("mem_capacity_bytes", "bytes of memory", whole, place.memory_bytes),
            ("mem_assigned_bytes", "bytes of memory that are promised", by_mems, zones.used(place.mems)),
            ("mem_available_bytes", "bytes of memory that are left", by_mems, place.memory_free_bytes),
            ("container_count", "containers", zone, len(place.containers)),
            ("shared_container_count", "containers that share CPUs", zone, sharing),
        ]
        for name, words, labels, value in rows:
            yield Gauge(f"nri_policy_topologyaware_zone_{name}", f"Of each pool: {words}.", labels, value)
