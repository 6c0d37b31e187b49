"""dynCache: offline pods have a part of the last-level cache and of memory bandwidth, by five resctrl groups.

A share of the cache is a run of ways from the lowest on. A pod's group is that of the level in its annotation
`volcano.sh/cache-limit`; a pod whose annotation cannot be read keeps its last valid level. Cache misses of online pods
move the share of the dynamic group, where the processor counts them; else it stays where it starts, which is reported.
Caches have the numbers of their domains. The groups are removed when the service is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.model import Pod, Resctrl
from nri.agent.rubik.event_counts import Counting
from nri.agent.rubik.pods import PREEMPTIBLE, offline
from nri.agent.rubik.service import Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import WrongValue
from nri.host import Unsupported, resctrl
from nri.host.perf import Event

__all__ = [
    "ANNOTATION",
    "DYNAMIC",
    "GROUPS",
    "Bandwidths",
    "Block",
    "DynCache",
    "Misses",
    "Percents",
    "Shares",
    "check",
    "group_of",
    "group_shares",
    "mask",
    "miss_percent",
    "schemata",
    "step",
    "tasks",
    "uses_dynamic",
]

NAME: Final = "dynCache"
ANNOTATION: Final = "volcano.sh/cache-limit"
_LEVELS: Final = ("low", "middle", "high", "max", "dynamic")
#: The resctrl group of each level.
GROUPS: Final = {level: f"rubik_{level}" for level in _LEVELS}
DYNAMIC: Final = GROUPS["dynamic"]
#: Percent of misses: at MANY or more of one pod shares fall, with fewer than FEW of all pods they rise; and the points.
_MANY_PERCENT, _FEW_PERCENT, _FALL_POINTS, _RISE_POINTS = 20, 10, 50, 5
_EVENTS: Final = (Event.REFERENCES, Event.MISSES, Event.LAST_LEVEL_READS, Event.LAST_LEVEL_MISSES)
#: The longest pause between two searches for processes of offline pods, in seconds.
_MAX_PAUSE_S: Final = 1.0
_MS_PER_S: Final = 1000
_Milliseconds = Annotated[int, Between(10, 10_000)]
_Percent = Annotated[int, Between(10, 100)]


@dataclass(frozen=True, slots=True)
class Percents:
    """Shares of three groups, in percent."""

    low: _Percent = 20
    mid: _Percent = 30
    high: _Percent = 50

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise WrongValue("low", f"{self.low}, mid {self.mid} and high {self.high} do not ascend", "sort them")


@dataclass(frozen=True, slots=True)
class Bandwidths(Percents):
    """Shares of memory bandwidth of three groups, in percent."""

    low: _Percent = 10


@dataclass(frozen=True, slots=True)
class Block:
    """Last-level cache and memory bandwidth of offline pods; times in milliseconds."""

    defaultLimitMode: Literal["static", "dynamic"] = "static"
    adjustInterval: _Milliseconds = 1000
    perfDuration: _Milliseconds = 1000
    l3Percent: Percents = field(default_factory=Percents)
    memBandPercent: Bandwidths = field(default_factory=Bandwidths)


class Shares(NamedTuple):
    """Percent of the cache and of the memory bandwidth."""

    l3: int
    mb: int


class Misses(NamedTuple):
    """Whole percent of references that missed the cache, and of accesses that missed the last level."""

    cache: int = 0
    llc: int = 0


def mask(width: int, percent: int) -> int:
    """Return the mask of a share: this percentage of `width` ways from the lowest on, rounded down, at least one."""
    return (1 << max(width * percent // 100, 1)) - 1


def group_shares(block: Block) -> dict[str, Shares]:
    """Return the shares of each group; that of the dynamic group is its start."""
    cache, band = block.l3Percent, block.memBandPercent
    low = Shares(cache.low, band.low)
    shares = (low, Shares(cache.mid, band.mid), Shares(cache.high, band.high), Shares(100, 100), low)
    return dict(zip(GROUPS.values(), shares, strict=True))


def schemata(
    width: int, shares: Shares, domains: Mapping[str, Iterable[int]], least: int = 1
) -> dict[str, dict[int, int]]:
    """Return the schemata of a group, by resource and cache domain.

    Args:
        width: of the cache's mask, in bits.
        shares: of the group.
        domains: the domains of each resource that the machine has.
        least: the minimum number of ways in a mask.
    """
    ways = mask(width, shares.l3) | mask(least, 100)
    values = {"L3": ways, "MB": shares.mb}
    return {name: dict.fromkeys(domains[name], value) for name, value in values.items() if name in domains}


def group_of(pod: Pod, default: str) -> str:
    """Return the group of an offline pod; `default` is static or dynamic. Raises ValueError for another level."""
    level = pod.annotations.get(ANNOTATION) or {"static": "max", "dynamic": "dynamic"}[default]
    if level not in GROUPS:
        raise ValueError(f"{ANNOTATION} {level!r} is not one of {', '.join(GROUPS)}")
    return GROUPS[level]


def check(annotations: Mapping[str, str]) -> None:
    """Raise ValueError for a level that does not exist."""
    group_of(Pod(annotations=annotations), "static")


def uses_dynamic(pods: Iterable[Pod], default: str) -> bool:
    """Whether an offline pod is in the dynamic group."""
    for pod in pods:
        try:
            if offline(pod) and group_of(pod, default) == DYNAMIC:
                return True
        except ValueError:
            continue
    return False


def miss_percent(missed: int, total: int) -> int:
    """Return the whole percent that missed."""
    return 100 * missed // (1 + total)


def step(
    now: Shares,
    misses: Sequence[Misses],
    block: Block,
    up_percent: int = _MANY_PERCENT,
    down_percent: int = _FEW_PERCENT,
) -> Shares:
    """Return the dynamic group's next shares by the misses of the online pods; unmeasured pods count as quiet."""
    cache, band = block.l3Percent, block.memBandPercent
    if any(max(percents) >= up_percent for percents in misses):
        return Shares(max(now.l3 - _FALL_POINTS, cache.low), max(now.mb - _FALL_POINTS, band.low))
    if all(max(percents) < down_percent for percents in misses):
        return Shares(min(now.l3 + _RISE_POINTS, cache.high), min(now.mb + _RISE_POINTS, band.high))
    return now


def tasks(pods: Iterable[Pod], default: str, processes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the processes of offline pods by group; `processes` are those of each container's cgroup."""
    by_group: dict[str, list[int]] = {}
    for pod in filter(offline, pods):
        try:
            group = group_of(pod, default)
        except ValueError:
            continue
        for container in pod.containers:
            by_group.setdefault(group, []).extend(processes.get(container.folder, ()))
    return {group: numbers for group, numbers in by_group.items() if numbers}


class DynCache(Service):
    """Keeps the resctrl groups, and the processes of offline pods in them."""

    name = NAME

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._counting = Counting(NAME, _EVENTS)
        #: The shares of the dynamic group; None before the first round.
        self.dynamic: Shares | None = None
        #: When misses are counted next, in monotonic seconds.
        self._due = 0.0
        self._has_groups = False

    def __len__(self) -> int:
        """The number of pods whose misses are counted."""
        return len(self._counting)

    def wants(self, rules: Services) -> bool:
        """Whether the file switches it on, or groups remain to be removed."""
        return super().wants(rules) or self._has_groups

    def pause_s(self) -> float:
        """Return the interval of the file, but no more than a second: processes start and end."""
        return min(float(self.block.adjustInterval) / _MS_PER_S, _MAX_PAUSE_S)

    def changed(self) -> None:
        """Begin again with another block."""
        self.dynamic = None
        self._counting.end()

    def state(self, now: float) -> str:  # noqa: ARG002  no part of it depends on the time
        """Return the shares of the dynamic group."""
        shares = self.dynamic
        return "" if shares is None else f"the dynamic group has {shares.l3} % of the cache, {shares.mb} % of bandwidth"

    def round(self, round_: Round[Services]) -> None:
        """Put the processes of offline pods into their groups, whose shares follow the misses of online ones."""
        try:
            abilities = resctrl.Resctrl(round_.parts.root).capabilities()
        except ValueError as error:
            abilities = Unsupported(str(error))
        cache = None if isinstance(abilities, Unsupported) else abilities.caches.get("L3")
        if isinstance(abilities, Unsupported) or cache is None:
            shared = "the processor shares no last-level cache"
            reason = abilities.reason if isinstance(abilities, Unsupported) else shared
            round_.cannot(NAME, "offline pods have all of the cache", reason)
            return
        if not self.on:
            round_.groups += [Resctrl(group, remove=True) for group in GROUPS.values()]
            self._counting.end()
            self._has_groups = False
            return
        online, pods = self._by_class(round_)
        shares = {**group_shares(self.block), DYNAMIC: self._next_dynamic(round_, online, pods)}
        members = self._members(round_, pods)
        for group, share in shares.items():
            values = schemata(cache.mask.bit_length(), share, abilities.domains, cache.least_bits)
            lines = "".join(resctrl.format_line(resource, by_domain) for resource, by_domain in values.items())
            round_.groups.append(Resctrl(group, lines, tuple(members.get(group, ()))))
        self._has_groups = True

    def _members(self, round_: Round[Services], pods: Sequence[Pod]) -> dict[str, list[int]]:
        """Return the processes of offline pods by group; that there are none at all is reported."""
        executor = round_.parts.executor
        processes = {c.folder: executor.threads(c.folder) for pod in pods for c in pod.containers}
        if processes and not any(processes.values()):
            round_.errors.append(f"{NAME}: no process of an offline pod is seen: an agent in a pod needs hostPID")
        return tasks(pods, self.block.defaultLimitMode, processes)

    @staticmethod
    def _by_class(round_: Round[Services]) -> tuple[list[Pod], list[Pod]]:
        """Return the online pods; and the offline ones that have a valid level, with that level."""
        online, with_level = list[Pod](), list[Pod]()
        for pod in round_.pods:
            now = pod
            if not offline(now):
                online.append(pod)
                continue
            annotations = readable(round_, pod, NAME, ANNOTATION, check)
            if ANNOTATION in annotations or ANNOTATION not in pod.annotations:
                with_level.append(replace(now, annotations={**annotations, PREEMPTIBLE: "true"}))
        return online, with_level

    def _next_dynamic(self, round_: Round[Services], online: list[Pod], pods: list[Pod]) -> Shares:
        """Return the shares of the dynamic group now; begin to count misses, or evaluate them, when that is due."""
        shares = self.dynamic = self.dynamic or group_shares(self.block)[DYNAMIC]
        if not uses_dynamic(pods, self.block.defaultLimitMode):
            self._counting.end()
            return shares
        now, since = round_.sample.at, self._counting.since
        if since is not None and now - since >= self.block.perfDuration / _MS_PER_S:
            misses = [
                Misses(
                    miss_percent(events[Event.MISSES], events[Event.REFERENCES]),
                    miss_percent(events[Event.LAST_LEVEL_MISSES], events[Event.LAST_LEVEL_READS]),
                )
                for events in self._counting.end().values()
            ]
            self.dynamic = step(shares, misses, self.block)
            self._due = now + self.block.adjustInterval / _MS_PER_S
        elif since is None and now >= self._due:
            self._counting.begin(round_, online, "the dynamic group stays as it starts")
        self._counting.report(round_)
        return self.dynamic
