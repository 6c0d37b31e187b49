"""The service dynCache: limit offline pods to shares of the last-level cache and of memory bandwidth.

There are five resctrl groups. A share of the cache is a run of ways, starting with the lowest. The annotation
`volcano.sh/cache-limit` of a pod contains the level of its group; a pod with an unreadable annotation keeps its last
valid level. Cache misses of online pods change the share of the dynamic group. If the processor does not count misses,
the share keeps its first value, which is reported. Caches are numbered by their domains. The groups are removed when
the service is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.model import Pod, Resctrl
from nri.agent.rubik.event_counts import EventCounter
from nri.agent.rubik.pods import PREEMPTIBLE, offline
from nri.agent.rubik.service import Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import WrongValue
from nri.host import Unsupported, resctrl
from nri.host.perf import Event

NAME: Final = "dynCache"
ANNOTATION: Final = "volcano.sh/cache-limit"
_LEVELS: Final = ("low", "middle", "high", "max", "dynamic")
#: The resctrl group of each level.
GROUPS: Final = {level: f"rubik_{level}" for level in _LEVELS}
DYNAMIC: Final = GROUPS["dynamic"]
#: If an online pod has at least this percentage of misses, the shares fall.
_MANY_PERCENT = 20
#: If all online pods have a lower percentage of misses, the shares rise.
_FEW_PERCENT = 10
#: Shares fall by this many percentage points.
_FALL_POINTS = 50
#: Shares rise by this many percentage points.
_RISE_POINTS = 5
_EVENTS: Final = (Event.REFERENCES, Event.MISSES, Event.LAST_LEVEL_READS, Event.LAST_LEVEL_MISSES)
#: The longest pause between two searches for processes of offline pods, in seconds.
_MAX_PAUSE_S: Final = 1.0
_MS_PER_S: Final = 1000
_Milliseconds = Annotated[int, Between(10, 10_000)]
_Percent = Annotated[int, Between(10, 100)]


@dataclass(frozen=True, slots=True)
class Percents:
    """Shares of the cache of three groups, in percent."""

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
    """The settings of dynCache. Times are in milliseconds."""

    defaultLimitMode: Literal["static", "dynamic"] = "static"
    adjustInterval: _Milliseconds = 1000
    perfDuration: _Milliseconds = 1000
    l3Percent: Percents = field(default_factory=Percents)
    memBandPercent: Bandwidths = field(default_factory=Bandwidths)


class Shares(NamedTuple):
    """Percentages of the cache and of the memory bandwidth."""

    l3: int
    mb: int


class Misses(NamedTuple):
    """The percentages of references that missed the cache, and of accesses that missed the last level."""

    cache: int = 0
    llc: int = 0


def mask(width: int, percent: int) -> int:
    """Return the mask of a share: a percentage of `width` ways from the lowest up, rounded down, at least one."""
    return (1 << max(width * percent // 100, 1)) - 1


def group_shares(block: Block) -> dict[str, Shares]:
    """Return the shares of each group. The dynamic group gets its first share."""
    cache, band = block.l3Percent, block.memBandPercent
    low = Shares(cache.low, band.low)
    shares = (low, Shares(cache.mid, band.mid), Shares(cache.high, band.high), Shares(100, 100), low)
    return dict(zip(GROUPS.values(), shares, strict=True))


def schemata(
    width: int, shares: Shares, domains: Mapping[str, Iterable[int]], least: int = 1
) -> dict[str, dict[int, int]]:
    """Return the schemata of a group, by resource and cache domain.

    Args:
        width: the number of bits of the cache's mask.
        shares: the shares of the group.
        domains: the domains of each resource of the machine.
        least: the minimum number of ways in a mask.
    """
    ways = mask(width, shares.l3) | mask(least, 100)
    values = {"L3": ways, "MB": shares.mb}
    return {name: dict.fromkeys(domains[name], value) for name, value in values.items() if name in domains}


def group_of(pod: Pod, default: str) -> str:
    """Return the group of an offline pod; `default` is static or dynamic. Raises ValueError if the level is unknown."""
    level = pod.annotations.get(ANNOTATION) or {"static": "max", "dynamic": "dynamic"}[default]
    if level not in GROUPS:
        raise ValueError(f"{ANNOTATION} {level!r} is not one of {', '.join(GROUPS)}")
    return GROUPS[level]


def check(annotations: Mapping[str, str]) -> None:
    """Raise ValueError if the level in the annotation is unknown."""
    group_of(Pod(annotations=annotations), "static")


def uses_dynamic(pods: Iterable[Pod], default: str) -> bool:
    """Return whether an offline pod is in the dynamic group."""
    for pod in pods:
        try:
            if offline(pod) and group_of(pod, default) == DYNAMIC:
                return True
        except ValueError:
            continue
    return False


def miss_percent(missed: int, total: int) -> int:
    """Return the percentage of misses, rounded down."""
    return 100 * missed // (1 + total)


def step(
    now: Shares,
    misses: Sequence[Misses],
    block: Block,
    up_percent: int = _MANY_PERCENT,
    down_percent: int = _FEW_PERCENT,
) -> Shares:
    """Return the dynamic group's next shares from the misses of online pods.

    Unmeasured pods count as pods without misses.
    """
    cache, band = block.l3Percent, block.memBandPercent
    if any(max(percents) >= up_percent for percents in misses):
        return Shares(max(now.l3 - _FALL_POINTS, cache.low), max(now.mb - _FALL_POINTS, band.low))
    if all(max(percents) < down_percent for percents in misses):
        return Shares(min(now.l3 + _RISE_POINTS, cache.high), min(now.mb + _RISE_POINTS, band.high))
    return now


def tasks(pods: Iterable[Pod], default: str, processes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the processes of offline pods by group; `processes` has the processes of each container's cgroup."""
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
    """The service that maintains resctrl groups with the processes of offline pods."""

    name = NAME

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._counting = EventCounter(NAME, _EVENTS)
        #: The shares of the dynamic group; None before the first round.
        self.dynamic: Shares | None = None
        #: When the next count of misses begins, in monotonic seconds.
        self._due = 0.0
        self._has_groups = False

    def __len__(self) -> int:
        """The number of pods with counted misses."""
        return len(self._counting)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or groups must be removed."""
        return super().is_needed(rules) or self._has_groups

    def pause_s(self) -> float:
        """Return the interval in the file, but at most a second, because processes start and end."""
        return min(float(self.block.adjustInterval) / _MS_PER_S, _MAX_PAUSE_S)

    def block_changed(self) -> None:
        """Reset the window after the settings have changed."""
        self.dynamic = None
        self._counting.end()

    def state(self, now: float) -> str:  # noqa: ARG002  the state does not depend on the time
        """Return the shares of the dynamic group."""
        shares = self.dynamic
        return "" if shares is None else f"the dynamic group has {shares.l3} % of the cache, {shares.mb} % of bandwidth"

    def round(self, round_: Round[Services]) -> None:
        """Put the processes of offline pods into groups, with shares that follow the misses of online pods."""
        try:
            abilities = resctrl.Resctrl(round_.parts.root).capabilities()
        except ValueError as error:
            abilities = Unsupported(str(error))
        cache = None if isinstance(abilities, Unsupported) else abilities.caches.get("L3")
        if isinstance(abilities, Unsupported) or cache is None:
            shared = "the processor cannot partition its last-level cache"
            reason = abilities.reason if isinstance(abilities, Unsupported) else shared
            round_.cannot(NAME, "offline pods can use the whole cache", reason)
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
        """Return the processes of offline pods by group. Report if there are no processes."""
        executor = round_.parts.executor
        processes = {c.folder: executor.threads(c.folder) for pod in pods for c in pod.containers}
        if processes and not any(processes.values()):
            round_.errors.append(f"{NAME}: no process of an offline pod is visible; an agent in a pod requires hostPID")
        return tasks(pods, self.block.defaultLimitMode, processes)

    @staticmethod
    def _by_class(round_: Round[Services]) -> tuple[list[Pod], list[Pod]]:
        """Return the online pods, and the offline pods with a valid level, with that level."""
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
        """Return the current shares of the dynamic group. Begin to count misses, or evaluate them, if that is due."""
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
            self._counting.begin(round_, online, "the dynamic group keeps its first share")
        self._counting.report(round_)
        return self.dynamic
