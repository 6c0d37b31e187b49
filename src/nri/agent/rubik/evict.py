"""Evictions of offline pods: the common code of psi, cpuevict and memoryevict.

One pod is evicted at a time: the pod with the highest usage of the resource, and of equal pods the newer one. A pod
with unknown usage is not evicted. The threshold must be exceeded in several consecutive rounds (`loops.evict_after`). A
cooldown begins when an eviction is accepted. An evicted pod gets a minute to end. If an eviction is refused, for
example by a disruption budget, the next pod is tried. Pods of kube-system, static pods and mirror pods are never
evicted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik.pods import offline, protected
from nri.agent.rubik.service import Service, Services, nanoseconds
from nri.agent.settings.values import AgentSettings

#: The maximum number of pods that a round tries to evict, if evictions are refused.
_MAX_ATTEMPTS: Final = 3
#: The time in seconds that an evicted pod may need to end.
_ENDING_S: Final = 60.0


class Sample(NamedTuple):
    """A reading of a pod's usage."""

    t_ns: int
    cpu_ns: int
    memory_bytes: int


def cpu_percent(samples: Sequence[Sample], cpus: int) -> float | None:
    """Return the percentage of the node's CPU that a pod used between its last two samples, or None if unknown."""
    if len(samples) < 2:
        return None
    first, last = samples[-2:]
    elapsed_ns, used_ns = last.t_ns - first.t_ns, last.cpu_ns - first.cpu_ns
    return None if elapsed_ns <= 0 or used_ns < 0 or cpus <= 0 else 100 * used_ns / elapsed_ns / cpus


def memory_mb(samples: Sequence[Sample]) -> float | None:
    """Return the memory usage in the last sample in MB, or None without a sample."""
    return samples[-1].memory_bytes / 10**6 if samples else None


def candidates(pods: Iterable[Pod], *, from_apiserver: bool) -> list[Pod]:
    """Return the pods that may be evicted; `from_apiserver` as for `protected`."""
    return [pod for pod in pods if offline(pod) and not protected(pod, from_apiserver=from_apiserver)]


def victim(pods: Iterable[Pod], usage_by_uid: Mapping[str, float | None]) -> Pod | None:
    """Return the candidate to evict."""
    known_usage = [(usage, pod) for pod in pods if (usage := usage_by_uid.get(pod.uid)) is not None]
    order = sorted(known_usage, key=lambda row: (-row[0], -(row[1].started or 0.0), row[1].namespace, row[1].name))
    return order[0][1] if order else None


class Cooldown:
    """A pause after an eviction."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pause_end: float | None = None

    def over(self, now: float) -> bool:
        """Return whether the pause is over at a time in seconds."""
        return self._pause_end is None or now >= self._pause_end

    def remaining_s(self, now: float) -> float:
        """Return the remaining seconds of the pause."""
        return 0.0 if self._pause_end is None else max(self._pause_end - now, 0.0)

    def begin(self, now: float) -> None:
        """Start the pause."""
        self._pause_end = now + self._seconds


class DueEviction(NamedTuple):
    """An eviction that is due: the resource whose usage decides the victim, and the reason."""

    resource: str
    reason: str


class EvictionService(Service):
    """A service that evicts an offline pod while a condition is true."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._rounds_until_eviction = settings.loops.evict_after
        self._from_apiserver = settings.pods.source == "apiserver"
        #: The number of consecutive rounds above the threshold.
        self._rounds_above = 0
        self._samples: dict[str, deque[Sample]] = {}
        #: The times of accepted evictions of pods that are still listed, by uid.
        self._evicted_at: dict[str, float] = {}
        self._cooldown = Cooldown(0)
        #: The readings of the last round as text, for the status.
        self._readings = ""

    def __len__(self) -> int:
        """The number of pods with remembered usage."""
        return len(self._samples)

    def pause_s(self) -> float:
        """Return the configured interval between rounds, in seconds."""
        return float(self.block.interval)

    def state(self, now: float) -> str:
        """Return the readings of the last round, and the remaining cooldown."""
        remaining_s, above, needed = self._cooldown.remaining_s(now), self._rounds_above, self._rounds_until_eviction
        progress = f"{above} of {needed} rounds above the threshold" if 0 < above < needed else ""
        return "; ".join(
            filter(
                None, (self._readings, progress, f"no eviction for another {remaining_s:.0f} s" if remaining_s else "")
            )
        )

    def block_changed(self) -> None:
        """Reset the counters after the service's configuration block has changed."""
        self._cooldown = Cooldown(0 if self.block is None else self.block.cooldown or 0)
        self._rounds_above = 0

    def round(self, round_: Round[Services]) -> None:
        """Evict one pod if an eviction is due."""
        if not self.on:
            self._samples.clear()
            return
        pods = {pod.uid: pod for pod in round_.pods}
        self._sample(round_, [pod for pod in pods.values() if offline(pod)])
        now = round_.sample.at
        self._evicted_at = {uid: at for uid, at in self._evicted_at.items() if uid in pods and now < at + _ENDING_S}
        due = self.due(round_, list(pods.values()))
        self._rounds_above = self._rounds_above + 1 if due is not None else 0
        if due is None or self._rounds_above < self._rounds_until_eviction or not self._cooldown.over(now):
            return
        possible = candidates(pods.values(), from_apiserver=self._from_apiserver)
        remaining = [pod for pod in possible if pod.uid not in self._evicted_at]
        for _ in range(_MAX_ATTEMPTS):
            chosen = victim(remaining, self.usage_by_uid(due.resource, round_.sample.cpus))
            if chosen is None:
                round_.errors.append(f"{self.name}: {due.reason}, but the usage of all offline pods is unknown")
                return
            if round_.evict(chosen, self.name, due.reason):
                self._evicted_at[chosen.uid] = now
                self._rounds_above = 0
                self._cooldown.begin(now)
                return
            remaining.remove(chosen)

    @abstractmethod
    def due(self, round_: Round[Services], pods: Sequence[Pod]) -> DueEviction | None:
        """Return the eviction that is due now, or None if no eviction is due."""

    def _sample(self, round_: Round[Services], pods: Iterable[Pod]) -> None:
        now, samples = nanoseconds(round_.sample), dict[str, deque[Sample]]()
        for pod in pods:
            usage = round_.usage(pod.folder)
            if usage is not None and usage.cpu_ns is not None and usage.memory_bytes is not None:
                samples[pod.uid] = self._samples.get(pod.uid, deque(maxlen=2))
                samples[pod.uid].append(Sample(now, usage.cpu_ns, usage.memory_bytes))
        self._samples = samples

    def usage_by_uid(self, resource: str, cpus: int) -> Mapping[str, float | None]:
        """Return the usage of offline pods by uid: percentage of the node's CPU, or MB of memory; None if unknown."""
        if resource == "memory":
            return {uid: memory_mb(list(samples)) for uid, samples in self._samples.items()}
        return {uid: cpu_percent(list(samples), cpus) for uid, samples in self._samples.items()}
