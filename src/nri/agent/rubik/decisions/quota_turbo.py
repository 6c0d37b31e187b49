"""Quotas above the limit while the node has CPU to spare: the seven steps of one tick.

1. The node's use U over the tick, kept for a minute. 2. Period, quota, throttling and use of each container. 3. From
the high mark on, quotas above the limit fall slowly, but for containers that are being throttled. 4. From the alarm
mark on, they fall by all that is above it. 5. Below it, on a node whose use holds still, throttled containers rise.
6. A container has no more than its limit over the last sixty ticks, and never less than its limit now. 7. The quota
and those of the cgroups above it change together.

Times are nanoseconds, quotas and periods microseconds, limits CPUs. Next: `nri.agent.rubik.decisions.evict`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nri.agent.rubik.pods import Pod
from nri.agent.rubik.service import Ticks, share
from nri.config import Between
from nri.config.complaint import WrongValue
from nri.policies.formulas import MIN_QUOTA_US, UNLIMITED
from nri.policies.writes import Write

__all__ = [
    "ANNOTATION",
    "Knobs",
    "Managed",
    "Reading",
    "Turbo",
    "chain",
    "deltas",
    "elevate",
    "fast_fallback",
    "height",
    "manageable",
    "max_next",
    "next_quota",
    "quota_of_limit",
    "restored",
    "slow_fallback",
]

ANNOTATION: Final = "volcano.sh/quota-turbo"
_MINUTE_NS: Final = 60 * 10**9
_MOST_SAMPLES: Final = 59
#: The most that a quota grows to, in limits; and from how much saved on it may, in heights.
_HEIGHT, _PLENTY = 2, 3
_TOPS: Final = ("kubepods", "kubepods.slice")
_PERCENT: Final = Between(0, 100)


@dataclass(frozen=True, slots=True)
class Knobs:
    """Marks and steps, in percent of the node but for `slowFallbackRatio`. Raises WrongValue for what cannot be."""

    highWaterMark: int = 60
    alarmWaterMark: int = 80
    elevateLimit: float = 1.0
    slowFallbackRatio: float = 0.1
    cpuFloatingLimit: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.highWaterMark < self.alarmWaterMark <= 100:
            reason = f"{self.highWaterMark} and alarmWaterMark {self.alarmWaterMark} do not ascend from 0 to 100"
            raise WrongValue("highWaterMark", reason, "such as 60 and 80")
        for key in ("elevateLimit", "cpuFloatingLimit"):
            if not _PERCENT.admits(getattr(self, key)):
                raise WrongValue(key, f"{getattr(self, key)} is not {_PERCENT}", "say a percentage")


class Reading(NamedTuple):
    """One reading of a container's cgroup."""

    quota: int
    period: int
    throttled: int
    throttled_ns: int
    usage_ns: int


@dataclass(slots=True)
class Managed:
    """A container with its last two readings of throttling, and its use at each tick: pairs of time and use."""

    folder: str
    limit: float
    quota: int
    period: int
    throttled: int = 0
    throttled_ns: int = 0
    throttled_before: int = 0
    throttled_ns_before: int = 0
    usages: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLES))

    def base(self) -> int:
        """The quota of the limit in whole microseconds."""
        return quota_of_limit(self.limit, self.period)

    def least(self) -> int:
        """The lowest quota: that of the limit, or the kernel's least, which a kubelet gives a smaller limit."""
        return max(self.base(), MIN_QUOTA_US)

    def newly_throttled(self) -> int:
        """In how many periods it was throttled since the last reading."""
        return self.throttled - self.throttled_before

    def take(self, reading: Reading, now: int) -> None:
        """Take a new reading."""
        self.throttled_before, self.throttled_ns_before = self.throttled, self.throttled_ns
        self.quota, self.period = reading.quota, reading.period
        self.throttled, self.throttled_ns = reading.throttled, reading.throttled_ns
        self.usages.append((now, reading.usage_ns))


Deltas = dict[str, float]


def quota_of_limit(limit: float, period: int) -> int:
    """Return the quota of a limit in CPUs, in whole microseconds, as a kubelet sets it.

    The product is rounded before the fraction is dropped: 0.29 * 100000 is 28999.999999999996.
    """
    return math.floor(round(limit * period, 3))


def slow_fallback(found: Iterable[Managed], use: float, knobs: Knobs) -> Deltas:
    """Return by how much quotas above the limit fall from the high mark on."""
    if use < knobs.highWaterMark:
        return {}
    part = (use - knobs.highWaterMark) / (knobs.alarmWaterMark - knobs.highWaterMark) * knobs.slowFallbackRatio
    return {
        each.folder: part * (each.base() - each.quota)
        for each in found
        if each.quota > each.base() and not each.newly_throttled()
    }


def fast_fallback(found: Iterable[Managed], use: float, cpus: int, knobs: Knobs) -> Deltas:
    """Return by how much quotas above the limit fall from the alarm mark on: together all that is above the mark."""
    # Whole microseconds: a difference of CPUs as floats may be 0, or less, for a quota that is above the limit.
    excess = {each.folder: (each, each.quota - each.base()) for each in found if each.quota > each.base()}
    excess_cpus = sum(more_us / each.period for each, more_us in excess.values() if each.period > 0)
    if use < knobs.alarmWaterMark or excess_cpus <= 0:
        return {}
    part = (knobs.alarmWaterMark - use) / 100 * cpus / excess_cpus
    return {name: part * more_us for name, (each, more_us) in excess.items() if each.period > 0}


def elevate(found: Iterable[Managed], uses: Sequence[float], cpus: int, knobs: Knobs) -> Deltas:
    """Return by how much throttled containers rise: by what they lacked, at most by `elevateLimit` together."""
    use = uses[-1] if uses else 0.0
    if uses and max(uses) - min(uses) > knobs.cpuFloatingLimit:
        return {}
    if knobs.alarmWaterMark - use < knobs.elevateLimit:
        return {}
    needs = {
        each.folder: (
            each,
            (each.throttled_ns - each.throttled_ns_before) / 1000 / each.newly_throttled() / each.period,
        )
        for each in found
        # A counter that went back belongs to a cgroup that was made again, and says nothing about this one.
        if each.newly_throttled() > 0 and each.throttled_ns > each.throttled_ns_before and each.period > 0
    }
    total = sum(need for _, need in needs.values())
    if not needs:
        return {}
    part = min(total, knobs.elevateLimit / 100 * cpus) / total
    return {name: need * part * each.period for name, (each, need) in needs.items()}


def deltas(found: Sequence[Managed], uses: Sequence[float], cpus: int, knobs: Knobs) -> Deltas:
    """Return the sum of the three steps, by folder; `uses` are those of the last minute, the last one of now."""
    limited = [each for each in found if each.quota != UNLIMITED]
    use = uses[-1] if uses else 0.0
    total = dict.fromkeys((each.folder for each in found), 0.0)
    parts = (
        slow_fallback(limited, use, knobs),
        fast_fallback(limited, use, cpus, knobs),
        elevate(limited, uses, cpus, knobs),
    )
    for part in parts:
        for name, value in part.items():
            total[name] += value
    return total


def height(limit: float, period: int) -> float:
    """Return the highest quota of a container."""
    return _HEIGHT * limit * period


def max_next(limit: float, period: int, usages: Sequence[tuple[int, int]]) -> float:
    """Return the highest quota for the next tick, by what the container has left of its limit."""
    base, most = limit * period, height(limit, period)
    count, spent = len(usages), float(usages[-1][0] - usages[0][0]) if usages else 0.0
    if count < 2 or spent <= 0 or most <= 0:
        return most
    left = limit * (count / (count - 1)) * spent - (usages[-1][1] - usages[0][1])
    quota = left / spent * (count - 1) * period
    if quota > _PLENTY * most:
        return most
    return min(max(base + (most - base) * quota / (_PLENTY * most), base), most)


def next_quota(each: Managed, delta: float) -> int:
    """Return the next quota of a container: whole microseconds, never below its limit, or the kernel's least."""
    if each.quota + delta <= each.least():  # it may have more, and does not need it: most containers, most of the time
        return each.least()
    return max(int(min(each.quota + delta, max_next(each.limit, each.period, each.usages))), each.least())


def manageable(limit: float | None, cpus: int) -> bool:
    """Whether a container has a limit that leaves something to rise to."""
    return limit is not None and 0 < limit < cpus


def chain(folder: str, before: int, after: int, quota_of: Callable[[str], int | None]) -> list[Write]:
    """Return the writes for a container and the cgroups above it, below that of all pods, in order.

    Growing begins at the top, shrinking at the container. A cgroup without a limit stays without, and one that would
    fall below the least quota of a kernel stays as it is. All of them hold, or none: whoever writes puts back what it
    wrote if one is refused.

    Raises:
        ValueError: there is no folder of its own, or one whose quota cannot be read.
    """
    if before == after:
        return []
    names = [name for name in folder.split("/") if name]
    if not names or names[-1] in _TOPS:
        raise ValueError("a container without a folder has no quota")
    first = 2 if names[0] in _TOPS else 1
    values = []
    for depth in range(first, len(names) + 1):
        name = "/".join(names[:depth])
        quota = quota_of(name)
        if quota is None:
            raise ValueError(f"the quota of {name} cannot be read")
        falls_too_low = after < before and quota + after - before < MIN_QUOTA_US and depth < len(names)
        if quota != UNLIMITED and not falls_too_low:
            values.append((name, quota + after - before))
    if after < before:
        values.reverse()
    return [Write(name, "cpu.cfs_quota", str(value), "quotaTurbo") for name, value in values]


def restored(pod: Pod, period_of: Callable[[str], int | None]) -> list[Write]:
    """Return the writes that give a pod and its containers the quotas of their limits, to the pod their sum.

    A container without a limit, and its pod, are unlimited. If a limit is not known nothing is written.
    """
    found: list[tuple[str, int]] = []
    for each in pod.containers:
        period = period_of(each.folder)
        if each.cpu_limit is None:
            return []
        if each.cpu_limit == 0 or period is not None:
            found.append((each.folder, quota_of_limit(each.cpu_limit, period or 0) if each.cpu_limit else UNLIMITED))
    quotas = [quota for _, quota in found]
    found.insert(0, (pod.folder, UNLIMITED if UNLIMITED in quotas else sum(quotas)))
    return [Write(folder, "cpu.cfs_quota", str(value), "quotaTurbo") for folder, value in found]


class Turbo:
    """The containers and the node's use over time.

    Attributes:
        managed: the containers, by folder.
        cpus: how many the node has.
        knobs: marks and steps; others hold from the next tick on.
    """

    def __init__(self, cpus: int, knobs: Knobs | None = None) -> None:
        self.managed: dict[str, Managed] = {}
        self.cpus, self.knobs = cpus, knobs or Knobs()
        self._last: Ticks | None = None
        self._uses: deque[tuple[int, float]] = deque()

    def add(self, folder: str, limit: float | None, reading: Reading, now: int) -> None:
        """Manage a container. Raises ValueError if its limit leaves nothing to decide, or its folder is not known."""
        if limit is None or not manageable(limit, self.cpus):
            raise ValueError(f"a limit of {limit} CPUs leaves nothing to raise on {self.cpus}")
        if not folder:
            raise ValueError("a container without a folder has no quota")
        new = Managed(folder, limit, reading.quota, reading.period)
        new.take(reading, now)
        new.take(reading, now)
        new.usages.pop()
        self.managed.setdefault(folder, new)

    def remove(self, folder: str) -> int | None:
        """Forget a container; return the quota of its limit, which it gets back."""
        each = self.managed.pop(folder, None)
        return None if each is None else each.least()

    def observe(self, ticks: Ticks, now: int) -> float:
        """Take a reading of the node; return the percent in use since the last one, 0 at the first."""
        last, self._last = self._last, ticks
        if last is None:
            return 0.0
        use = share(last, ticks)
        self._uses.append((now, use))
        while self._uses[0][0] < now - _MINUTE_NS:
            self._uses.popleft()
        return use

    def why_unchanged(self, folder: str) -> str:
        """Return why the last tick left a container's quota as it was."""
        container, uses = self.managed.get(folder), [use for _, use in self._uses.copy()]
        if container is None:
            return "its quota and use cannot be read"
        if container.quota == UNLIMITED:
            return "its quota is unlimited"
        if not uses:
            return "the node's use is not known yet"
        if self.knobs.alarmWaterMark - uses[-1] < self.knobs.elevateLimit:
            mark = self.knobs.alarmWaterMark - self.knobs.elevateLimit
            return f"the node uses {uses[-1]:.0f} %; quotas rise while it uses {mark:g} % or less"
        if max(uses) - min(uses) > self.knobs.cpuFloatingLimit:
            span, limit = max(uses) - min(uses), self.knobs.cpuFloatingLimit
            return f"the node's use varied by {span:.0f} % in a minute; quotas rise while it is {limit:g} or less"
        if container.newly_throttled() <= 0:
            return "it was not throttled in the last tick"
        return "it has used up what it may have above its limit"

    def decide(self, readings: Mapping[str, Reading], now: int) -> dict[str, int]:
        """Take readings of the containers; return the next quota of each that has one, by folder."""
        found = [each for name, each in self.managed.items() if name in readings]
        for each in found:
            each.take(readings[each.folder], now)
        total = deltas(found, [use for _, use in self._uses], self.cpus, self.knobs)
        return {each.folder: next_quota(each, total[each.folder]) for each in found if each.quota != UNLIMITED}
