"""Last-level cache and memory bandwidth of offline pods: five resctrl groups, one of which moves with cache misses.

A share of the cache is a run of ways from the lowest on. Next: `nri.agent.rubik.io_limit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.rubik.blocks import DynCache
from nri.agent.rubik.pods import Pod, offline

__all__ = [
    "ANNOTATION",
    "DYNAMIC",
    "GROUPS",
    "Misses",
    "Shares",
    "group_of",
    "group_shares",
    "mask",
    "miss_percent",
    "schemata",
    "step",
    "tasks",
    "uses",
]

ANNOTATION: Final = "volcano.sh/cache-limit"
_LEVELS: Final = ("low", "middle", "high", "max", "dynamic")
#: The group of each level.
GROUPS: Final = {level: f"rubik_{level}" for level in _LEVELS}
DYNAMIC: Final = GROUPS["dynamic"]
#: Percent of misses: at one of MOST limits fall, with all below LEAST they rise; and by how many points.
_MOST, _LEAST, _FALL, _RISE = 20, 10, 50, 5


class Shares(NamedTuple):
    """Percent of the cache and of the memory bandwidth."""

    l3: int
    mb: int


class Misses(NamedTuple):
    """Whole percent of references that missed the cache, and of accesses that missed the last level."""

    cache: int = 0
    llc: int = 0


def mask(width: int, percent: int) -> int:
    """Return the mask of a share: so many ways from the lowest on, rounded down, at least one."""
    return (1 << max(width * percent // 100, 1)) - 1


def group_shares(config: DynCache) -> dict[str, Shares]:
    """Return the shares of each group; that of the dynamic one is where it starts."""
    cache, band = config.l3Percent, config.memBandPercent
    low = Shares(cache.low, band.low)
    shares = (low, Shares(cache.mid, band.mid), Shares(cache.high, band.high), Shares(100, 100), low)
    return dict(zip(GROUPS.values(), shares, strict=True))


def schemata(
    width: int, shares: Shares, domains: Mapping[str, Iterable[int]], least: int = 1
) -> dict[str, dict[int, int]]:
    """Return the schemata of a group, by resource and cache domain.

    Args:
        width: of the cache's mask.
        shares: of the group.
        domains: those of each resource that there is.
        least: ways that a mask has at least.
    """
    ways = mask(width, shares.l3) | mask(least, 100)
    values = {"L3": ways, "MB": shares.mb}
    return {name: dict.fromkeys(domains[name], value) for name, value in values.items() if name in domains}


def group_of(pod: Pod, default: str) -> str:
    """Return the group of an offline pod; `default` is static or dynamic. Raises ValueError for another level."""
    level = pod.annotations.get(ANNOTATION) or {"static": "max", "dynamic": "dynamic"}[default]
    if level not in GROUPS:
        raise ValueError(f"{ANNOTATION} {level!r} is none of {', '.join(GROUPS)}")
    return GROUPS[level]


def uses(pods: Iterable[Pod], default: str) -> bool:
    """Whether an offline pod is in the dynamic group."""
    for pod in pods:
        try:
            if offline(pod) and group_of(pod, default) == DYNAMIC:
                return True
        except ValueError:
            continue
    return False


def miss_percent(missed: int, all_of_them: int) -> int:
    """Return the whole percent that missed."""
    return 100 * missed // (1 + all_of_them)


def step(now: Shares, misses: Sequence[Misses], config: DynCache, most: int = _MOST, least: int = _LEAST) -> Shares:
    """Return the dynamic group's next shares by the misses of the online pods; unmeasured pods count as quiet."""
    cache, band = config.l3Percent, config.memBandPercent
    if any(max(each) >= most for each in misses):
        return Shares(max(now.l3 - _FALL, cache.low), max(now.mb - _FALL, band.low))
    if all(max(each) < least for each in misses):
        return Shares(min(now.l3 + _RISE, cache.high), min(now.mb + _RISE, band.high))
    return now


def tasks(pods: Iterable[Pod], default: str, processes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the processes of offline pods by group; `processes` are those of each container's folder."""
    found: dict[str, list[int]] = {}
    for pod in filter(offline, pods):
        try:
            group = group_of(pod, default)
        except ValueError:
            continue
        for container in pod.containers:
            found.setdefault(group, []).extend(processes.get(container.folder, ()))
    return {group: numbers for group, numbers in found.items() if numbers}
