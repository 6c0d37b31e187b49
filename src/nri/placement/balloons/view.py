"""Reports of balloons: places, zones of the node, explanations, CPU classes and the metrics of nri-plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nri.placement import masks
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.balloon_set import BalloonSet
from nri.placement.balloons.options import BalloonType
from nri.placement.containers import Container, Pins
from nri.placement.machine import Machine
from nri.placement.node_resource_topology import cpu_resource, node_zone
from nri.placement.policy import MAX_CANDIDATES, Candidate, Explanation, Gauge, Place
from nri.placement.tuning import IrqAffinity, Tuning
from nri.text import count


class BalloonSnapshot(NamedTuple):
    """A balloon at the time when a container was placed.

    Attributes:
        free_m: free thousandths of CPUs.
        max_free_m: free thousandths of CPUs if it had grown to its maximum.
        containers: the number of its containers.
    """

    balloon: str
    free_m: int
    max_free_m: int
    containers: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a container.

    Attributes:
        because: the reason for its type.
        tried: the methods of finding a balloon, in their order.
        method: the successful method.
        candidates: the balloons that this method chose from, the chosen one first.
        unsuitable: the remaining balloons of the type.
    """

    because: str
    wanted_m: int
    tried: tuple[str, ...]
    method: str
    candidates: list[BalloonSnapshot]
    unsuitable: list[BalloonSnapshot]


#: Descriptions of the methods of finding a balloon; they continue a sentence about the balloon.
_METHODS = {
    "group": "has containers of its group, and can grow to it",
    "pod": "has containers of its pod, and can grow to it",
    "namespace": "has containers of its namespace, and can grow to it",
    "fit": "fits without growing",
    "grow": "can grow to it",
    "new": "is new or empty",
}


def places(balloon_set: BalloonSet, machine: Machine) -> list[Place]:
    """All balloons as places."""
    places, zones = [], balloon_set.pins.zones
    for balloon in balloon_set.balloons:
        mems = machine.nodes_of(balloon.cpus)
        for name in balloon.containers:
            mems |= zones.zones.get(name, 0)
        cpus, members = balloon.cpus | balloon.idle, tuple(balloon.containers)
        free_m, memory = balloon_set.free_m(balloon), (zones.capacity(mems), zones.free(mems))
        places.append(Place(str(balloon), balloon.type.name, 0, balloon.cpus, cpus, mems, free_m, *memory, members))
    return places


def node_zones(
    balloon_set: BalloonSet, machine: Machine, allocatable_m: Callable[[BalloonType], int], show_containers: bool
) -> list[dict[str, Any]]:
    """The zones of the node's NodeResourceTopology: balloons, each followed by its containers if configured.

    Args:
        allocatable_m: the largest CPU request that would fit in a balloon of a type without any containers.
        show_containers: whether containers have zones, unless their type has a different setting.
    """
    zones, pins = [], balloon_set.pins
    for balloon in balloon_set.balloons:
        free_m, max_free_m = balloon_set.free_m(balloon), balloon_set.max_free_m(balloon)
        zones.append(_balloon_zone(balloon, machine, free_m, max_free_m, allocatable_m(balloon.type)))
        type_setting = balloon.type.showContainersInNrt
        for name in balloon.containers if (show_containers if type_setting is None else type_setting) else ():
            container_pins = pins.changes.pins.get(name, Pins())
            zones.append(_container_zone(pins.containers[name], balloon, container_pins, machine))
    return zones


def _balloon_zone(
    balloon: Balloon, machine: Machine, free_m: int, max_free_m: int, allocatable_m: int
) -> dict[str, Any]:
    """The zone of a balloon in the node's NodeResourceTopology.

    Args:
        free_m: the largest CPU request that fits in the balloon as it is.
        max_free_m: the largest CPU request that fits if it grows as far as it can now.
        allocatable_m: the largest CPU request that would fit without any containers.
    """
    attributes: dict[str, str | int] = {
        "cpuset": balloon.cpus,
        "shared cpuset": balloon.idle,
        "excess cpus": f"{free_m}m",
    }
    if balloon.components:
        attributes["component cpusets"] = _component_cpusets(balloon)
    resources = [cpu_resource(1000 * machine.online.bit_count(), allocatable_m, max_free_m)]
    return node_zone(str(balloon), "balloon", resources, attributes)


def _component_cpusets(top: Balloon) -> str:
    """The CPUs of a balloon's components, nested like the components: `{{0-1}, {{2}, {3}}}`."""
    texts: dict[Balloon, str] = {}
    for balloon in reversed(top.parts()):  # components before their composite
        components = [texts[part] for part in balloon.components]
        texts[balloon] = "{" + (", ".join(components) if components else masks.text(balloon.cpus)) + "}"
    return texts[top]


def _container_zone(container: Container, balloon: Balloon, pins: Pins, machine: Machine) -> dict[str, Any]:
    """The zone of a container in the node's NodeResourceTopology.

    The zone's capacity is the container's CPU limit, or the number of its CPUs if that is smaller. Nothing of the
    capacity is available to others.
    """
    requests = container.requests
    allowed_m = 1000 * (masks.parse(pins.cpus) if pins.cpus else machine.online).bit_count()
    capacity_m = min(requests.cpu_limit_m or allowed_m, allowed_m)
    resources = [cpu_resource(capacity_m, requests.cpu_m, 0)]
    attributes = {"cpuset": pins.cpus or "", "memory set": pins.mems or container.mems}
    return node_zone(str(container), "allocation for container", resources, attributes, str(balloon))


def explanation(
    container: Container, place: str, decision: Decision | None, types: Iterable[BalloonType], kind: BalloonType
) -> Explanation:
    """Explain why a container is in its balloon. For an earlier policy's decision only the types are explained."""
    candidates = []
    request = f"{container.qos}, {container.requests.cpu_m}m CPU"
    if decision is None:
        candidates.append(Candidate(place, "placed before this policy started"))
    else:
        request = f"{container.qos}, {decision.wanted_m}m CPU, type {kind.name}: {decision.because}"
        candidates = list(_balloons(decision))
    for other in types:
        if other is not kind:
            change = f"annotation balloon.balloons.resource-policy.nri.io: {other.name}"
            candidates.append(Candidate(f"any {other.name}", "of another type", "type of balloon", change))
    more = max(len(candidates) - MAX_CANDIDATES, 0)
    return Explanation(container, request, place, decision is not None, candidates[:MAX_CANDIDATES], more)


def _balloons(decision: Decision) -> Iterator[Candidate]:
    best, *worse = decision.candidates
    before = decision.tried[: decision.tried.index(decision.method)]
    failed = f"; methods without a result: {', '.join(before)}" if before else ""
    yield Candidate(best.balloon, f"{_summary(best)}; it {_METHODS[decision.method]}{failed}")
    for balloon in worse:
        change = f"more than {best.free_m}m free CPU, or as much and fewer than {count(best.containers, 'container')}"
        lost = f"{decision.method}: less free CPU, or more containers"
        yield Candidate(balloon.balloon, _summary(balloon), lost, change)
    for balloon in decision.unsuitable:
        missing_m = decision.wanted_m - balloon.max_free_m
        if missing_m > 0:
            change = f"{missing_m}m more free CPU, or a smaller request"
            yield Candidate(balloon.balloon, _summary(balloon), "enough CPU", change)
        else:
            change = f"no balloon that {_METHODS[decision.method]}"
            yield Candidate(balloon.balloon, _summary(balloon), f"{decision.method} is tried first", change)


def _summary(balloon: BalloonSnapshot) -> str:
    return f"{balloon.free_m}m free, {balloon.max_free_m}m if it grows, {count(balloon.containers, 'container')}"


def gauges(
    balloons: Iterable[Balloon],
    balloon_places: list[Place],
    machine: Machine,
    containers: Mapping[str, Container],
) -> Iterator[Gauge]:
    """A measurement for each balloon: the number of its CPUs, and its other properties as labels."""
    for balloon, place in zip(balloons, balloon_places, strict=True):
        kind = balloon.type
        used_dies = {(*key, cpus & balloon.cpus) for key, cpus in machine.dies.items() if cpus & balloon.cpus}
        dies = [(f"p{package}d{die}", cpus) for package, die, cpus in sorted(used_dies)]
        numas = [f"{die}n{number}" for die, cpus in dies for number in masks.members(machine.nodes_of(cpus))]
        packages = [f"p{number}" for number, cpus in machine.packages.items() if cpus & balloon.cpus]
        groups = sorted(group for group, members in balloon.groups.items() if members > 0)
        sets: dict[str, int] = {"cpus": balloon.cpus, "sharedidlecpus": balloon.idle, "cpus_allowed": place.shared}
        lists = {"numas": numas, "dies": [die for die, _ in dies], "packages": packages}
        names = sorted(str(containers[name]) for name in place.containers)
        labels = {
            "balloon_type": kind.name,
            "cpu_class": kind.cpuClass,
            "cpus_min": str(kind.minCPUs),
            "cpus_max": str(kind.maxCPUs),
            "balloon": place.name,
            "groups": ",".join(groups),
            **{name: masks.text(cpus) for name, cpus in sets.items()},
            **{f"{name}_count": str(cpus.bit_count()) for name, cpus in sets.items()},
            **{name: ",".join(values) for name, values in lists.items()},
            **{f"{name}_count": str(len(values)) for name, values in lists.items()},
            "mems": ",".join(map(str, masks.members(place.mems))),
            "containers": ",".join(names),
            "tot_req_millicpu": str(sum(containers[name].requests.cpu_m for name in place.containers)),
        }
        yield Gauge("nri_policy_balloons_cores", "CPUs of each balloon.", labels, balloon.cpus.bit_count())


def tuning(balloons: Iterable[Balloon], idle: int, idle_class: str) -> Tuning:
    """The CPUs of each class, including idle CPUs, and the interrupts that balloons claim or avoid."""
    classes = {idle_class: idle}
    irq_affinities = []
    for balloon in balloons:
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
