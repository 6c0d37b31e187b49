"""Save balloons for a restart, and restore them in the next policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nri.placement import masks
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.balloon_set import BalloonSet
from nri.placement.containers import Container, NoPlace
from nri.placement.machine import Priority
from nri.placement.state import BalloonState, ContainerState, Entries, PartState, PlacementState


def entries(balloon_set: BalloonSet, names: Iterable[str]) -> Entries:
    """The state entries of these containers and of all balloons. The entry of a released container is None."""
    containers, zones, members = balloon_set.pins.containers, balloon_set.pins.zones.zones, balloon_set.members
    return {
        "containers": {name: ContainerState.of(containers[name]) if name in containers else None for name in names},
        "balloons": {balloon.name: balloon.written() for balloon in balloon_set.balloons},
        "members": {name: members.get(name) for name in names},
        "zones": {name: masks.text(zones[name]) if name in zones else None for name in names},
    }


def start(balloon_set: BalloonSet, state: PlacementState, containers: Mapping[str, Container]) -> int:
    """Restore earlier balloons with these containers, and add the balloons that each type always has.

    Returns the CPUs that were free before the earlier balloons were resized for their containers. Raises ValueError if
    the machine has too few CPUs for a type's minimum.
    """
    for name, balloon_state in state.balloons.items():
        members = [container for id_, container in containers.items() if state.members.get(id_) == name]
        _restore_balloon(balloon_set, balloon_state, members)
    adopted = list(balloon_set.balloons)
    balloon_set.share_idle(balloon_set.free, 0)
    for container in balloon_set.pins.containers.values():
        balloon = balloon_set.of_container(container)
        zone = state.zones.get(container.id, "")
        if balloon is not None and zone:
            balloon_set.pins.adopt_zone(container, balloon, zone)
    for priority in Priority:
        for kind in balloon_set.types.all:
            if kind.priority is priority:
                balloon_set.add_minimum(kind)
    free_at_start = balloon_set.free
    for balloon in adopted:
        try:
            balloon_set.resize(balloon, max(1 if balloon.pods else 0, balloon.requested_m))
        except ValueError:
            continue  # the balloon keeps its size
    balloon_set.pins.repin(balloon_set.share_idle(balloon_set.free, 0))
    balloon_set.pins.repin(balloon_set.balloons)
    return free_at_start


def _restore_balloon(balloon_set: BalloonSet, state: BalloonState, members: list[Container]) -> None:
    """Restore a balloon with the containers that still belong to it, if that is possible."""
    free = balloon_set.free
    balloon = _rebuilt_balloon(balloon_set, state.parts)
    if balloon is None or 0 < balloon.type.maxBalloons <= len(balloon_set.of_type(balloon.type)):
        balloon_set.free = free
        return
    members = [container for container in members if _still_belongs(balloon_set, container, balloon)]
    if not members and len(balloon_set.of_type(balloon.type)) >= balloon.type.minBalloons:
        balloon_set.free = free
        return
    balloon.idle = masks.parse(state.idle) & balloon_set.free_for(balloon.type)
    balloon_set.balloons.append(balloon)
    for container in members:
        if balloon_set.max_m(balloon) >= container.requests.cpu_m + balloon.requested_m:
            balloon_set.join(container, balloon)


def _still_belongs(balloon_set: BalloonSet, container: Container, balloon: Balloon) -> bool:
    types = balloon_set.types
    try:
        return not types.is_left_alone(container) and types.type_of(container)[0] is balloon.type
    except NoPlace:
        return False


def _rebuilt_balloon(balloon_set: BalloonSet, parts: Iterable[PartState]) -> Balloon | None:
    """Make a balloon from its saved parts, and take their CPUs. Returns None if a part cannot be restored."""
    stack: list[tuple[Balloon, int]] = []  # composites, with the number of their components that still follow
    top = None
    for part in parts:
        kind, cpus = balloon_set.types.by_name.get(part.type), masks.parse(part.cpus)
        count = cpus.bit_count()
        if kind is None or bool(kind.components) != bool(part.components):
            return None
        balloon = balloon_set.types.empty_balloon(kind, part.instance)
        if not part.components:
            if cpus & ~balloon_set.free_for(kind) or count < kind.minCPUs or 0 < kind.maxCPUs < count:
                return None
            balloon_set.free &= ~cpus
        balloon.cpus = cpus
        if stack:
            parent, missing = stack.pop()
            parent.components.append(balloon)
            stack += [(parent, missing - 1)] if missing > 1 else []
        elif top is not None:
            return None
        top = top or balloon
        stack += [(balloon, part.components)] if part.components else []
    return None if stack else top
