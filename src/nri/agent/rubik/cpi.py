"""The service cpi: limit offline pods that slow down online pods, as cycles per instruction (CPI) show, for a while.

Events are counted for ten seconds in each minute. Every five minutes the CPI of online pods is compared with their
usual CPI, and the pods that disturb them get a tenth of a CPU for five minutes. A pod takes part if it has the
annotation `volcano.sh/cpi`. If the processor's counters are not available, that is reported and no pod is judged.

The usual CPI of an online pod is a mean and a standard deviation, to which old samples are added. A pod is slowed if at
least three samples of five minutes are far above the usual CPI. Suspects are scored by the correlation of their CPU
usage in ten minutes with the pod's CPI.

Quotas are restored after the limit ends, when the service is switched off, and when the agent ends, unless another
program has changed them. If a pod has the limit in its first round, an earlier agent has left it, also if containers
were restarted since: the pod gets the quotas of its containers' limits after the same time. A pod that quotaTurbo
manages, or a pod with a pod-level limit, is not limited.

A series is a list of pairs of time in nanoseconds and value, ascending.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.model import Pod, Write
from nri.agent.pods import manifest
from nri.agent.rubik import quota_turbo
from nri.agent.rubik.event_counts import EventCounter
from nri.agent.rubik.pods import limit_of
from nri.agent.rubik.service import Service, Services, nanoseconds
from nri.agent.settings.values import AgentSettings
from nri.host.perf import Event
from nri.kube.cgroup_limits import MIN_QUOTA_US, UNLIMITED

NAME: Final = "cpi"
ANNOTATION: Final = "volcano.sh/cpi"
#: The quota of a limited pod, in microseconds.
LIMITED_US: Final = 10_000
#: The score above which a suspect is limited.
_GUILTY_SCORE: Final = 0.15
#: A pod is slowed if its samples of this time are far from the usual CPI, in nanoseconds.
_OUTLIER_NS = 300 * 10**9
#: A suspect is scored by its samples of this time, in nanoseconds.
SUSPECT_NS = 600 * 10**9
#: The lowest CPU usage of a valid sample, in CPUs.
_MIN_CPUS: Final = 0.25
#: The minimum number of samples of a baseline.
_MIN_BASELINE_SAMPLES: Final = 60
#: The minimum number of high samples of a slowed pod.
_MIN_OUTLIERS: Final = 3
#: The length of a sample, in seconds.
_SAMPLE_S = 10.0
#: The pause between two samples, in seconds.
_PAUSE_S = 60.0
#: The pause between two judgements, in seconds.
_JUDGE_S = 300.0
#: The length of a limit, in seconds.
_LIMIT_S = 300.0
#: The pause between two expirations of old samples, in seconds.
_EXPIRE_S = 1800.0
_QUOTA, _PERIOD = "cpu.cfs_quota", "cpu.cfs_period"
_NS_PER_S: Final = 1_000_000_000

#: Pairs of time in nanoseconds and value, in ascending order.
Series = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The usual CPI of a pod: the number of samples, their mean and their standard deviation."""

    count: int = 0
    mean: float = 0.0
    std: float = 0.0

    def threshold(self) -> float:
        """Return the CPI above which a sample is far from the usual CPI."""
        return self.mean + 2 * self.std

    def fold(self, values: Sequence[float]) -> Baseline:
        """Return the baseline with additional samples."""
        count = self.count + len(values)
        if not values:
            return self
        mean = (self.count * self.mean + math.fsum(values)) / count
        new_squares = math.fsum((value - mean) ** 2 for value in values)
        squares = self.count * (self.std**2 + (self.mean - mean) ** 2) + new_squares
        return Baseline(count, mean, math.sqrt(squares / count))


class OnlinePod(NamedTuple):
    """An online pod: its baseline, and the series of its CPI and CPU usage."""

    baseline: Baseline
    cpi: Series
    cpu: Series


def cpi_of(cycles: int, instructions: int) -> float:
    """Return cycles per instruction. Raises ValueError if there are no instructions."""
    if instructions <= 0:
        raise ValueError("no instruction was counted")
    return cycles / instructions


def add(series: Series, at: int, value: float) -> None:
    """Add a sample. Raises ValueError if the time is negative or before the time of the last sample."""
    if at < (series[-1][0] if series else 0):
        raise ValueError(f"{at} is before the last sample")
    series.append((at, value))


def within(series: Series, start: int, end: int) -> Series:
    """Return the samples from `start` up to the first sample at or after `end`."""
    first = bisect_left(series, (start, -math.inf))
    return series[first : bisect_left(series, (end, -math.inf)) + 1] if start <= end else []


def normalized(series: Series) -> Series:
    """Return the series scaled to a sum of 1. A series with a sum of 0 is unchanged."""
    total = math.fsum(value for _, value in series)
    return [(at, value / total) for at, value in series] if total else list(series)


def split(series: Series, before: int) -> tuple[Series, Series]:
    """Return the samples before a time, and the other samples."""
    place = bisect_left(series, (before, -math.inf))
    return series[:place], series[place:]


def expire(pod: OnlinePod, before: int) -> OnlinePod:
    """Move samples before a time to the baseline, if the pod was busy and the samples are near the usual CPI."""
    old, cpi = split(pod.cpi, before)
    old_cpu, cpu = split(pod.cpu, before)
    cpus_by_time = dict(old_cpu)
    highest = pod.baseline.threshold() if pod.baseline.count >= _MIN_BASELINE_SAMPLES else math.inf
    usual = [value for at, value in old if cpus_by_time.get(at, 0.0) >= _MIN_CPUS and value <= highest]
    return OnlinePod(pod.baseline.fold(usual), cpi, cpu)


def outlier(pod: OnlinePod, now: int, window_ns: int = _OUTLIER_NS) -> bool:
    """Return whether an online pod is slowed now."""
    if pod.baseline.count <= _MIN_BASELINE_SAMPLES:
        return False
    cpus_by_time = dict(within(pod.cpu, now - window_ns, now))
    highest = pod.baseline.threshold()
    samples = within(pod.cpi, now - window_ns, now)
    return sum(value > highest and cpus_by_time.get(at, 0.0) >= _MIN_CPUS for at, value in samples) >= _MIN_OUTLIERS


def score(pod: OnlinePod, suspect: Series, now: int, window_ns: int = SUSPECT_NS) -> float:
    """Return the correlation of a suspect's CPU usage with a pod's CPI."""
    use = dict(normalized(within(suspect, now - window_ns, now)))
    highest = pod.baseline.threshold()
    total = 0.0
    for at, value in within(pod.cpi, now - window_ns, now):
        part = use.get(at, 0.0)
        if value > highest:
            total += part * (1 - highest / value)
        elif highest:
            total += part * (value / highest - 1)
    return total


def antagonists(online: Iterable[OnlinePod], suspects: Mapping[str, Series], now: int) -> set[str]:
    """Return the offline pods to limit: the antagonists of slowed pods, or else the pod with the highest CPU usage."""
    slowed = [pod for pod in online if outlier(pod, now)]
    guilty = {name for name, series in suspects.items() for pod in slowed if score(pod, series, now) > _GUILTY_SCORE}
    if guilty or not slowed:
        return guilty
    start = now - SUSPECT_NS
    use = {name: math.fsum(value for _, value in within(series, start, now)) for name, series in suspects.items()}
    biggest = max(use, key=lambda name: use[name], default="")
    return {biggest} if use.get(biggest, 0.0) > 0 else set()


def limits(pod: Pod) -> list[Write]:
    """Return the writes that limit a pod and its containers, containers first. All of them are applied, or none."""
    folders = (*(container.folder for container in pod.containers), pod.folder)
    return [Write(folder, _QUOTA, str(LIMITED_US), NAME) for folder in folders]


class _Limit(NamedTuple):
    """The limit of a pod: its end in monotonic seconds, and the quotas to restore, by cgroup."""

    until: float
    quotas: dict[str, int]


class Cpi(Service):
    """The service that limits offline pods which disturb online pods."""

    name = NAME
    transient: ClassVar[bool] = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._counting = EventCounter(NAME, (Event.CYCLES, Event.INSTRUCTIONS))
        #: The baselines and samples of online pods, by uid.
        self.online: dict[str, OnlinePod] = {}
        #: The CPU usage of offline pods, by uid.
        self.suspects: dict[str, Series] = {}
        #: The limited pods, by uid.
        self.limited: dict[str, _Limit] = {}
        #: The CPU time of pods when counting began, in nanoseconds.
        self._cpu_ns_at_start: dict[str, int | None] = {}
        #: When the next sample, judgement and expiration are due, in monotonic seconds.
        self.due = dict.fromkeys(("sample", "judge", "clear"), 0.0)
        #: The offline pods of the last round.
        self._last_offline: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """The number of limited pods."""
        return len(self.limited)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or quotas must be restored."""
        return super().is_needed(rules) or bool(self.limited)

    def pause_s(self) -> float:
        """Return the length of a sample."""
        return _SAMPLE_S

    def state(self, now: float) -> str:
        """Return the number of judged and limited pods, and the time of the next judgement."""
        after = max(self.due["judge"] - now, 0.0)
        return f"{len(self.online)} pods are judged, {len(self.limited)} are limited; next judgement in {after:.0f} s"

    def round(self, round_: Round[Services]) -> None:
        """Sample, judge and limit pods, if these actions are due."""
        pods = {pod.uid: pod for pod in round_.pods}
        online = {uid: pod for uid, pod in pods.items() if pod.annotations.get(ANNOTATION) == "online"}
        offline = {uid: pod for uid, pod in pods.items() if pod.annotations.get(ANNOTATION) == "offline"}
        for uid in offline.keys() - self._last_offline:
            self._take_over(round_, offline[uid])
        self._last_offline = frozenset(offline)
        if not self.on:
            self._counting.end()
            self.online, self.suspects = {}, {}
            self._restore(round_, pods)
            return
        self.online = {uid: self.online.get(uid, OnlinePod(Baseline(), [], [])) for uid in online}
        self.suspects = {uid: self.suspects.get(uid, []) for uid in offline}
        self._measure(round_, online, {**online, **offline})
        self._judge_pods(round_, offline)
        self._restore(round_, pods)
        self._counting.report(round_)

    def _measure(self, round_: Round[Services], online: Mapping[str, Pod], pods: dict[str, Pod]) -> None:
        """End a sample, or begin the next one if it is due."""
        if self._counting.since is not None:
            self._sample(round_, pods)
        elif self._is_due("sample", round_.sample.at, _PAUSE_S) and self._counting.begin(
            round_, online.values(), "no pod is judged"
        ):
            self._cpu_ns_at_start = {uid: ns for uid, pod in pods.items() if (ns := _cpu_ns(round_, pod)) is not None}

    def _judge_pods(self, round_: Round[Services], offline: Mapping[str, Pod]) -> None:
        """Expire old samples and limit antagonists, if these actions are due."""
        now_ns = nanoseconds(round_.sample)
        if self._is_due("clear", round_.sample.at, _EXPIRE_S):
            self._expire(now_ns - SUSPECT_NS)
        if self._is_due("judge", round_.sample.at, _JUDGE_S):
            for uid in sorted(antagonists(self.online.values(), self.suspects, now_ns)):
                self._limit(round_, offline[uid])

    def _is_due(self, what: str, now: float, pause_s: float) -> bool:
        if now < self.due[what]:
            return False
        self.due[what] = now + pause_s
        return True

    def _sample(self, round_: Round[Services], pods: dict[str, Pod]) -> None:
        """Add the counted events and the CPU usage of the sample."""
        seconds = round_.sample.at - (self._counting.since or 0.0)
        events, at = self._counting.end(), nanoseconds(round_.sample)
        for uid, pod in pods.items():
            used, before = _cpu_ns(round_, pod), self._cpu_ns_at_start.get(uid)
            if used is None or before is None or used < before or seconds <= 0:
                continue
            cpus = (used - before) / _NS_PER_S / seconds
            if uid in self.suspects:
                add(self.suspects[uid], at, cpus)
            elif uid in events:
                try:
                    value = cpi_of(events[uid][Event.CYCLES], events[uid][Event.INSTRUCTIONS])
                except ValueError:
                    continue  # the pod did not run
                add(self.online[uid].cpi, at, value)
                add(self.online[uid].cpu, at, cpus)

    def _expire(self, before: int) -> None:
        """Add old samples to the baselines, and drop them from the series."""
        self.online = {uid: expire(pod, before) for uid, pod in self.online.items()}
        self.suspects = {uid: split(series, before)[1] for uid, series in self.suspects.items()}

    def _take_over(self, round_: Round[Services], pod: Pod) -> None:
        """Take over a limit that an earlier agent has left."""
        has_pod_limit = (pod.manifest.get("spec") or {}).get("resources")
        if has_pod_limit or pod.annotations.get(quota_turbo.ANNOTATION) == "true":
            return
        now = pod
        if manifest.ignored(pod.manifest) or round_.read(now.folder, _QUOTA) != LIMITED_US:
            return

        def period_of(folder: str) -> int | None:
            period = round_.read(folder, _PERIOD)
            return period if isinstance(period, int) else None

        quotas = {write.folder: int(write.value) for write in quota_turbo.restored(now, period_of)}
        limit, period = limit_of(pod), period_of(now.folder)
        if limit and period is None:
            return
        # The quota of the pod includes containers that do not run.
        quotas[now.folder] = quota_turbo.quota_of_limit(limit, period or 0) if limit else UNLIMITED
        quotas = {folder: quota if quota == UNLIMITED else max(quota, MIN_QUOTA_US) for folder, quota in quotas.items()}
        self.limited[pod.uid] = _Limit(round_.sample.at + _LIMIT_S, quotas)

    def _limit(self, round_: Round[Services], pod: Pod) -> None:
        """Limit a pod and its containers, or prolong the limit, unless quotaTurbo manages the pod."""
        if pod.annotations.get(quota_turbo.ANNOTATION) == "true":
            return
        until, before = round_.sample.at + _LIMIT_S, self.limited.get(pod.uid)
        if before is not None:
            self.limited[pod.uid] = before._replace(until=until)
            return
        writes = limits(pod)
        current = {write.folder: round_.read(write.folder, _QUOTA) for write in writes}
        quotas = {folder: quota for folder, quota in current.items() if isinstance(quota, int)}
        if len(quotas) < len(writes):
            round_.errors.append(f"{NAME}: {pod.key}: the quotas cannot be read, so the pod is not limited")
            return
        self.limited[pod.uid] = _Limit(until, quotas)
        reason = "the pod disturbs an online pod, as cycles per instruction show"
        self._write(round_, pod, {write.folder: int(write.value) for write in writes}, reason)

    def _restore(self, round_: Round[Services], pods: dict[str, Pod]) -> None:
        """Restore the quotas of pods after the end of their limits."""
        for uid, limit in list(self.limited.items()):
            if uid in pods and self.on and round_.sample.at < limit.until:
                continue
            del self.limited[uid]
            if uid in pods:
                quotas = {f: quota for f, quota in limit.quotas.items() if round_.read(f, _QUOTA) == LIMITED_US}
                self._write(round_, pods[uid], quotas, "the time of the limit is over")

    @staticmethod
    def _write(round_: Round[Services], pod: Pod, quotas: dict[str, int], reason: str) -> None:
        names = {container.folder: container.name for container in pod.containers}
        for folder, quota in quotas.items():
            subject = pod.subject(names.get(folder, ""))
            round_.set(subject, folder, _QUOTA, quota, NAME, reason, group=pod.uid, passing=True)


def _cpu_ns(round_: Round[Any], pod: Pod) -> int | None:
    """Return the CPU time that a pod has used in nanoseconds, or None if it is unknown."""
    usage = round_.usage(pod.folder, processor_only=True)
    return None if usage is None else usage.cpu_ns
