"""cpi: offline pods that slow online ones down, told by cycles per instruction, are limited for a while.

Rules: every minute events are counted for ten seconds; every five minutes online pods are judged by what they usually
are, and who disturbs them gets a hundredth of a second of CPU in each tenth for five minutes. A pod takes part by its
annotation. Without the processor's counters nobody is judged, which is reported. Quotas go back after that time, when
the service is switched off, and when the agent ends, unless somebody else has set others meanwhile. A pod that has the
limit when it is first seen was left by an agent that broke off, also if containers of it have begun anew since: it gets
the quotas of its containers' limits, after as long. A pod that quotaTurbo manages, or that has a limit as a whole, is
left alone. Next:
`nri.agent.rubik.profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik import quota_turbo
from nri.agent.rubik.counting import Counting
from nri.agent.rubik.decisions.cpi import (
    ANNOTATION,
    LIMITED_US,
    SUSPECT_NS,
    Baseline,
    Online,
    Series,
    add,
    antagonists,
    cpi_of,
    expire,
    limits,
    split,
)
from nri.agent.rubik.pods import limit_of, pod_of
from nri.agent.rubik.service import Service, Services, nanoseconds
from nri.agent.settings.values import AgentSettings
from nri.host.perf import Event
from nri.policies import manifest
from nri.policies.formulas import MIN_QUOTA_US, UNLIMITED

__all__ = ["NAME", "Cpi"]

NAME: Final = "cpi"
#: Seconds: of a sample, between two samples, between two judgements, of a limit, and between two clearings.
_SAMPLE_S, _PAUSE_S, _JUDGE_S, _LIMIT_S, _CLEAR_S = 10.0, 60.0, 300.0, 300.0, 1800.0
_QUOTA: Final = "cpu.cfs_quota"
_PERIOD: Final = "cpu.cfs_period"
_NS_PER_S: Final = 1_000_000_000


class _Limited(NamedTuple):
    """A pod that is limited: until when, and the quotas that it had, by folder."""

    until: float
    quotas: dict[str, int]


class Cpi(Service):
    """Limits pods that disturb others."""

    name = NAME
    transient: ClassVar[bool] = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._counting = Counting(NAME, (Event.CYCLES, Event.INSTRUCTIONS))
        #: The baselines and samples of online pods, and the CPU use of offline ones, by uid.
        self.online: dict[str, Online] = {}
        self.suspects: dict[str, Series] = {}
        #: The pods that are limited, by uid.
        self.limited: dict[str, _Limited] = {}
        #: The CPU time of pods when counting began.
        self._began: dict[str, int | None] = {}
        #: When a sample, a judgement and a clearing are due, in monotonic seconds.
        self.due = dict.fromkeys(("sample", "judge", "clear"), 0.0)
        #: The offline pods of the last round.
        self._seen: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """The number of pods that are limited."""
        return len(self.limited)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or quotas are to go back."""
        return super().wants(rules) or bool(self.limited)

    def pause_s(self) -> float:
        """Return the length of a sample."""
        return _SAMPLE_S

    def state(self, now: float) -> str:
        """Say how many pods are judged and limited, and when the next judgement is."""
        after = max(self.due["judge"] - now, 0.0)
        return (
            f"{len(self.online)} pods are judged, {len(self.limited)} limited; the next judgement is in {after:.0f} s"
        )

    def round(self, made: Round[Services]) -> None:
        """Sample, judge and limit, each when it is due."""
        now = made.sample.at
        pods = {pod.uid: pod for pod in made.pods}
        online = {uid: pod for uid, pod in pods.items() if pod.annotations.get(ANNOTATION) == "online"}
        offline = {uid: pod for uid, pod in pods.items() if pod.annotations.get(ANNOTATION) == "offline"}
        for uid in offline.keys() - self._seen:
            self._take_over(made, offline[uid])
        self._seen = frozenset(offline)
        if not self.on:
            self._counting.end()
            self.online, self.suspects = {}, {}
            self._restore(made, pods)
            return
        self.online = {uid: self.online.get(uid, Online(Baseline(), [], [])) for uid in online}
        self.suspects = {uid: self.suspects.get(uid, []) for uid in offline}
        if self._counting.since is not None:
            self._sample(made, {**online, **offline})
        elif self._is_due("sample", now, _PAUSE_S) and self._counting.begin(made, online.values(), "no pod is judged"):
            self._began = {
                uid: used for uid, pod in {**online, **offline}.items() if (used := _used(made, pod)) is not None
            }
        if self._is_due("clear", now, _CLEAR_S):
            self._clear(nanoseconds(made.sample) - SUSPECT_NS)
        if self._is_due("judge", now, _JUDGE_S):
            for uid in sorted(antagonists(self.online.values(), self.suspects, nanoseconds(made.sample))):
                self._limit(made, offline[uid])
        self._restore(made, pods)
        self._counting.report(made)

    def _is_due(self, what: str, now: float, pause_s: float) -> bool:
        if now < self.due[what]:
            return False
        self.due[what] = now + pause_s
        return True

    def _sample(self, made: Round[Services], pods: dict[str, StrategyPod]) -> None:
        """Take what was counted, and the CPUs that were used meanwhile."""
        seconds = made.sample.at - (self._counting.since or 0.0)
        found, at = self._counting.end(), nanoseconds(made.sample)
        for uid, pod in pods.items():
            used, before = _used(made, pod), self._began.get(uid)
            if used is None or before is None or used < before or seconds <= 0:
                continue
            cpus = (used - before) / _NS_PER_S / seconds
            if uid in self.suspects:
                add(self.suspects[uid], at, cpus)
            elif uid in found:
                try:
                    value = cpi_of(found[uid][Event.CYCLES], found[uid][Event.INSTRUCTIONS])
                except ValueError:
                    continue  # it did not run
                add(self.online[uid].cpi, at, value)
                add(self.online[uid].cpu, at, cpus)

    def _clear(self, before: int) -> None:
        """Take old samples into what is usual, and forget them."""
        self.online = {uid: expire(each, before) for uid, each in self.online.items()}
        self.suspects = {uid: split(series, before)[1] for uid, series in self.suspects.items()}

    def _take_over(self, made: Round[Services], pod: StrategyPod) -> None:
        """Take over the limit that an agent which broke off has left."""
        whole = (pod.manifest.get("spec") or {}).get("resources")
        if whole or pod.annotations.get(quota_turbo.ANNOTATION) == "true":
            return
        now = pod_of(pod)
        if manifest.ignored(pod.manifest) or made.read(now.folder, _QUOTA) != LIMITED_US:
            return

        def period_of(folder: str) -> int | None:
            found = made.read(folder, _PERIOD)
            return found if isinstance(found, int) else None

        back = {write.folder: int(write.value) for write in quota_turbo.restored(now, period_of)}
        limit, period = limit_of(pod), period_of(now.folder)
        if limit and period is None:
            return
        back[now.folder] = (
            quota_turbo.quota_of_limit(limit, period or 0) if limit else UNLIMITED
        )  # also for containers that do not run
        quotas = {each: quota if quota == UNLIMITED else max(quota, MIN_QUOTA_US) for each, quota in back.items()}
        self.limited[pod.uid] = _Limited(made.sample.at + _LIMIT_S, quotas)

    def _limit(self, made: Round[Services], pod: StrategyPod) -> None:
        """Limit a pod and its containers, unless somebody else moves its quotas; one that is limited, for longer."""
        if pod.annotations.get(quota_turbo.ANNOTATION) == "true":
            return
        until, before = made.sample.at + _LIMIT_S, self.limited.get(pod.uid)
        if before is not None:
            self.limited[pod.uid] = before._replace(until=until)
            return
        wanted = limits(pod_of(pod))
        quotas = {write.folder: found for write in wanted if isinstance(found := made.read(write.folder, _QUOTA), int)}
        if len(quotas) < len(wanted):
            made.errors.append(f"{NAME}: {pod.key}: its quotas cannot be read, and it is not limited")
            return
        self.limited[pod.uid] = _Limited(until, quotas)
        reason = "it disturbs an online pod, as cycles per instruction say"
        self._write(made, pod, {write.folder: int(write.value) for write in wanted}, reason)

    def _restore(self, made: Round[Services], pods: dict[str, StrategyPod]) -> None:
        """Give back the quotas of pods whose time is over."""
        for uid, each in list(self.limited.items()):
            if uid in pods and self.on and made.sample.at < each.until:
                continue
            del self.limited[uid]
            if uid in pods:
                ours = {
                    folder: quota for folder, quota in each.quotas.items() if made.read(folder, _QUOTA) == LIMITED_US
                }
                self._write(made, pods[uid], ours, "its time is over")

    def _write(self, made: Round[Services], pod: StrategyPod, quotas: dict[str, int], reason: str) -> None:
        names = {each.cgroup_parent: each.name for each in pod.containers}
        for folder, quota in quotas.items():
            subject = pod.subject(names.get(folder, ""))
            made.set(subject, folder, _QUOTA, quota, NAME, reason, whole=pod.uid, passing=True)


def _used(made: Round[Any], pod: StrategyPod) -> int | None:
    """The nanoseconds of CPU time that a pod has used."""
    found = made.usage(pod.folder, processor_only=True)
    return None if found is None else found.cpu_ns
