"""Memory zones: sets of memory nodes that requests share; they are widened when requests exceed their capacity.

A zone is a mask of nodes. A zone is overcommitted if the requests in it, or in a subset of it, exceed its capacity.
Then requests are moved to wider zones, the least important request first. A zone is widened by nodes of the kinds that
it has, then also by DRAM, slow memory and fast memory. Each zone has some normal memory, which can hold unmovable
pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cmp_to_key, lru_cache
from typing import NamedTuple

from nri.host.topology import MemoryKind, Node
from nri.placement import masks
from nri.text import size

DRAM, PMEM, HBM = 1, 2, 4
ALL_KINDS = DRAM | PMEM | HBM
#: Bits of the kinds of memory by their names in annotations and configuration.
KINDS: Mapping[MemoryKind, int] = {"dram": DRAM, "pmem": PMEM, "hbm": HBM}
#: Priorities by QoS class; requests with a lower priority are moved first.
PRIORITIES = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
PRESERVED = 3


class NoMemory(ValueError):
    """No zone can serve a request."""


class Request(NamedTuple):
    """A user's request for memory.

    Attributes:
        nodes: the mask of preferred nodes.
        kinds: the mask of memory kinds; 0 for the kinds of the nodes.
        strict: whether other kinds are not acceptable.
    """

    user: str
    size_bytes: int
    nodes: int
    kinds: int = 0
    priority: int = 0
    strict: bool = False
    age: int = 0


class Offer(NamedTuple):
    """A trial of a request: its zone, and the zones of users that would move. It is void after any other change."""

    request: Request
    zone: int
    moved: dict[str, int]
    version: int


class MemoryZones:
    """The memory zones of a machine. A failed call changes nothing.

    Attributes:
        all: the mask of all nodes.
        with_memory: the mask of nodes with memory.
        normal: the mask of nodes with normal memory, which can hold unmovable pages.
        kinds: the mask of existing kinds of memory.
        zones: the zone of each user.
        version: a number that changes whenever memory is allocated or released.
        forget_trials: whether the zones of an offer are deleted after the trial; nri-plugins keeps the zones until
            the next commit.
        touched: the users whose zone may have changed. The writer of the state file clears it.
    """

    def __init__(self, nodes: Mapping[int, Node], forget_trials: bool = True) -> None:
        self.forget_trials = forget_trials
        self._nodes = dict(sorted(nodes.items()))
        self.all = masks.of(self._nodes)
        self.with_memory = masks.of(number for number, node in self._nodes.items() if node.memory_bytes)
        self.normal = masks.of(n for n, node in self._nodes.items() if node.memory_bytes and node.has_normal_memory)
        self._of_kind = {
            bit: masks.of(n for n, node in self._nodes.items() if node.memory_bytes and node.kind == kind)
            for kind, bit in KINDS.items()
        }
        self.kinds = sum(bit for bit, mask in self._of_kind.items() if mask)
        self._kinds: Callable[[int], int] = lru_cache(1024)(self._kinds_in)
        self._capacities: Callable[[int], int] = lru_cache(1024)(self._capacity_in)
        self._cached_start_zone: Callable[[int, int, bool], tuple[int, int]] = lru_cache(1024)(self._start_zone)
        self._rings = {number: _rings(node) for number, node in self._nodes.items()}
        self.zones: dict[str, int] = {}
        self.touched: dict[str, None] = {}
        self._requests: dict[str, Request] = {}
        self._users: dict[int, set[str]] = {}
        self._used: dict[int, int] = {}
        self._undo: dict[str, int] | None = None
        self.version = self._age = 0

    # -- nodes --------------------------------------------------------------------------------------------------------

    def nodes_of_kinds(self, kinds: int) -> int:
        """The mask of nodes with memory of these kinds."""
        return sum(mask for bit, mask in self._of_kind.items() if bit & kinds)

    def kinds_of(self, zone: int) -> int:
        """The kinds of the nodes of a zone, including nodes without memory."""
        return self._kinds(zone & self.all)

    def _kinds_in(self, zone: int) -> int:
        kinds = 0
        for number in masks.members(zone):
            kinds |= KINDS[self._nodes[number].kind]
        return kinds

    def capacity(self, zone: int) -> int:
        """The size of a zone in bytes."""
        return self._capacities(zone & self.with_memory)

    def _capacity_in(self, zone: int) -> int:
        return sum(self._nodes[number].memory_bytes for number in masks.members(zone))

    def free(self, zone: int) -> int:
        """The free bytes of a zone; negative if it is overcommitted."""
        return self.capacity(zone) - self.used(zone)

    def used(self, zone: int) -> int:
        """The bytes that users of a zone, or of a subset of it, have requested."""
        return sum(used for part, used in self._used.items() if part & zone == part)

    # -- requests -----------------------------------------------------------------------------------------------------

    def allocate(self, request: Request) -> Offer:
        """Allocate memory for a request. Returns its zone and the moved users. Raises NoMemory if no zone fits."""
        try:
            request, zone = self._request_and_zone(request)
            self._requests[request.user] = request
            self._assign(request.user, zone)
            if self._overcommitted_zones(zone)[0]:
                self._remove_user(request.user)
                del self._requests[request.user]
                return self.commit(self._trial_offer(request, zone))
            self.version += 1
            return Offer(request, zone, {}, self.version)
        finally:
            self._forget_empty_zones()

    def offer(self, request: Request) -> Offer:
        """Try a request, and undo it. Raises NoMemory if no zone fits."""
        return self._trial_offer(*self._request_and_zone(request))

    def _request_and_zone(self, request: Request) -> tuple[Request, int]:
        """Complete a request, and return its zone if no user has to move. Raises NoMemory if no zone fits."""
        zone, kinds = self._cached_start_zone(request.nodes, self._checked_kinds(request), request.strict)
        self._age += 1
        return request._replace(age=self._age, kinds=kinds), zone

    def _trial_offer(self, request: Request, zone: int) -> Offer:
        before = self._begin_trial()
        self._requests[request.user] = request
        try:
            self._assign(request.user, zone)
            self._move_excess(zone)
            moved = {user: self.zones[user] for user in before if user in self.zones}
        finally:
            self._revert_trial()
            del self._requests[request.user]
            if self.forget_trials:
                self._forget_empty_zones()
        zone = moved.pop(request.user)
        return Offer(request, zone, moved, self.version)

    def commit(self, offer: Offer) -> Offer:
        """Apply an offer; all other offers become void. Raises NoMemory if this offer is void."""
        if offer.version != self.version:
            raise NoMemory("the offer is void: memory was allocated or released since")
        self._requests[offer.request.user] = offer.request
        self._assign(offer.request.user, offer.zone)
        for user, zone in offer.moved.items():
            self._assign(user, zone)
        self.version += 1
        self._forget_empty_zones()
        return offer

    def adopt(self, request: Request, zone: int) -> None:
        """Give a user exactly this zone. Raises NoMemory if the zone does not exist or is too small."""
        kinds = self._checked_kinds(request)
        if not zone or zone & ~self.all:
            raise NoMemory(f"memory nodes not found: {masks.text(zone & ~self.all)}")
        self._age += 1
        self._requests[request.user] = request._replace(age=self._age, kinds=kinds)
        self._assign(request.user, zone)
        self.version += 1
        if self._overcommitted_zones(zone)[0]:
            self.release(request.user)
            raise NoMemory(f"not enough memory in nodes {masks.text(zone)}")

    def widen(self, user: str, nodes: int, kinds: int) -> tuple[int, dict[str, int]]:
        """Add nodes and kinds to a user's zone. Returns the new zone, and the zones of moved users.

        Raises NoMemory if there are no further nodes, or if another user cannot be moved.
        """
        request, zone = self._requests[user], self.zones[user]
        same = request.nodes == nodes and request.kinds == kinds
        has = zone & nodes == nodes and self.kinds_of(zone) & kinds == kinds
        if not (nodes or kinds) or same or has:
            return zone, {}
        if kinds:
            nodes &= self.nodes_of_kinds(kinds)
        else:
            kinds = self.kinds_of(nodes)
        new, added = self._expand(zone | nodes, kinds)
        if not new:
            raise NoMemory(f"no further memory nodes for {user}")
        before = self._begin_trial()
        try:
            self._assign(user, zone | nodes | new)
            self._move_excess(zone | nodes | new)
        except NoMemory:
            self._revert_trial()
            raise
        self._undo = None
        self._requests[user] = request._replace(kinds=request.kinds | added)
        return self.zones[user], {other: self.zones[other] for other in before if other != user}

    def release(self, user: str) -> None:
        """Release a user's memory, if it has any."""
        if user in self._requests:
            self._remove_user(user)
            del self._requests[user]
            self.version += 1
            self._forget_empty_zones()

    def begins_at(self, user: str, nodes: int, kinds: int) -> bool:
        """Whether a user's request is for these nodes and kinds."""
        request = self._requests[user]
        return request.nodes == nodes and request.kinds == (kinds & self.kinds or self.kinds_of(nodes))

    def saved(self) -> tuple[dict[str, int], dict[str, Request]]:
        """All zones and requests, for `restore`."""
        return dict(self.zones), dict(self._requests)

    def restore(self, saved: tuple[dict[str, int], dict[str, Request]]) -> None:
        """Restore the zones and requests that `saved` returned."""
        zones, requests = saved
        changed = {user for user, _ in self.zones.items() ^ zones.items()}
        changed |= {user for user, request in requests.items() if self._requests.get(user) is not request}
        for user in changed:
            self._remove_user(user)
        self._requests = requests
        for user in changed & zones.keys():
            self._assign(user, zones[user])
        self.zones = zones
        self.version += 1
        self._forget_empty_zones()

    # -- the first zone of a request ----------------------------------------------------------------------------------

    def _checked_kinds(self, request: Request) -> int:
        """The kinds of a request. Raises NoMemory if the request is invalid."""
        if request.user in self._requests:
            raise NoMemory(f"{request.user} already has memory")
        if request.nodes & ~self.all:
            raise NoMemory(f"memory nodes not found: {masks.text(request.nodes & ~self.all)}")
        if request.strict and request.kinds & ~self.kinds:
            raise NoMemory(f"no memory of type {_kind_names(request.kinds & ~self.kinds)}")
        if not request.nodes:
            raise NoMemory("the request has no memory nodes")
        return request.kinds & self.kinds or self.kinds_of(request.nodes)

    def _start_zone(self, nodes: int, kinds: int, strict: bool) -> tuple[int, int]:
        """The zone for these nodes and kinds, with some normal memory, and its kinds. Raises NoMemory if none fits."""
        zone = self._initial_zone(nodes, kinds, strict)
        zone, added = self._with_normal_memory(zone, kinds, strict)
        return zone, kinds | added

    def _initial_zone(self, nodes: int, kinds: int, strict: bool) -> int:
        zone = nodes
        missing = kinds & ~self.kinds_of(zone)
        if missing:
            zone |= self._expand(zone, missing)[0]
        preferred = zone & self.nodes_of_kinds(kinds)
        if strict and kinds & ~self.kinds_of(preferred):
            raise NoMemory(f"no memory of type {_kind_names(kinds)} near nodes {masks.text(nodes)}")
        return preferred or zone

    def _with_normal_memory(self, zone: int, requested: int, strict: bool) -> tuple[int, int]:
        """The zone, widened until it has normal memory, and the kinds that were added."""
        if zone & self.normal:
            return zone, 0
        existing = self.kinds_of(self.normal)
        kinds = requested & existing
        if not kinds:
            kinds = next((bit for bit in (DRAM, PMEM, HBM) if bit & existing), 0)
            if strict or not kinds:
                raise NoMemory(f"no memory of type {_kind_names(requested)} can hold unmovable pages")
        while new := self._expand(zone, kinds)[0]:
            zone |= new
            if zone & self.normal:
                return zone, kinds
        raise NoMemory(f"no memory of type {_kind_names(kinds)} can hold unmovable pages")

    def expand(self, zone: int, kinds: int) -> int:
        """The nodes to add to a zone: for each kind the nodes nearest to the zone."""
        return self._expand(zone, kinds)[0]

    def _expand(self, zone: int, kinds: int) -> tuple[int, int]:
        nodes = added = 0
        for bit, mask in self._of_kind.items():
            new = self._nearest_nodes(zone, mask & ~zone) if bit & kinds else 0
            if new:
                nodes |= new
                added |= bit
        return nodes, added

    def _nearest_nodes(self, zone: int, candidates: int) -> int:
        close, least = 0, 1 << 62
        for number in masks.members(zone & self.all):
            for distance, ring in self._rings[number]:
                if ring & candidates:
                    if distance <= least:
                        least = distance
                        close |= ring & candidates
                    break
        return close

    # -- overcommitted zones ------------------------------------------------------------------------------------------

    def _move_excess(self, nodes: int) -> None:
        """Move requests until no zone that touches these nodes is overcommitted."""
        zones, excess = self._overcommitted_zones(nodes)
        while zones:
            moved = 0
            for priority in (1, 2, PRESERVED):
                kinds = 0
                for extra in (0, DRAM, PMEM, HBM):
                    if extra and not extra & self.kinds:
                        continue
                    kinds |= extra
                    for zone in zones:
                        if zone in excess:
                            moved += self._shrink(zone, excess[zone], priority, kinds)
                    zones, excess = self._overcommitted_zones(nodes)
                    if not zones:
                        return
            if not moved:
                over = ", ".join(
                    f"{size(excess[zone])} too much memory requested from nodes {masks.text(zone)}" for zone in zones
                )
                raise NoMemory(f"not enough memory: {over}")

    def _overcommitted_zones(self, nodes: int) -> tuple[list[int], dict[int, int]]:
        excess = {zone: -free for zone in self._users if zone & nodes and (free := self.free(zone)) < 0}
        if len(excess) < 2:
            return list(excess), excess

        def order(one: int, other: int) -> int:
            users = len(self._users[other]) - len(self._users[one])
            if users:
                return users
            if one & other in (one, other):
                return -1 if one & other == one else 1
            return other.bit_count() - one.bit_count() or other - one

        return sorted(sorted(excess), key=cmp_to_key(order)), excess

    def _shrink(self, zone: int, amount: int, priority: int, kinds: int) -> int:
        """Move users to a wider zone until this one has shrunk by `amount` bytes. Returns the moved bytes."""
        users = self._users.get(zone)
        if not users:
            return 0
        zone_kinds = self.kinds_of(zone)
        nodes, added = self._expand(zone, zone_kinds | kinds)
        if not nodes:
            return 0
        movable = [self._requests[user] for user in users if self._requests[user].priority <= priority]
        moved = 0
        for request in sorted(movable, key=lambda entry: (entry.priority, entry.size_bytes, -entry.age)):
            if not request.strict or request.kinds == zone_kinds | added:
                self._assign(request.user, zone | nodes)
                moved += request.size_bytes
                if moved >= amount:
                    break
        return moved

    # -- bookkeeping --------------------------------------------------------------------------------------------------

    def _begin_trial(self) -> dict[str, int]:
        """Start recording the previous zones of moved users, 0 for a new user. Returns the record."""
        self._undo = {}
        return self._undo

    def _revert_trial(self) -> None:
        before, self._undo = self._undo or {}, None
        for user, zone in before.items():
            self._remove_user(user)
            if zone:
                self._assign(user, zone)

    def _assign(self, user: str, zone: int) -> None:
        if self._undo is not None:
            self._undo.setdefault(user, self.zones.get(user, 0))
        self._remove_user(user)
        self._users.setdefault(zone, set()).add(user)
        self._used[zone] = self._used.get(zone, 0) + self._requests[user].size_bytes
        self.zones[user] = zone

    def _remove_user(self, user: str) -> None:
        zone = self.zones.pop(user, None)
        self.touched[user] = None
        if zone is not None:
            self._users[zone].discard(user)
            self._used[zone] -= self._requests[user].size_bytes

    def _forget_empty_zones(self) -> None:
        for zone in [zone for zone, users in self._users.items() if not users]:
            del self._users[zone], self._used[zone]


def _rings(node: Node) -> list[tuple[int, int]]:
    """Masks of the other nodes by distance, the nearest first."""
    rings: dict[int, int] = {}
    for number, distance in node.distances.items():
        if number != node.number:
            rings[distance] = rings.get(distance, 0) | 1 << number
    return sorted(rings.items())


def _kind_names(kinds: int) -> str:
    return ", ".join(kind for kind, bit in KINDS.items() if bit & kinds) or "no kind"


_BITS: dict[str, int] = {str(kind): bit for kind, bit in KINDS.items()} | {"mixed": ALL_KINDS}


def parse_kinds(names: Iterable[str]) -> int:
    """The mask of kinds by their names in any case; `mixed` is all. Raises ValueError if a name is unknown."""
    kinds = 0
    for name in names:
        bit = _BITS.get(name.lower())
        if bit is None:
            raise ValueError(f"{name!r} is not a type of memory: {', '.join(KINDS)} or mixed")
        kinds |= bit
    return kinds
