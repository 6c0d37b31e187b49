"""Eviction of best-effort pods for CPU or memory: when, how much it has to free, and in which order they go.

CPU by satisfaction: what they get of what they ask for, on the average of a window and now. CPU and memory by usage of
the node. Next: `nri.policies.koordinator.loops.memory_qos`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["BatchCpu", "Candidate", "by_satisfaction", "by_usage", "victims"]

#: Percent below the threshold down to which is freed, unless NodeSLO says.
_BUFFER: Final = 2
_USAGE_PERCENT: Final = 90


class BatchCpu(NamedTuple):
    """CPU of all best-effort pods together, in thousandths: used, asked for, and what their folder allows."""

    used: float
    request: float
    limit: float


class Candidate(NamedTuple):
    """A pod that may be evicted. `frees` is what that would free, in the unit of the need."""

    name: str
    frees: int
    priority: int = 0
    used: int = 0


def by_satisfaction(
    average: BatchCpu, now: BatchCpu, lower_percent: int, upper_percent: int, usage_percent: int = _USAGE_PERCENT
) -> int:
    """Return how many thousandths of a CPU of requests are to be freed; 0 for none.

    Args:
        average: over the window; too few samples are the caller's business.
        now: the last sample.
        lower_percent: limit in percent of requests at which eviction begins.
        upper_percent: up to which it goes on.
        usage_percent: only while the pods use as much of what they are allowed.
    """
    needs = []
    for sample in (average, now):
        if not _busy(sample, usage_percent) or sample.request <= 0:
            return 0
        rate = sample.limit / sample.request
        gap = upper_percent / 100 - rate
        if rate > lower_percent / 100 or gap <= 0:
            return 0
        needs.append(int(sample.request * gap))
    return min(needs)


def by_usage(used: int, capacity: int, percent: int, lower_percent: int | None = None) -> int:
    """Return how much of CPU or memory is to be freed on a node; 0 below the threshold.

    Raises:
        ValueError: the threshold is negative, or not above what is freed down to.
    """
    lower = percent - _BUFFER if lower_percent is None else lower_percent
    if percent < 0 or lower >= percent:
        raise ValueError(f"evicting at {percent} % down to {lower} % makes no sense")
    if capacity <= 0:
        return 0
    usage = used * 100 // capacity
    return 0 if usage < percent else capacity * (usage - lower) // 100


def victims(candidates: Iterable[Candidate], need: int) -> list[Candidate]:
    """Return whom to evict until the need is met: lower priority first, then who uses more, then by name."""
    chosen: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda each: (each.priority, -each.used, each.name)):
        if need <= 0:
            break
        if candidate.frees > 0:
            chosen.append(candidate)
            need -= candidate.frees
    return chosen


def _busy(sample: BatchCpu, percent: int) -> bool:
    """Whether the pods use what they are allowed; less than one CPU always counts as used up."""
    return 0 < sample.limit < 1000 or (sample.limit > 0 and sample.used / sample.limit >= percent / 100)
