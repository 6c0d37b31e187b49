"""The service quotaTurbo: containers that request it get more than their quota while the node has spare CPU.

A tick has seven steps. 1. Read the node's usage, which is kept for a minute. 2. Read period, quota, throttling and
usage of each container. 3. At the high mark or above, lower quotas above the limit slowly, except of throttled
containers. 4. At the alarm mark or above, lower quotas by the whole excess. 5. Below the alarm mark, if the node's
usage hardly varies, raise the quotas of throttled containers. 6. Keep each container's average over the last sixty
ticks within its limit, and each quota at or above the limit. 7. Change a quota and the quotas of its parent cgroups
together.

A container and its parent cgroups change together or not at all. The containers of a pod are one change, because they
have the same parents. Quotas return to the limits when a pod no longer requests the service, when the service is
switched off, and when the agent ends. A quota above its limit in the first round was left by an earlier agent. Quotas
are written to cgroups without notifying the runtime: they last for a tick, and the runtime keeps the limit, which a
later agent reads.

Times are in nanoseconds, quotas and periods in microseconds, limits in CPUs.
"""

from __future__ import annotations

import math
import operator
import resource
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.model import Pod, Write
from nri.agent.rubik.service import Service, Services, Ticks, nanoseconds, share, ticks
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import WrongValue
from nri.host.usage import ProcessorFiles
from nri.kube.cgroup_limits import MIN_QUOTA_US, UNLIMITED
from nri.text import count

NAME: Final = "quotaTurbo"
ANNOTATION: Final = "volcano.sh/quota-turbo"
_QUOTA, _PERIOD = "cpu.cfs_quota", "cpu.cfs_period"
_MS_PER_S: Final = 1000
_MINUTE_NS: Final = 60 * 10**9
#: The maximum number of remembered usage samples of a container.
_MAX_SAMPLES: Final = 59
#: The highest quota, as a multiple of the limit.
_HEIGHT = 2
#: Unused CPU time of this many highest quotas allows the highest quota.
_PLENTY = 3
_TOPS: Final = ("kubepods", "kubepods.slice")
_PERCENT: Final = Between(0, 100)
#: The maximum number of open files of a container.
_FILES_PER_CONTAINER: Final = 4


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of quotaTurbo: marks in percent of the node's CPU, and the interval in milliseconds."""

    highWaterMark: Annotated[int, Between(0, 99)] = 60
    alarmWaterMark: Annotated[int, Between(1, 100)] = 80
    syncInterval: Annotated[int, Between(100, 10_000)] = 100

    def __post_init__(self) -> None:
        if self.highWaterMark >= self.alarmWaterMark:
            reason = f"{self.highWaterMark} is not less than alarmWaterMark {self.alarmWaterMark}"
            raise WrongValue("highWaterMark", reason, "use a smaller number")


@dataclass(frozen=True, slots=True)
class Knobs:
    """Marks and steps in percent of the node, except `slowFallbackRatio`.

    Raises WrongValue if a value is impossible.
    """

    highWaterMark: int = 60
    alarmWaterMark: int = 80
    elevateLimit: float = 1.0
    slowFallbackRatio: float = 0.1
    cpuFloatingLimit: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.highWaterMark < self.alarmWaterMark <= 100:
            reason = f"{self.highWaterMark} and alarmWaterMark {self.alarmWaterMark} must ascend from 0 to 100"
            raise WrongValue("highWaterMark", reason, "for example 60 and 80")
        for key in ("elevateLimit", "cpuFloatingLimit"):
            if not _PERCENT.admits(getattr(self, key)):
                raise WrongValue(key, f"{getattr(self, key)} is not {_PERCENT}", "use a percentage")


class Reading(NamedTuple):
    """A reading of a container's cgroup."""

    quota: int
    period: int
    throttled: int
    throttled_ns: int
    usage_ns: int


@dataclass(slots=True)
class ManagedContainer:
    """A managed container with its last two readings of throttling, and its usage as pairs of time and usage."""

    folder: str
    limit: float
    quota: int
    period: int
    throttled: int = 0
    throttled_ns: int = 0
    throttled_before: int = 0
    throttled_ns_before: int = 0
    usages: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))

    def base(self) -> int:
        """Return the quota of the limit in whole microseconds."""
        return quota_of_limit(self.limit, self.period)

    def least(self) -> int:
        """Return the lowest quota: the quota of the limit, or the kernel's minimum if that is higher."""
        return max(self.base(), MIN_QUOTA_US)

    def newly_throttled(self) -> int:
        """Return the number of throttled periods since the last reading."""
        return self.throttled - self.throttled_before

    def take(self, reading: Reading, now: int) -> None:
        """Record a new reading."""
        self.throttled_before, self.throttled_ns_before = self.throttled, self.throttled_ns
        self.quota, self.period = reading.quota, reading.period
        self.throttled, self.throttled_ns = reading.throttled, reading.throttled_ns
        self.usages.append((now, reading.usage_ns))


Deltas = dict[str, float]


def quota_of_limit(limit: float, period: int) -> int:
    """Return the quota of a limit in CPUs, in whole microseconds, as a kubelet computes it.

    The product is rounded before the fraction is dropped, because 0.29 * 100000 is 28999.999999999996.
    """
    return math.floor(round(limit * period, 3))


def slow_fallback(containers: Iterable[ManagedContainer], use: float, knobs: Knobs) -> Deltas:
    """Return the reductions of quotas above the limit, at the high mark or above."""
    if use < knobs.highWaterMark:
        return {}
    part = (use - knobs.highWaterMark) / (knobs.alarmWaterMark - knobs.highWaterMark) * knobs.slowFallbackRatio
    return {
        container.folder: part * (container.base() - container.quota)
        for container in containers
        if container.quota > container.base() and not container.newly_throttled()
    }


def fast_fallback(containers: Iterable[ManagedContainer], use: float, cpus: int, knobs: Knobs) -> Deltas:
    """Return the reductions of quotas above the limit, at the alarm mark or above: together the whole excess usage."""
    # In whole microseconds: as floats, the difference may be 0 or less for a quota above the limit.
    excess = {c.folder: (c, c.quota - c.base()) for c in containers if c.quota > c.base()}
    excess_cpus = sum(more_us / c.period for c, more_us in excess.values() if c.period > 0)
    if use < knobs.alarmWaterMark or excess_cpus <= 0:
        return {}
    part = (knobs.alarmWaterMark - use) / 100 * cpus / excess_cpus
    return {folder: part * more_us for folder, (c, more_us) in excess.items() if c.period > 0}


def elevate(containers: Iterable[ManagedContainer], uses: Sequence[float], cpus: int, knobs: Knobs) -> Deltas:
    """Return the increases of throttled containers: their missing CPU, together at most `elevateLimit`."""
    use = uses[-1] if uses else 0.0
    if uses and max(uses) - min(uses) > knobs.cpuFloatingLimit:
        return {}
    if knobs.alarmWaterMark - use < knobs.elevateLimit:
        return {}
    needs = {
        c.folder: (c, (c.throttled_ns - c.throttled_ns_before) / 1000 / c.newly_throttled() / c.period)
        for c in containers
        # A counter that decreased belongs to a cgroup that was created again, and is unrelated to the last reading.
        if c.newly_throttled() > 0 and c.throttled_ns > c.throttled_ns_before and c.period > 0
    }
    total = sum(need for _, need in needs.values())
    if not needs:
        return {}
    part = min(total, knobs.elevateLimit / 100 * cpus) / total
    return {folder: need * part * c.period for folder, (c, need) in needs.items()}


def deltas(containers: Sequence[ManagedContainer], uses: Sequence[float], cpus: int, knobs: Knobs) -> Deltas:
    """Return the sum of the three steps by cgroup. `uses` is the node's usage in the last minute, the latest last."""
    limited = [container for container in containers if container.quota != UNLIMITED]
    use = uses[-1] if uses else 0.0
    total = dict.fromkeys((container.folder for container in containers), 0.0)
    parts = (
        slow_fallback(limited, use, knobs),
        fast_fallback(limited, use, cpus, knobs),
        elevate(limited, uses, cpus, knobs),
    )
    for part in parts:
        for folder, delta in part.items():
            total[folder] += delta
    return total


def height(limit: float, period: int) -> float:
    """Return the highest quota of a container."""
    return _HEIGHT * limit * period


def max_next(limit: float, period: int, usages: Sequence[tuple[int, int]]) -> float:
    """Return the highest quota for the next tick, from the CPU time that the container has left."""
    base, maximum = limit * period, height(limit, period)
    count, spent = len(usages), float(usages[-1][0] - usages[0][0]) if usages else 0.0
    if count < 2 or spent <= 0 or maximum <= 0:
        return maximum
    unused = limit * (count / (count - 1)) * spent - (usages[-1][1] - usages[0][1])
    quota = unused / spent * (count - 1) * period
    if quota > _PLENTY * maximum:
        return maximum
    return min(max(base + (maximum - base) * quota / (_PLENTY * maximum), base), maximum)


def next_quota(container: ManagedContainer, delta: float) -> int:
    """Return the next quota of a container in whole microseconds, at least `Managed.least`."""
    least, quota = container.least(), container.quota + delta
    if quota <= least:  # the usual case: the highest quota need not be computed
        return least
    return max(int(min(quota, max_next(container.limit, container.period, container.usages))), least)


def manageable(limit: float | None, cpus: int) -> bool:
    """Return whether a container has a limit below the CPUs of the node."""
    return limit is not None and 0 < limit < cpus


def chain(folder: str, before: int, after: int, quota_of: Callable[[str], int | None]) -> list[Write]:
    """Return the writes for a container and its parents below the cgroup of all pods, in order.

    Growing begins at the top, shrinking at the container. A cgroup without a limit keeps no limit. A cgroup that would
    fall below the kernel's minimum is unchanged. If a write is refused, the writer resets the others.

    Raises:
        ValueError: the container has no cgroup, or a quota cannot be read.
    """
    if before == after:
        return []
    names = [name for name in folder.split("/") if name]
    if not names or names[-1] in _TOPS:
        raise ValueError("a container without a cgroup has no quota")
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
    return [Write(name, _QUOTA, str(value), NAME) for name, value in values]


def restored(pod: Pod, period_of: Callable[[str], int | None]) -> list[Write]:
    """Return the writes that restore the quotas of a pod's containers to their limits, and the pod's to the sum.

    A container without a limit, and its pod, become unlimited. If a limit is unknown, there are no writes.
    """
    quotas: list[tuple[str, int]] = []
    for container in pod.containers:
        period, limit = period_of(container.folder), container.cpu_limit
        if limit is None:
            return []
        if limit == 0 or period is not None:
            quotas.append((container.folder, quota_of_limit(limit, period or 0) if limit else UNLIMITED))
    values = [quota for _, quota in quotas]
    quotas.insert(0, (pod.folder, UNLIMITED if UNLIMITED in values else sum(values)))
    return [Write(folder, _QUOTA, str(quota), NAME) for folder, quota in quotas]


class Turbo:
    """The managed containers and the node's usage over time.

    Attributes:
        managed: the containers, by cgroup.
        cpus: the number of CPUs of the node.
        knobs: marks and steps; new values apply at the next tick.
    """

    def __init__(self, cpus: int, knobs: Knobs | None = None) -> None:
        self.managed: dict[str, ManagedContainer] = {}
        self.cpus, self.knobs = cpus, knobs or Knobs()
        self._last_ticks: Ticks | None = None
        self._uses: deque[tuple[int, float]] = deque()

    def add(self, folder: str, limit: float | None, reading: Reading, now: int) -> None:
        """Manage a container. Raises ValueError if its limit is not manageable, or its cgroup is unknown."""
        if limit is None or not manageable(limit, self.cpus):
            raise ValueError(f"a limit of {limit} CPUs cannot be raised on a node with {self.cpus}")
        if not folder:
            raise ValueError("a container without a cgroup has no quota")
        container = ManagedContainer(folder, limit, reading.quota, reading.period)
        container.take(reading, now)
        container.take(reading, now)
        container.usages.pop()
        self.managed.setdefault(folder, container)

    def remove(self, folder: str) -> int | None:
        """Forget a container, and return the quota of its limit, to restore it."""
        container = self.managed.pop(folder, None)
        return None if container is None else container.least()

    def observe(self, ticks: Ticks, now: int) -> float:
        """Record a reading of the node, and return the percentage in use since the last reading, or 0 at first."""
        last, self._last_ticks = self._last_ticks, ticks
        if last is None:
            return 0.0
        use = share(last, ticks)
        self._uses.append((now, use))
        while self._uses[0][0] < now - _MINUTE_NS:
            self._uses.popleft()
        return use

    def why_unchanged(self, folder: str) -> str:
        """Return why the last tick left a container's quota unchanged."""
        container, uses = self.managed.get(folder), [use for _, use in self._uses.copy()]
        if container is None:
            return "the quota and usage cannot be read"
        if container.quota == UNLIMITED:
            return "the quota is unlimited"
        if not uses:
            return "the node's CPU usage is not known yet"
        if self.knobs.alarmWaterMark - uses[-1] < self.knobs.elevateLimit:
            mark = self.knobs.alarmWaterMark - self.knobs.elevateLimit
            return f"the node's CPU usage is {uses[-1]:.0f} %; quotas rise while it is {mark:g} % or less"
        if max(uses) - min(uses) > self.knobs.cpuFloatingLimit:
            span, limit = max(uses) - min(uses), self.knobs.cpuFloatingLimit
            varied = f"the node's CPU usage varied by {span:.0f} % in a minute"
            return f"{varied}; quotas rise while it varies by {limit:g} % or less"
        if container.newly_throttled() <= 0:
            return "the container was not throttled in the last tick"
        return "the container has used up its CPU time above the limit"

    def decide(self, readings: Mapping[str, Reading], now: int) -> dict[str, int]:
        """Record readings of containers, and return the next quotas of limited containers, by cgroup."""
        containers = [container for folder, container in self.managed.items() if folder in readings]
        for container in containers:
            container.take(readings[container.folder], now)
        total = deltas(containers, [use for _, use in self._uses], self.cpus, self.knobs)
        return {c.folder: next_quota(c, total[c.folder]) for c in containers if c.quota != UNLIMITED}


class Candidate(NamedTuple):
    """A container to manage: its pod, its name and its limit in CPUs."""

    pod: Pod
    name: str
    limit: float


class QuotaTurbo(Service):
    """The service that raises and lowers quotas."""

    name = NAME
    transient = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._turbo: Turbo | None = None
        #: The managed containers, by cgroup.
        self._candidates: dict[str, Candidate] = {}
        #: The open files of managed containers, at most half of the process's file descriptors.
        self._files: dict[str, ProcessorFiles] = {}
        self._max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (2 * _FILES_PER_CONTAINER)
        #: The pods and the number of CPUs of the last search for candidates, and its result.
        self._last_candidates: tuple[list[Pod], int, dict[str, Candidate]] = [], 0, {}
        #: The containers with a new quota in the last tick.
        self._changed: frozenset[str] = frozenset()
        #: The pods of the last tick, the number of CPUs, and why CPU usage is unknown; None while the service is off.
        self._last_tick: tuple[list[Pod], int, str] | None = None
        #: The percentage of the node's CPU in use in the last tick; None before the first tick.
        self.use_percent: float | None = None

    def __len__(self) -> int:
        """The number of managed containers."""
        return len(self.managed)

    @property
    def managed(self) -> Collection[str]:
        """The cgroups of the managed containers."""
        return self._candidates.keys()

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or quotas must be restored."""
        return super().is_needed(rules) or bool(self._candidates)

    def pause_s(self) -> float:
        """Return the interval in the file."""
        return float(self.block.syncInterval) / _MS_PER_S

    def state(self, now: float) -> str:  # noqa: ARG002  the state does not depend on the time
        """Return the node's usage, the marks, and the number of managed containers."""
        if self.block is None:
            return ""
        use = "" if self.use_percent is None else f"the node's CPU usage is {self.use_percent:.0f} %, "
        marks = f"quotas rise below {self.block.alarmWaterMark} % and fall at {self.block.highWaterMark} % or more"
        return f"{use}{marks}; {count(len(self), 'container')}"

    def unchanged(self, uid: str) -> Mapping[str, str]:
        """Return why quotas of a pod did not change in the last tick, by container. The key "" stands for the pod."""
        turbo, managed, changed, tick = self._turbo, self._candidates, self._changed, self._last_tick
        pod = next((pod for pod in tick[0] if pod.uid == uid), None) if tick else None
        if turbo is None or tick is None or pod is None:
            return {}
        _, cpus, no_cpu = tick
        if pod.annotations.get(ANNOTATION) != "true":
            return {"": f'annotation {ANNOTATION} is not "true"'}
        return {
            container.name: (no_cpu or turbo.why_unchanged(container.folder))
            if container.folder in managed
            else f"the CPU limit is not between 0 and the {cpus} CPUs of the node, or the quota cannot be read"
            for container in pod.containers
            if container.folder not in changed
        }

    def round(self, round_: Round[Services]) -> None:
        """Run a tick."""
        turbo = self._turbo = self._turbo or Turbo(round_.sample.cpus)
        turbo.cpus = round_.sample.cpus
        if self.on:
            turbo.knobs = Knobs(self.block.highWaterMark, self.block.alarmWaterMark)
        candidates = self._candidates_of(round_) if self.on else {}
        now = nanoseconds(round_.sample)
        quotas = Quotas(round_)
        self._release(turbo, candidates, round_, quotas)
        readings = {folder: r for folder in candidates if (r := self._reading(turbo, round_, folder)) is not None}
        for folder in self._files.keys() - readings.keys():
            self._files.pop(folder).close()
        for folder, reading in readings.items():
            if folder not in turbo.managed:
                self._manage_container(turbo, folder, candidates[folder], reading, now)
        self._candidates = {folder: c for folder, c in candidates.items() if folder in turbo.managed}
        use, changed = ticks(round_.sample), set[str]()
        if use is None:
            round_.cannot(NAME, "quotas stay unchanged", round_.sample.no_cpu)
        elif self.on:
            percent = self.use_percent = turbo.observe(use, now)
            for folder, quota in turbo.decide(readings, now).items():
                reason = f"the node uses {percent:.0f} %, the limit is {candidates[folder].limit:g} CPUs"
                if quota != readings[folder].quota:
                    changed.add(folder)
                    quotas.change(folder, readings[folder].quota, quota, candidates[folder], reason)
        self._changed = frozenset(changed)
        self._last_tick = (round_.pods, round_.sample.cpus, round_.sample.no_cpu) if self.on else None
        quotas.send()

    def _candidates_of(self, round_: Round[Services]) -> dict[str, Candidate]:
        """Return the containers with a manageable limit in pods that request the service, by cgroup."""
        pods, cpus, candidates = self._last_candidates
        # Unchanged pods are the same objects.
        if cpus == round_.sample.cpus and len(pods) == len(round_.pods) and all(map(operator.is_, pods, round_.pods)):
            return candidates
        candidates = {
            container.folder: Candidate(pod, container.name, container.cpu_limit)
            for pod in round_.pods
            if pod.annotations.get(ANNOTATION) == "true"
            for container in pod.containers
            if container.cpu_limit is not None and manageable(container.cpu_limit, round_.sample.cpus)
        }
        self._last_candidates = round_.pods, round_.sample.cpus, candidates
        return candidates

    def _reading(self, turbo: Turbo, round_: Round[Services], folder: str) -> Reading | None:
        """Return a reading of a container's cgroup from its open files, or None if the cgroup is gone or incomplete."""
        files = self._files.get(folder)
        if files is None:
            if len(self._files) >= self._max_files:
                return _reading(round_, folder)
            try:
                files = self._files[folder] = ProcessorFiles(
                    round_.parts.executor.hierarchies, round_.parts.root, folder
                )
            except (OSError, ValueError):
                return None
        # A container at its limit is not changed before it has run: until then its last reading is sufficient.
        managed = turbo.managed.get(folder)
        at_limit = managed is not None and managed.quota == managed.least()
        values = files.read(resting=at_limit and folder not in self._changed)
        return None if values is None else Reading(*values)

    def _release(self, turbo: Turbo, candidates: dict[str, Candidate], round_: Round[Services], quotas: Quotas) -> None:
        """Restore quotas of containers that are no longer managed or have a new limit."""
        for folder, before in self._candidates.items():
            now = candidates.get(folder)
            if now is not None and now.limit == before.limit:
                continue
            quota = turbo.remove(folder)
            reading = _reading(round_, folder)
            if now is None and reading is not None and quota is not None:
                quotas.change(folder, reading.quota, quota, before, "quotaTurbo is no longer requested")

    def _manage_container(self, turbo: Turbo, folder: str, candidate: Candidate, reading: Reading, now: int) -> None:
        """Manage a container."""
        if reading.period > 0 and reading.quota >= 0:
            turbo.add(folder, candidate.limit, reading, now)


class Quotas:
    """The changes of a tick to containers and their parent cgroups, which several containers share."""

    def __init__(self, round_: Round[Services]) -> None:
        self._round = round_
        self._current_quotas: dict[str, int | None] = {}
        self._writes: dict[str, tuple[Write, Candidate, str]] = {}

    def change(self, folder: str, before: int, after: int, candidate: Candidate, reason: str) -> None:
        """Change a container's quota, and the quotas of its parents by the same amount."""
        if UNLIMITED in (before, after):
            return
        self._current_quotas[folder] = before
        try:
            writes = chain(folder, before, after, self._quota)
        except ValueError as error:
            self._round.errors.append(f"{NAME}: {candidate.pod.key}: {error}")
            return
        for write in writes:
            self._current_quotas[write.folder] = int(write.value)
            self._writes[write.folder] = write, candidate, reason

    def send(self) -> None:
        """Add all changes to the round. Changes of one pod are applied together or not at all."""
        for folder, (write, candidate, reason) in self._writes.items():
            pod = candidate.pod
            subject = pod.subject(candidate.name if folder != pod.folder else "")
            self._round.set(subject, folder, _QUOTA, write.value, NAME, reason, group=pod.uid, passing=True)

    def _quota(self, folder: str) -> int | None:
        if folder not in self._current_quotas:
            quota = self._round.read(folder, _QUOTA)
            self._current_quotas[folder] = quota if isinstance(quota, int) else None
        return self._current_quotas[folder]


def _reading(round_: Round[Services], folder: str) -> Reading | None:
    """Return a reading of a container's cgroup, or None if the cgroup is missing or incomplete."""
    quota, period = round_.read(folder, _QUOTA), round_.read(folder, _PERIOD)
    use = round_.usage(folder, processor_only=True)
    if not (isinstance(quota, int) and isinstance(period, int)) or use is None or use.cpu_ns is None:
        return None
    return Reading(quota, period, use.throttled or 0, use.throttled_ns or 0, use.cpu_ns)
