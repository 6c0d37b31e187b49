"""Which of two pools is the better one for a request, and the comparison that said so.

One job: :class:`Score` of one pool, and :class:`Scoring`, which orders pools by a chain of comparisons: the first
that finds a difference decides. Rules: pure. With `Choices.pools_have_one_order` any two have one order, whichever
is looked at first. Next: `policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nri.placement.choices import Choices
from nri.placement.machine import Machine, Priority
from nri.placement.topology_aware.pools import LEVELS, Pool
from nri.placement.topology_aware.requests import CpuKind, Request
from nri.placement.zones import MemoryZones, Offer
from nri.text import count

__all__ = ["Score", "Scoring"]

#: How much the affinity of another pool counts, for each step to it in the tree.
_DISTANCE = 0.75


@dataclass(slots=True)
class Score:
    """The rest that a pool would have, and how it fits.

    Attributes:
        isolated: CPUs; `reserved_m`, `shared_m` thousandths. Below 0: it has not enough.
        free_m: thousandths of shared CPUs before the request.
        at_priority: thousandths of CPUs of each priority.
        tenants: containers with CPUs of the same kind.
        offer: memory; None if there is none.
        lack: why there is none, or why it could not serve.
    """

    pool: Pool
    isolated: int = 0
    reserved_m: int = 0
    shared_m: int = 0
    free_m: int = 0
    at_priority: dict[Priority, int] = field(default_factory=dict)
    tenants: int = 0
    affinity: float = 0.0
    hints: tuple[float, ...] = ()
    offer: Offer | None = None
    lack: str = ""

    @classmethod
    def of(cls, pool: Pool, request: Request, machine: Machine) -> Score:
        """The CPU side of a pool's score."""
        free_m = pool.free_shared_m()
        score = cls(pool, reserved_m=pool.free_reserved_m(), shared_m=free_m, free_m=free_m)
        score.tenants = pool.tenants.get(request.kind, 0)
        score.hints = tuple(pool.hint_score(hint) for hint in request.container.hints.values())
        shared = request.shared_m or int(not request.exclusive)  # nothing at all counts as the least
        if request.kind is CpuKind.RESERVED:
            score.reserved_m -= shared
            return score
        if request.isolated:
            score.isolated = pool.free_isolated.bit_count() - request.exclusive
        if not request.isolated or score.isolated < 0:
            score.shared_m -= 1000 * request.exclusive
        score.shared_m -= shared
        low, normal = machine.efficient or machine.priorities[Priority.LOW], machine.priorities[Priority.NORMAL]
        for priority, cpus in (
            (Priority.LOW, low),
            (Priority.HIGH, machine.performance or machine.priorities[Priority.HIGH]),
            (Priority.NORMAL, normal),
        ):
            count = (cpus & pool.free_sharable).bit_count()
            score.at_priority[priority] = 1000 * count - (1000 * request.exclusive + shared)
        return score

    def lacks(self, request: Request) -> str:
        """The resources that a container would miss here, in words; "" for nothing."""
        if request.kind is CpuKind.RESERVED:
            if self.reserved_m < 0:
                return f"{-self.reserved_m}m reserved CPU"
        elif self.shared_m < 0:
            return f"{-self.shared_m}m CPU" if request.exclusive or request.shared_m else "a free shared CPU"
        elif request.only_isolated and self.isolated < 0:
            return count(-self.isolated, "isolated CPU")
        return self.lack or ("" if self.offer else "memory")


#: A comparison: above 0 if the first pool is better, below 0 if the second is, 0 if the next one decides.
Comparison = Callable[[Score, Score], int]


def _more(one: float, other: float) -> int:
    return (one > other) - (one < other)


def _only(one: bool, other: bool) -> int:
    return int(one) - int(other)


class Scoring:
    """The order of pools for one request."""

    def __init__(self, request: Request, zones: MemoryZones, level: str, choices: Choices) -> None:
        self.request = request
        self._zones = zones
        self._level = LEVELS.index(level)
        self._one_order = choices.pools_have_one_order
        self._chain = list(self._comparisons())

    def sort(self, scores: list[Score]) -> list[Score]:
        """The scores, the best pool first, by insertion: the order in which the original compares so few."""
        found: list[Score] = []
        for score in scores:
            place = len(found)
            while place and self.compare(score, found[place - 1])[0] > 0:
                place -= 1
            found.insert(place, score)
        return found

    def compare(self, one: Score, other: Score) -> tuple[int, str]:
        """Above 0 if the pool of `one` is better, below 0 if it is worse, and the comparison that decided."""
        for name, comparison in self._chain:
            result = comparison(one, other)
            if result:
                return result, name
        return _more(other.pool.id, one.pool.id), "lower number"

    # -- the chain ----------------------------------------------------------------------------------------------------

    def _comparisons(self) -> Iterator[tuple[str, Comparison]]:
        request = self.request
        yield "enough CPU", self._enough
        yield "affinity", lambda one, other: _more(one.affinity, other.affinity)
        if request.container.hints:
            yield "hints", self._hints
        yield "memory offer", lambda one, other: _only(one.offer is not None, other.offer is not None)
        yield "kinds of memory offered", self._offered_kinds
        if request.memory_bytes != request.container.requests.memory_limit_bytes:
            yield "memory up to the limit", self._memory_limit
        if request.container.qos == "Burstable":
            yield "CPU up to the limit", self._cpu_limit if request.limit_m is not None else self._cpu_unlimited
        yield "fewer memory nodes", self._fewer_nodes
        if request.memory_kinds:
            yield "kinds of memory", lambda one, other: _only(self._has_kinds(one), self._has_kinds(other))
        if request.priority in (Priority.LOW, Priority.HIGH):
            yield "CPUs of the priority", self._priority
        yield "deeper pool", lambda one, other: _more(one.pool.depth, other.pool.depth)
        if request.kind is CpuKind.RESERVED:
            yield (
                "more reserved CPU for each container",
                lambda one, other: _more(
                    int(one.reserved_m / (one.tenants + 1)), int(other.reserved_m / (other.tenants + 1))
                ),
            )
        elif request.kind is CpuKind.NORMAL:
            yield "more free CPU", self._more_free

    def _enough(self, one: Score, other: Score) -> int:
        if self.request.kind is CpuKind.RESERVED:
            return _only(one.reserved_m >= 0, other.reserved_m >= 0)
        if self.request.kind is not CpuKind.NORMAL:
            return 0
        shared = _only(one.shared_m >= 0, other.shared_m >= 0)
        isolated = _only(one.isolated >= 0, other.isolated >= 0)
        if self._one_order:
            return shared or isolated
        return 1 if isolated > 0 or shared > 0 else -1 if isolated < 0 or shared < 0 else 0

    def _hints(self, one: Score, other: Score) -> int:
        (mine, mine_hit), (others, others_hit) = _combined(one.hints), _combined(other.hints)
        result = _more(mine, others)
        if not result and mine == 0:
            result = _more(mine_hit, others_hit)
        if result or not (mine or mine_hit):
            return result
        return _more(one.pool.depth, other.pool.depth) or _more(other.pool.id, one.pool.id)

    def _offered_kinds(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        wanted = self.request.memory_kinds
        return _only(self._zones.kinds_of(one.offer.zone) == wanted, self._zones.kinds_of(other.offer.zone) == wanted)

    def _memory_limit(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        limit, kinds = self.request.container.requests.memory_limit_bytes, self.request.memory_kinds or 0
        mine, others = (self._zones.capacity(score.pool.memory_of(kinds)) for score in (one, other))
        return _only(mine >= limit, others >= limit) if limit else _more(mine, others)

    def _cpu_limit(self, one: Score, other: Score) -> int:
        limit = self.request.limit_m or 0
        return _only(one.free_m >= limit, other.free_m >= limit)

    def _cpu_unlimited(self, one: Score, other: Score) -> int:
        """A pool of the preferred level, of these the one with more free; else one below that level."""
        mine, others = LEVELS.index(one.pool.level), LEVELS.index(other.pool.level)
        result = _only(mine == self._level, others == self._level)
        if not result and mine == self._level:
            result = _more(one.free_m, other.free_m)
        elif not result:
            result = _only(mine > self._level, others > self._level)
            if result < 0 and not self._one_order:
                return 1  # the original says so, too, when it is asked the other way round
        return result or _more(other.pool.id, one.pool.id)

    def _fewer_nodes(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        return _more(other.offer.zone.bit_count(), one.offer.zone.bit_count())

    def _has_kinds(self, score: Score) -> bool:
        wanted = self.request.memory_kinds or 0
        return score.pool.kinds() & wanted == wanted

    def _priority(self, one: Score, other: Score) -> int:
        priority = self.request.priority
        return _only(one.at_priority.get(priority, 0) >= 0, other.at_priority.get(priority, 0) >= 0)

    def _more_free(self, one: Score, other: Score) -> int:
        request = self.request
        if request.isolated and (one.isolated > 0 or other.isolated > 0):
            return _more(one.isolated, other.isolated)
        if request.priority is Priority.NORMAL and (result := self._priority(one, other)):
            return result
        if request.exclusive and (one.shared_m > 0 or other.shared_m > 0):
            return _more(one.shared_m, other.shared_m)
        return _more(other.tenants, one.tenants) or _more(one.shared_m, other.shared_m)


def _combined(scores: tuple[float, ...]) -> tuple[float, float]:
    """The product of all scores, and of those above 0; 0 if there are none."""
    whole, hit = 1.0, 0.0
    for score in scores:
        whole *= score
        if score:
            hit = score * (hit or 1.0)
    return (whole, hit) if scores else (0.0, 0.0)


def affinity_score(weights: dict[int, int], pool: Pool) -> float:
    """The affinity of a pool: of itself, of those above and of those in it, less with each step."""
    score = 0.0
    for step, above in enumerate(pool.above(), 1):
        score += _DISTANCE**step * weights.get(above.id, 0)
    for each in pool.below():
        score += _DISTANCE ** (each.depth - pool.depth) * weights.get(each.id, 0)
    return score
