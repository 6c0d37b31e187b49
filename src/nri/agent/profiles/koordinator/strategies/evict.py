"""Evictions for CPU and for memory: all features of one resource in one round, as what one frees counts for others.

Rules: of the pods that a feature names none goes that `pod_class.never_evicted` spares (static pods, the system's own,
those whose priority is unknown), that does not allow it, or whose end frees nothing; the log names those that are
spared. After an eviction there is none for the time of a cooldown; for CPU none either for so long after the start,
while there are few samples. A pod that was asked to go is not asked again, and counts as gone. Next:
:mod:`nri.agent.profiles.koordinator.strategies.memory_qos`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.profiles.koordinator.strategies.rules import NodeSlo
from nri.agent.settings.values import AgentSettings
from nri.kube.quantity import capped, ceil
from nri.policies.koordinator import pod_annotations, pod_class
from nri.policies.koordinator.loops import evict
from nri.policies.koordinator.loops.evict import BatchCpu, Feature, Task, Victim
from nri.policies.koordinator.names import BATCH_CPU
from nri.policies.manifest import from_runtime
from nri.policies.writes import CPUS, QUOTA

__all__ = ["CpuEvict", "Evict", "MemoryEvict"]

_PERIOD_US = 100_000
_WINDOW_S: Final = 60
#: Samples of a window that are kept at most, and the seconds for which an evicted pod is remembered.
_MOST_SAMPLES: Final = 4096
_KEPT_S: Final = 600.0


class Evict(Strategy):
    """Evicts pods for one resource.

    Args:
        kind: cpu or memory.
        on: the features that are switched on.
        cooldown_s: for how long nothing is evicted after an eviction.
    """

    samples = Sampled.PODS | Sampled.BEST_EFFORT

    def __init__(self, kind: str, on: Collection[str], cooldown_s: float) -> None:
        self.features = [each for each in evict.FEATURES if each.kind == kind and each.name in on]
        self.name = ", ".join(each.name for each in self.features)
        self._kind, self._cooldown_s = kind, cooldown_s
        self._again: float | None = None
        self._asked: dict[str, float] = {}
        self._window: deque[tuple[float, BatchCpu]] = deque(maxlen=_MOST_SAMPLES)
        self._node: deque[tuple[float, float]] = deque(maxlen=_MOST_SAMPLES)

    def __len__(self) -> int:
        """The number of pods that are remembered."""
        return len(self._asked)

    def wants(self, rules: NodeSlo) -> bool:
        """Whether there is work: NodeSLO asks for it."""
        return rules.threshold.enabled

    def round(self, made: Round[NodeSlo]) -> None:
        """Decide whether pods have to go."""
        rule, now = made.rules.threshold, made.sample.at
        if not rule.enabled:
            self._window.clear()
            self._node.clear()
            return
        if self._again is None:
            self._again = now + (self._cooldown_s if self._kind == "cpu" else 0.0)
        releases = {}
        for feature in self.features:
            if evict.valid(feature, rule.keys):
                releases[feature] = self._release(made, feature)
            elif feature.threshold in rule.keys and feature.how != "satisfaction":
                made.errors.append(f"{feature.name}: {evict.idle(feature, rule.keys)}")
        if now < self._again:
            return
        self._asked = {uid: at for uid, at in self._asked.items() if now - at < _KEPT_S}
        tasks = [Task(feature, need, self._victims(made, feature)) for feature, (need, _) in releases.items() if need]
        reasons = {feature: reason for feature, (_, reason) in releases.items()}
        asking = _Asking(made, reasons)
        if evict.evict_round(tasks, set(self._asked), asking):
            self._again = now + self._cooldown_s
        self._asked |= dict.fromkeys(asking.asked, now)

    def _release(self, made: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
        """The amount that a feature has to free, and why."""
        if feature.how == "satisfaction":
            return self._satisfaction(made, feature)
        if feature.how == "allocatable":
            return _allocatable(made, feature)
        sample, keys = made.sample, made.rules.threshold.keys
        used: float | None
        if feature.kind == "cpu":
            used, capacity, why = sample.milli, sample.cpus * 1000, sample.no_cpu
        else:
            used, capacity, why = sample.memory_used, sample.memory_total or 0, sample.no_memory
        if used is None or not capacity:
            made.cannot(feature.name, "no pod is evicted", why)
            return {}, ""
        if feature.kind == "cpu":
            used = self._used_on_average(sample.at, used, keys.get("cpuEvictTimeWindowSeconds", 0))
        need = evict.usage_release(feature, used, capacity, keys)
        what = "CPU" if feature.kind == "cpu" else "memory"
        return {feature.kind: need} if need else {}, f"the node uses {int(used) * 100 // capacity} % of its {what}"

    def _used_on_average(self, now: float, used: float, window_s: int) -> float:
        """The CPU that the node has used, over the window that NodeSLO names; without one what it uses now."""
        self._node.append((now, used))
        while now - self._node[0][0] > max(window_s, 0):
            self._node.popleft()
        return sum(each for _, each in self._node) / len(self._node)

    def _satisfaction(self, made: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
        rule, now = made.rules.threshold, made.sample.at
        if not made.sample.cpus:
            made.cannot(feature.name, "no pod is evicted", made.sample.no_cpu)
            return {}, ""
        sample = _batch_cpu(made)
        if sample is None:
            return {}, ""
        self._window.append((now, sample))
        window_s = rule.keys.get("cpuEvictTimeWindowSeconds", _WINDOW_S)
        while now - self._window[0][0] > max(window_s, 0):
            self._window.popleft()
        if now - self._window[0][0] < window_s / 3:
            return {}, ""
        seen = [each for _, each in self._window]
        average = BatchCpu(*(sum(values) / len(seen) for values in zip(*seen, strict=True)))
        need = evict.satisfaction_release(average, sample, rule.keys)
        share = int(100 * sample.limit / sample.request) if sample.request else 100
        return {BATCH_CPU: need} if need else {}, f"batch pods get {share} % of the CPU that they ask for"

    def _victims(self, made: Round[NodeSlo], feature: Feature) -> list[Victim]:
        """The pods that may go, in order; why others may not is noted."""
        pods = {pod.uid: pod for pod in made.pods}
        cpu = feature.kind == "cpu"
        used = {uid: made.sample.of(pod.folder) for uid, pod in pods.items()}
        known = {uid: size for uid, each in used.items() if (size := each.milli if cpu else each.memory) is not None}
        found = []
        keys = made.rules.threshold.keys
        for pod in made.pods:
            if pod_class.labelled_be(pod.labels) and not pod_class.policy_allows(pod.manifest, feature.name):
                why = f"its annotation {pod_class.ANNOTATION_EVICTION_POLICY} does not allow {feature.name}"
                made.spared[pod.subject(), feature.name] = why
        batch = feature.how == "satisfaction"
        asked = {uid: _batch_milli(pod, made.sample.cpus * 1000) for uid, pod in pods.items()} if batch else None
        for victim in evict.ranked(feature, [pod.manifest for pod in made.pods], known, keys, asked):
            one = pods[_uid(victim.pod)]
            why = pod_class.never_evicted(victim.pod)
            if not why and evict.frees(feature, victim)[1] > 0:
                found.append(victim)
            elif why:
                made.spared[one.subject(), feature.name] = why
        return found


class CpuEvict(Evict):
    """Evicts pods for CPU."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__("cpu", names, settings.loops.cpu_evict_cooldown)


class MemoryEvict(Evict):
    """Evicts pods for memory."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__("memory", names, settings.loops.memory_evict_cooldown)


class _Asking:
    """Asks for evictions, each with the reason of its feature. `asked` are the uids, those that were refused too."""

    def __init__(self, made: Round[NodeSlo], reasons: Mapping[Feature, str]) -> None:
        self._moment, self._reasons = made, reasons
        self._pods = {pod.uid: pod for pod in made.pods}
        self.asked: list[str] = []

    def evict(self, feature: Feature, victim: Victim) -> bool:
        """Ask for one; a pod that was refused is not asked for again for a while."""
        uid = _uid(victim.pod)
        self.asked.append(uid)
        return self._moment.evict(self._pods[uid], feature.name, self._reasons[feature])


def _allocatable(made: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
    """The requests of batch and mid pods above the node's resources for them; nothing while that is not known."""
    status = (made.parts.store.document("Node") or {}).get("status") or {}
    given, keys = status.get("allocatable"), made.rules.threshold.keys
    if not isinstance(given, dict):
        made.cannot(feature.name, "no pod is evicted", "no Node with allocatable resources is known")
        return {}, ""
    try:
        allocatable = {name: ceil(capped(value) * (1000 if name == "cpu" else 1)) for name, value in given.items()}
    except ValueError as error:
        made.errors.append(f"{feature.name}: allocatable of the Node: {error}")
        return {}, ""
    asked: Counter[str] = Counter()
    for pod in made.pods:
        name, amount = evict.asked_for(feature, pod.manifest, keys)
        if name != feature.kind:  # of plain CPU and memory no eviction of these pods frees any
            asked[name] += amount
    del asked[""]
    need = evict.allocatable_release(feature, asked, allocatable, keys)
    told = ", ".join(f"{asked[name]} of {allocatable.get(name, 0)} {name}" for name in need)
    return need, f"pods ask for {told}"


def _batch_cpu(made: Round[NodeSlo]) -> BatchCpu | None:
    """CPU of all batch pods together; None while it is not known."""
    folder = made.best_effort_folder
    used = made.sample.of(folder).milli
    if used is None:
        return None
    limit: float = made.sample.cpus * 1000
    most = made.sample.cpus * 1000
    if made.rules.threshold.keys.get("cpuEvictPolicy") == "evictByAllocatable":
        status: Mapping[str, Any] = (made.parts.store.document("Node") or {}).get("status") or {}
        try:
            limit = ceil(capped((status.get("allocatable") or {})[BATCH_CPU])) or 1
        except (KeyError, TypeError, ValueError):
            return None
    else:
        quota, cpus = made.read(folder, QUOTA), made.read(folder, CPUS)
        if isinstance(quota, int) and quota > 0:
            limit = min(limit, quota * 1000 // _PERIOD_US)
        if isinstance(cpus, frozenset) and cpus:
            limit = min(limit, len(cpus) * 1000)
    return BatchCpu(used, sum(_batch_milli(pod, most) for pod in made.pods if pod_class.labelled_be(pod.labels)), limit)


def _batch_milli(pod: StrategyPod, most: int) -> int:
    """Thousandths of a CPU that a pod asks for as batch resources, not more than the machine has.

    By its spec, which the scheduler has counted. An annotation says so of pods of a runtime, which has no word for it;
    else it could have all others evicted, for all may write one.
    """
    request = pod_class.request(pod.manifest, BATCH_CPU)
    if not request and from_runtime(pod.manifest):
        request = pod_annotations.batch_request((pod_annotations.annotated(pod.annotations) or {}).values())
    return min(request, most)


def _uid(pod: Mapping[str, Any]) -> str:
    return str((pod.get("metadata") or {}).get("uid", ""))
