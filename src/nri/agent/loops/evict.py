"""BECPUEvict and BEMemoryEvict: whom to evict when best-effort pods get too little CPU, or the node runs out of memory.

Rules: after an eviction there is none for the time of a cooldown; a pod that was asked to go is not asked again, and
counts as gone. One round evicts only as many as the need takes. Next: :mod:`nri.agent.loops.memory_qos`.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Final

from nri.agent.loops.moment import Eviction, LoopPod, Moment
from nri.agent.loops.strategy import Strategies
from nri.kube.quantity import ceil
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.loops.evict import BatchCpu, Candidate, by_satisfaction, by_usage, victims
from nri.policies.koordinator.names import BATCH_CPU
from nri.policies.koordinator.writes import KNOBS

__all__ = ["CPU", "MEMORY", "CpuEvict", "MemoryEvict"]

CPU: Final = "BECPUEvict"
MEMORY: Final = "BEMemoryEvict"
_QUOTA, _CPUS, _PERIOD_US = KNOBS["cfs_quota"], KNOBS["cpuset"], 100_000
_NONE: Final = Fraction(0)
#: Samples of a window that are kept at most, and the seconds for which an evicted pod is remembered.
_MOST_SAMPLES: Final = 4096
_KEPT_S: Final = 600.0


class _Evict:
    """The part of both evictions: the cooldown, and the pods that were asked to go."""

    name = ""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._again = float("-inf")
        self._asked: dict[str, float] = {}

    def __len__(self) -> int:
        """The number of pods that are remembered."""
        return len(self._asked)

    def wants(self, strategies: Strategies) -> bool:
        """Whether there is work: NodeSLO asks for it."""
        return strategies.threshold.enabled

    def _evict(self, moment: Moment, need: int, frees: dict[str, int], used: dict[str, int], reason: str) -> None:
        """Ask for evictions until the need is met."""
        now = moment.sample.at
        self._asked = {uid: at for uid, at in self._asked.items() if now - at < _KEPT_S}
        pods = {pod.uid: pod for pod in moment.pods if pod.best_effort and pod.uid not in self._asked}
        candidates = [Candidate(uid, frees.get(uid, 0), pod.priority, used.get(uid, 0)) for uid, pod in pods.items()]
        for victim in victims(candidates, need):
            self._asked[victim.name] = now
            self._again = now + self._cooldown_s
            moment.evictions.append(Eviction(pods[victim.name], self.name, reason))


class CpuEvict(_Evict):
    """Evicts batch pods that get too little of the CPU that they ask for."""

    name = CPU

    def __init__(self, cooldown_s: float = 20.0) -> None:
        super().__init__(cooldown_s)
        self._window: deque[tuple[float, BatchCpu]] = deque(maxlen=_MOST_SAMPLES)

    def round(self, moment: Moment) -> None:
        """Decide whether pods have to go."""
        rule = moment.strategies.threshold
        if not rule.enabled or rule.satisfied_upper is None or rule.satisfied_lower is None:
            self._window.clear()
            return
        if not moment.sample.cpus:
            moment.cannot(CPU, "no pod is evicted", moment.sample.no_cpu)
            return
        now = moment.sample.at
        sample = self._sample(moment)
        if sample is None:
            return
        self._window.append((now, sample))
        while self._window and now - self._window[0][0] > rule.window_s:
            self._window.popleft()
        if now < self._again or now - self._window[0][0] < rule.window_s / 3:
            return
        seen = [each for _, each in self._window]
        average = BatchCpu(*(sum(values) / len(seen) for values in zip(*seen, strict=True)))
        need = by_satisfaction(average, sample, rule.satisfied_lower, rule.satisfied_upper, rule.usage_percent)
        if need > 0:
            pods = [pod for pod in moment.pods if pod.best_effort]
            most = moment.sample.cpus * 1000
            asked = {pod.uid: _batch_milli(pod, most) for pod in pods}
            used = {pod.uid: moment.sample.of(pod.folder).milli or 0 for pod in pods}
            share = int(100 * sample.limit / sample.request)
            self._evict(moment, need, asked, used, f"batch pods get {share} % of the CPU that they ask for")

    def _sample(self, moment: Moment) -> BatchCpu | None:
        """CPU of all best-effort pods together; None while it is not known."""
        folder = moment.best_effort_folder
        used = moment.sample.of(folder).milli
        if used is None:
            return None
        limit = most = moment.sample.cpus * 1000
        quota, cpus = moment.read(folder, _QUOTA), moment.read(folder, _CPUS)
        if isinstance(quota, int) and quota > 0:
            limit = min(limit, quota * 1000 // _PERIOD_US)
        if isinstance(cpus, frozenset) and cpus:
            limit = min(limit, len(cpus) * 1000)
        return BatchCpu(used, sum(_batch_milli(pod, most) for pod in moment.pods if pod.best_effort), limit)


class MemoryEvict(_Evict):
    """Evicts batch pods while the node has too little memory."""

    name = MEMORY

    def __init__(self, cooldown_s: float = 4.0) -> None:
        super().__init__(cooldown_s)

    def round(self, moment: Moment) -> None:
        """Decide whether pods have to go."""
        rule, sample = moment.strategies.threshold, moment.sample
        if not rule.enabled or rule.memory_percent is None or sample.at < self._again:
            return
        if sample.memory_total is None or sample.memory_used is None:
            moment.cannot(MEMORY, "no pod is evicted", sample.no_memory)
            return
        try:
            need = by_usage(sample.memory_used, sample.memory_total, rule.memory_percent, rule.memory_lower)
        except ValueError as error:
            moment.errors.append(f"{MEMORY}: {error}")
            return
        if need > 0:
            sizes = {pod.uid: sample.of(pod.folder).memory or 0 for pod in moment.pods if pod.best_effort}
            share = sample.memory_used * 100 // sample.memory_total
            self._evict(moment, need, sizes, sizes, f"the node uses {share} % of its memory")


def _batch_milli(pod: LoopPod, most: int) -> int:
    """Thousandths of a CPU that a pod asks for as batch resources, not more than the machine has.

    By its spec, which the scheduler has counted. An annotation says so of pods of a runtime, which has no word for it;
    else it could have all others evicted, for all may write one.
    """
    found = [extended for spec in pod.specs if (extended := manifest.extended_of(spec)) is not None]
    if not found and pod.manifest.get("cgroupParent"):
        found = list((manifest.annotated(pod.annotations) or {}).values())
    return min(sum(max(ceil(each.requests.get(BATCH_CPU, _NONE)), 0) for each in found), most)
