"""Memory zones: sets of memory nodes that requests share, widened when they ask for more than the nodes have.

One job: :class:`MemoryZones`. A zone is a mask of nodes. It is overcommitted when the requests that lie in it, or in a
part of it, exceed its capacity; then requests are moved to wider zones, the least important first: first by nodes of
the kinds that the zone has, then also by DRAM, by slow memory, by fast memory. Each zone has some memory that is not
only for what can be moved.
Rules: pure. A failed call changes nothing. An offer is a trial: it says where a request would go and who would move,
and holds until anything is committed or released. Next: the policies, which pin containers to their zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cmp_to_key, lru_cache
from typing import NamedTuple

from nri.host.topology import MemoryKind, Node
from nri.placement import masks
from nri.text import size

__all__ = [
    "ALL_KINDS",
    "DRAM",
    "HBM",
    "KINDS",
    "PMEM",
    "PRESERVED",
    "PRIORITIES",
    "MemoryZones",
    "NoMemory",
    "Offer",
    "Request",
    "parse_kinds",
]

DRAM, PMEM, HBM = 1, 2, 4
ALL_KINDS = DRAM | PMEM | HBM
#: Bits of the kinds of memory by their words in annotations and configuration.
KINDS: Mapping[MemoryKind, int] = {"dram": DRAM, "pmem": PMEM, "hbm": HBM}
#: How much a request's move is avoided, by class of service.
PRIORITIES = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}
PRESERVED = 3


class NoMemory(ValueError):
    """No zone can take a request; the text says why."""


class Request(NamedTuple):
    """One user's request: bytes, nodes to begin with, kinds (0: those of the nodes), and whether no others will do."""

    user: str
    size_bytes: int
    nodes: int
    kinds: int = 0
    priority: int = 0
    strict: bool = False
    age: int = 0


class Offer(NamedTuple):
    """Where a request would go, and which others would move where."""

    request: Request
    zone: int
    moved: dict[str, int]
    version: int


class MemoryZones:
    """The memory nodes of a machine, and who has which.

    Attributes:
        all: the mask of all nodes; `with_memory` of those that have any, `normal` of those whose memory is for all.
        kinds: the kinds of memory that there are.
        zones: the zone of each user; `version` another number after each time that memory was given or taken.
        forget_trials: whether a zone that only an offer needed is forgotten with it; the original goes on to hold
            others to it, until something is committed.
        touched: the users that may have another zone than before; who writes them down clears it.
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
        self._starts: Callable[[int, int, bool], tuple[int, int]] = lru_cache(1024)(self._start)
        self._rings = {number: _rings(node) for number, node in self._nodes.items()}
        self.zones: dict[str, int] = {}
        self.touched: dict[str, None] = {}
        self._requests: dict[str, Request] = {}
        self._users: dict[int, set[str]] = {}
        self._used: dict[int, int] = {}
        self._undo: dict[str, int] | None = None
        self.version = self._age = 0

    # -- what there is ----------------------------------------------------------------------------------------------

    def nodes_of_kinds(self, kinds: int) -> int:
        """The nodes with memory of these kinds."""
        return sum(mask for bit, mask in self._of_kind.items() if bit & kinds)

    def kinds_of(self, zone: int) -> int:
        """The kinds of the nodes of a zone, those without memory included."""
        return self._kinds(zone & self.all)

    def _kinds_in(self, zone: int) -> int:
        kinds = 0
        for number in masks.members(zone):
            kinds |= KINDS[self._nodes[number].kind]
        return kinds

    def capacity(self, zone: int) -> int:
        """All bytes of a zone."""
        return self._capacities(zone & self.with_memory)

    def _capacity_in(self, zone: int) -> int:
        return sum(self._nodes[number].memory_bytes for number in masks.members(zone))

    def free(self, zone: int) -> int:
        """The bytes of a zone that no request in it, or in a part of it, has asked for; below 0 if overcommitted."""
        return self.capacity(zone) - self.used(zone)

    def used(self, zone: int) -> int:
        """The bytes that requests in a zone, or in a part of it, have asked for."""
        return sum(used for part, used in self._used.items() if part & zone == part)

    # -- requests -----------------------------------------------------------------------------------------------------

    def allocate(self, request: Request) -> Offer:
        """Give a request its zone, and say who moved. Raises NoMemory."""
        try:
            request, zone = self._beginning(request)
            self._requests[request.user] = request
            self._assign(request.user, zone)
            if self._overcommitted(zone)[0]:
                self._leave(request.user)
                del self._requests[request.user]
                return self.commit(self._tried(request, zone))
            self.version += 1
            return Offer(request, zone, {}, self.version)
        finally:
            self._forget()

    def offer(self, request: Request) -> Offer:
        """Try a request and undo it. Raises NoMemory."""
        return self._tried(*self._beginning(request))

    def _beginning(self, request: Request) -> tuple[Request, int]:
        """A request with all that is known of it, and its zone if nobody had to move. Raises NoMemory."""
        zone, kinds = self._starts(request.nodes, self._checked(request), request.strict)
        self._age += 1
        return request._replace(age=self._age, kinds=kinds), zone

    def _tried(self, request: Request, zone: int) -> Offer:
        before = self._begin()
        self._requests[request.user] = request
        try:
            self._assign(request.user, zone)
            self._spill(zone)
            moved = {user: self.zones[user] for user in before if user in self.zones}
        finally:
            self._revert()
            del self._requests[request.user]
            if self.forget_trials:
                self._forget()
        zone = moved.pop(request.user)
        return Offer(request, zone, moved, self.version)

    def commit(self, offer: Offer) -> Offer:
        """Make an offer true; all others are void then. Raises NoMemory if this one is."""
        if offer.version != self.version:
            raise NoMemory("the offer is void: memory was given or taken since")
        self._requests[offer.request.user] = offer.request
        self._assign(offer.request.user, offer.zone)
        for user, zone in offer.moved.items():
            self._assign(user, zone)
        self.version += 1
        self._forget()
        return offer

    def adopt(self, request: Request, zone: int) -> None:
        """Give a user just this zone. Raises NoMemory if it is none, or has not so much left."""
        kinds = self._checked(request)
        if not zone or zone & ~self.all:
            raise NoMemory(f"there are no memory nodes {masks.text(zone & ~self.all)}")
        self._age += 1
        self._requests[request.user] = request._replace(age=self._age, kinds=kinds)
        self._assign(request.user, zone)
        self.version += 1
        if self._overcommitted(zone)[0]:
            self.release(request.user)
            raise NoMemory(f"nodes {masks.text(zone)} have not so much left")

    def widen(self, user: str, nodes: int, kinds: int) -> tuple[int, dict[str, int]]:
        """Add nodes and kinds to a user's zone, never take any away; the new zone, and who moved. Raises NoMemory."""
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
            raise NoMemory(f"there are no further nodes for memory of {user}")
        before = self._begin()
        try:
            self._assign(user, zone | nodes | new)
            self._spill(zone | nodes | new)
        except NoMemory:
            self._revert()
            raise
        self._undo = None
        self._requests[user] = request._replace(kinds=request.kinds | added)
        return self.zones[user], {other: self.zones[other] for other in before if other != user}

    def release(self, user: str) -> None:
        """Take back what a user has; nothing if it has nothing."""
        if user in self._requests:
            self._leave(user)
            del self._requests[user]
            self.version += 1
            self._forget()

    def begins_at(self, user: str, nodes: int, kinds: int) -> bool:
        """Whether a user's request is for these nodes and kinds."""
        request = self._requests[user]
        return request.nodes == nodes and request.kinds == (kinds & self.kinds or self.kinds_of(nodes))

    def saved(self) -> tuple[dict[str, int], dict[str, Request]]:
        """Who has what, to be restored."""
        return dict(self.zones), dict(self._requests)

    def restore(self, saved: tuple[dict[str, int], dict[str, Request]]) -> None:
        """Give all back what they had."""
        zones, requests = saved
        changed = {user for user, _ in self.zones.items() ^ zones.items()}
        changed |= {user for user, request in requests.items() if self._requests.get(user) is not request}
        for user in changed:
            self._leave(user)
        self._requests = requests
        for user in changed & zones.keys():
            self._assign(user, zones[user])
        self.zones = zones
        self.version += 1
        self._forget()

    # -- where a request begins ---------------------------------------------------------------------------------------

    def _checked(self, request: Request) -> int:
        """The kinds that a request is for. Raises NoMemory for one that cannot be."""
        if request.user in self._requests:
            raise NoMemory(f"{request.user} has memory already")
        if request.nodes & ~self.all:
            raise NoMemory(f"there are no memory nodes {masks.text(request.nodes & ~self.all)}")
        if request.strict and request.kinds & ~self.kinds:
            raise NoMemory(f"there is no memory of {_words(request.kinds & ~self.kinds)}")
        if not request.nodes:
            raise NoMemory("there is no memory node to begin with")
        return request.kinds & self.kinds or self.kinds_of(request.nodes)

    def _start(self, nodes: int, wanted: int, strict: bool) -> tuple[int, int]:
        """The zone for these nodes and kinds, wide enough for what cannot be moved, and its kinds. Raises NoMemory."""
        zone = self._initial(nodes, wanted, strict)
        zone, added = self._normal(zone, wanted, strict)
        return zone, wanted | added

    def _initial(self, nodes: int, wanted: int, strict: bool) -> int:
        zone = nodes
        missing = wanted & ~self.kinds_of(zone)
        if missing:
            zone |= self._expand(zone, missing)[0]
        preferred = zone & self.nodes_of_kinds(wanted)
        if strict and wanted & ~self.kinds_of(preferred):
            raise NoMemory(f"there is no memory of {_words(wanted)} near nodes {masks.text(nodes)}")
        return preferred or zone

    def _normal(self, zone: int, wanted: int, strict: bool) -> tuple[int, int]:
        """The zone, widened until it has memory for what cannot be moved, and the kinds that this took."""
        if zone & self.normal:
            return zone, 0
        there = self.kinds_of(self.normal)
        kinds = wanted & there
        if not kinds:
            kinds = next((bit for bit in (DRAM, PMEM, HBM) if bit & there), 0)
            if strict or not kinds:
                raise NoMemory(f"no memory of {_words(wanted)} can hold what cannot be moved")
        while new := self._expand(zone, kinds)[0]:
            zone |= new
            if zone & self.normal:
                return zone, kinds
        raise NoMemory(f"no memory of {_words(kinds)} can hold what cannot be moved")

    def expand(self, zone: int, kinds: int) -> int:
        """The nodes by which a zone grows: of each kind those nearest to any of its nodes."""
        return self._expand(zone, kinds)[0]

    def _expand(self, zone: int, kinds: int) -> tuple[int, int]:
        nodes = found = 0
        for bit, mask in self._of_kind.items():
            new = self._nearest(zone, mask & ~zone) if bit & kinds else 0
            if new:
                nodes |= new
                found |= bit
        return nodes, found

    def _nearest(self, zone: int, wanted: int) -> int:
        close, least = 0, 1 << 62
        for number in masks.members(zone & self.all):
            for distance, ring in self._rings[number]:
                if ring & wanted:
                    if distance <= least:
                        least = distance
                        close |= ring & wanted
                    break
        return close

    # -- too much in one zone -----------------------------------------------------------------------------------------

    def _spill(self, nodes: int) -> None:
        """Move requests until no zone that touches these nodes is overcommitted."""
        zones, excess = self._overcommitted(nodes)
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
                    zones, excess = self._overcommitted(nodes)
                    if not zones:
                        return
            if not moved:
                over = ", ".join(f"{size(excess[zone])} too much in nodes {masks.text(zone)}" for zone in zones)
                raise NoMemory(f"not enough memory: {over}")

    def _overcommitted(self, nodes: int) -> tuple[list[int], dict[int, int]]:
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
        """Move users of a zone to a wider one until it has shrunk by that many bytes; the bytes moved."""
        users = self._users.get(zone)
        if not users:
            return 0
        own = self.kinds_of(zone)
        nodes, added = self._expand(zone, own | kinds)
        if not nodes:
            return 0
        movable = [self._requests[user] for user in users if self._requests[user].priority <= priority]
        moved = 0
        for request in sorted(movable, key=lambda each: (each.priority, each.size_bytes, -each.age)):
            if not request.strict or request.kinds == own | added:
                self._assign(request.user, zone | nodes)
                moved += request.size_bytes
                if moved >= amount:
                    break
        return moved

    # -- bookkeeping --------------------------------------------------------------------------------------------------

    def _begin(self) -> dict[str, int]:
        """Note from now on where users were before they were moved; 0 for nowhere."""
        self._undo = {}
        return self._undo

    def _revert(self) -> None:
        before, self._undo = self._undo or {}, None
        for user, zone in before.items():
            self._leave(user)
            if zone:
                self._assign(user, zone)

    def _assign(self, user: str, zone: int) -> None:
        if self._undo is not None:
            self._undo.setdefault(user, self.zones.get(user, 0))
        self._leave(user)
        self._users.setdefault(zone, set()).add(user)
        self._used[zone] = self._used.get(zone, 0) + self._requests[user].size_bytes
        self.zones[user] = zone

    def _leave(self, user: str) -> None:
        zone = self.zones.pop(user, None)
        self.touched[user] = None
        if zone is not None:
            self._users[zone].discard(user)
            self._used[zone] -= self._requests[user].size_bytes

    def _forget(self) -> None:
        for zone in [zone for zone, users in self._users.items() if not users]:
            del self._users[zone], self._used[zone]


def _rings(node: Node) -> list[tuple[int, int]]:
    """The other nodes by distance, the nearest first."""
    found: dict[int, int] = {}
    for number, distance in node.distances.items():
        if number != node.number:
            found[distance] = found.get(distance, 0) | 1 << number
    return sorted(found.items())


def _words(kinds: int) -> str:
    return ", ".join(kind for kind, bit in KINDS.items() if bit & kinds) or "no kind"


_BITS: dict[str, int] = {str(kind): bit for kind, bit in KINDS.items()} | {"mixed": ALL_KINDS}


def parse_kinds(words: Iterable[str]) -> int:
    """The bits of kinds by their words in any case; `mixed` is all. Raises ValueError for another word."""
    kinds = 0
    for word in words:
        bit = _BITS.get(word.lower())
        if bit is None:
            raise ValueError(f"{word!r} is no kind of memory: {', '.join(KINDS)} or mixed")
        kinds |= bit
    return kinds
