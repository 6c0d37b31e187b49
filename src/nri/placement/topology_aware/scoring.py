"""Rank pools for a request by a chain of comparisons. The first comparison with a difference decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nri.placement.choices import Choices
from nri.placement.machine import Machine, Priority
from nri.placement.topology_aware.pools import LEVELS, Pool
from nri.placement.topology_aware.requests import CpuKind, Request
from nri.placement.zones import MemoryZones, Offer
from nri.text import count

#: Factor of another pool's affinity for each step to it in the tree.
_STEP_FACTOR = 0.75


@dataclass(slots=True)
class Score:
    """The resources that a pool would have left after a request, and how well the pool fits.

    Attributes:
        isolated: the number of isolated CPUs left; negative if there are too few.
        reserved_m: thousandths of reserved CPUs left; negative if there are too few.
        shared_m: thousandths of shared CPUs left; negative if there are too few.
        free_m: thousandths of shared CPUs before the request.
        at_priority: thousandths of CPUs left by priority.
        tenants: the number of containers with CPUs of the same kind.
        offer: the offer of memory, or None.
        lack: why there is no offer, or why the pool could not serve the request.
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
        """Make a score without memory and affinity."""
        free_m = pool.free_shared_m()
        score = cls(pool, reserved_m=pool.free_reserved_m(), shared_m=free_m, free_m=free_m)
        score.tenants = pool.tenants.get(request.kind, 0)
        score.hints = tuple(pool.hint_score(hint) for hint in request.container.hints.values())
        shared = request.shared_m or int(not request.exclusive)  # a request for nothing counts as 1m
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
        """The resources that the pool lacks for a request, in words. Returns "" if the pool has enough."""
        if request.kind is CpuKind.RESERVED:
            if self.reserved_m < 0:
                return f"{-self.reserved_m}m reserved CPU"
        elif self.shared_m < 0:
            return f"{-self.shared_m}m CPU" if request.exclusive or request.shared_m else "a free shared CPU"
        elif request.only_isolated and self.isolated < 0:
            return count(-self.isolated, "isolated CPU")
        return self.lack or ("" if self.offer else "memory")


#: A comparison returns a positive number if the first pool is better, a negative number if the second pool is better,
#: and 0 if the next comparison decides.
Comparison = Callable[[Score, Score], int]


def _compare_numbers(one: float, other: float) -> int:
    return (one > other) - (one < other)


def _compare_flags(one: bool, other: bool) -> int:
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
        """Sort scores, the best pool first, by insertion, because nri-plugins compares short lists in this order."""
        ranked: list[Score] = []
        for score in scores:
            place = len(ranked)
            while place and self.compare(score, ranked[place - 1])[0] > 0:
                place -= 1
            ranked.insert(place, score)
        return ranked

    def compare(self, one: Score, other: Score) -> tuple[int, str]:
        """The name of the decisive comparison, and its result: positive if `one` is better, negative if `other` is."""
        for name, comparison in self._chain:
            result = comparison(one, other)
            if result:
                return result, name
        return _compare_numbers(other.pool.id, one.pool.id), "lower number"

    # -- the chain ----------------------------------------------------------------------------------------------------

    def _comparisons(self) -> Iterator[tuple[str, Comparison]]:
        request = self.request
        yield "enough CPU", self._compare_free
        yield "affinity", lambda one, other: _compare_numbers(one.affinity, other.affinity)
        if request.container.hints:
            yield "hints", self._hints
        yield "memory offer", lambda one, other: _compare_flags(one.offer is not None, other.offer is not None)
        yield "kinds of memory offered", self._offered_kinds
        if request.memory_bytes != request.container.requests.memory_limit_bytes:
            yield "memory up to the limit", self._memory_limit
        if request.container.qos == "Burstable":
            yield "CPU up to the limit", self._cpu_limit if request.limit_m is not None else self._cpu_unlimited
        yield "fewer memory nodes", self._fewer_nodes
        if request.memory_kinds:
            yield "kinds of memory", lambda one, other: _compare_flags(self._has_kinds(one), self._has_kinds(other))
        if request.priority in (Priority.LOW, Priority.HIGH):
            yield "CPUs of the priority", self._priority
        yield "deeper pool", lambda one, other: _compare_numbers(one.pool.depth, other.pool.depth)
        if request.kind is CpuKind.RESERVED:
            yield (
                "more reserved CPU for each container",
                lambda one, other: _compare_numbers(
                    int(one.reserved_m / (one.tenants + 1)), int(other.reserved_m / (other.tenants + 1))
                ),
            )
        elif request.kind is CpuKind.NORMAL:
            yield "more free CPU", self._more_free

    def _compare_free(self, one: Score, other: Score) -> int:
        if self.request.kind is CpuKind.RESERVED:
            return _compare_flags(one.reserved_m >= 0, other.reserved_m >= 0)
        if self.request.kind is not CpuKind.NORMAL:
            return 0
        shared = _compare_flags(one.shared_m >= 0, other.shared_m >= 0)
        isolated = _compare_flags(one.isolated >= 0, other.isolated >= 0)
        if self._one_order:
            return shared or isolated
        return 1 if isolated > 0 or shared > 0 else -1 if isolated < 0 or shared < 0 else 0

    def _hints(self, one: Score, other: Score) -> int:
        (one_score, one_hit), (other_score, other_hit) = _combined_scores(one.hints), _combined_scores(other.hints)
        result = _compare_numbers(one_score, other_score)
        if not result and one_score == 0:
            result = _compare_numbers(one_hit, other_hit)
        if result or not (one_score or one_hit):
            return result
        return _compare_numbers(one.pool.depth, other.pool.depth) or _compare_numbers(other.pool.id, one.pool.id)

    def _offered_kinds(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        kinds = self.request.memory_kinds
        return _compare_flags(
            self._zones.kinds_of(one.offer.zone) == kinds, self._zones.kinds_of(other.offer.zone) == kinds
        )

    def _memory_limit(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        limit, kinds = self.request.container.requests.memory_limit_bytes, self.request.memory_kinds or 0
        one_capacity, other_capacity = (self._zones.capacity(score.pool.memory_of(kinds)) for score in (one, other))
        return (
            _compare_flags(one_capacity >= limit, other_capacity >= limit)
            if limit
            else _compare_numbers(one_capacity, other_capacity)
        )

    def _cpu_limit(self, one: Score, other: Score) -> int:
        limit = self.request.limit_m or 0
        return _compare_flags(one.free_m >= limit, other.free_m >= limit)

    def _cpu_unlimited(self, one: Score, other: Score) -> int:
        """Prefer a pool of the preferred level, with more free CPU; else a pool below that level."""
        one_level, other_level = LEVELS.index(one.pool.level), LEVELS.index(other.pool.level)
        result = _compare_flags(one_level == self._level, other_level == self._level)
        if not result and one_level == self._level:
            result = _compare_numbers(one.free_m, other.free_m)
        elif not result:
            result = _compare_flags(one_level > self._level, other_level > self._level)
            if result < 0 and not self._one_order:
                return 1  # nri-plugins prefers the first pool in either order
        return result or _compare_numbers(other.pool.id, one.pool.id)

    def _fewer_nodes(self, one: Score, other: Score) -> int:
        if one.offer is None or other.offer is None:
            return 0
        return _compare_numbers(other.offer.zone.bit_count(), one.offer.zone.bit_count())

    def _has_kinds(self, score: Score) -> bool:
        kinds = self.request.memory_kinds or 0
        return score.pool.kinds() & kinds == kinds

    def _priority(self, one: Score, other: Score) -> int:
        priority = self.request.priority
        return _compare_flags(one.at_priority.get(priority, 0) >= 0, other.at_priority.get(priority, 0) >= 0)

    def _more_free(self, one: Score, other: Score) -> int:
        request = self.request
        if request.isolated and (one.isolated > 0 or other.isolated > 0):
            return _compare_numbers(one.isolated, other.isolated)
        if request.priority is Priority.NORMAL and (result := self._priority(one, other)):
            return result
        if request.exclusive and (one.shared_m > 0 or other.shared_m > 0):
            return _compare_numbers(one.shared_m, other.shared_m)
        return _compare_numbers(other.tenants, one.tenants) or _compare_numbers(one.shared_m, other.shared_m)


def _combined_scores(scores: tuple[float, ...]) -> tuple[float, float]:
    """The product of all scores, and the product of the scores above 0. Returns (0, 0) without scores."""
    product, hit = 1.0, 0.0
    for score in scores:
        product *= score
        if score:
            hit = score * (hit or 1.0)
    return (product, hit) if scores else (0.0, 0.0)


def affinity_score(weights: dict[int, int], pool: Pool) -> float:
    """The affinity of a pool: the sum of weights of the pools above and below, reduced with each step."""
    score = 0.0
    for step, above in enumerate(pool.above(), 1):
        score += _STEP_FACTOR**step * weights.get(above.id, 0)
    for inner in pool.below():
        score += _STEP_FACTOR ** (inner.depth - pool.depth) * weights.get(inner.id, 0)
    return score
