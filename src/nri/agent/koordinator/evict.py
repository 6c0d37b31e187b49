"""Evictions for CPU and for memory: all features of one resource in one round, as what one frees counts for others.

Rules: of the pods that a feature names none goes that `pod_class.never_evicted` spares (static pods, the system's own,
those whose priority is unknown), that does not allow it, or whose end frees nothing; the log names those that are
spared. After an eviction there is none for the time of a cooldown; for CPU none either for so long after the start,
while there are few samples. A pod whose eviction was accepted is not asked again for a while, and counts as gone. A
refused eviction frees nothing: the next pod is asked, and the next round asks again. Next:
:mod:`nri.agent.koordinator.memory_qos`.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nri.agent.koordinator import batch_resource, pod_class
from nri.agent.koordinator.decisions import evict
from nri.agent.koordinator.decisions.evict import BatchCpu, Feature, Task, Victim
from nri.agent.koordinator.names import BATCH_CPU
from nri.agent.koordinator.slo import NodeSlo
from nri.agent.loops.round import Round, StrategyPod
from nri.agent.loops.strategy import Sampled, Strategy
from nri.agent.settings.values import AgentSettings
from nri.kube.quantity import capped, ceil
from nri.policies.manifest import from_runtime
from nri.policies.writes import CPUS, QUOTA

__all__ = ["CpuEvict", "Evict", "MemoryEvict"]

_PERIOD_US = 100_000
_WINDOW_S: Final = 60
#: Samples of a window that are kept at most.
_MOST_SAMPLES: Final = 4096
#: For how many seconds a pod whose eviction was accepted counts as gone while it is still listed.
_ENDING_S: Final = 600.0
#: Refused evictions of one round: each may take the timeout of a request to the API server.
_MAX_REFUSALS: Final = 16
#: After this many seconds of requests a round asks no more pods: other strategies wait for its end.
_MAX_REQUESTS_S: Final = 10.0


class Evict(Strategy):
    """Evicts pods for one resource.

    Args:
        kind: cpu or memory.
        on: the features that are switched on.
        cooldown_s: for how long nothing is evicted after an eviction.
        interval_s: the seconds between two rounds.

    Attributes:
        accepted: when evictions were accepted of pods that may still be listed, by uid.
    """

    samples = Sampled.PODS | Sampled.BEST_EFFORT

    def __init__(self, kind: str, on: Collection[str], cooldown_s: float, interval_s: float) -> None:
        self.features = [each for each in evict.FEATURES if each.kind == kind and each.name in on]
        self.name = ", ".join(each.name for each in self.features)
        self._kind, self._cooldown_s, self._pause_s = kind, cooldown_s, interval_s
        self._again: float | None = None
        self.accepted: dict[str, float] = {}
        #: Pods that refused in earlier rounds, while there are more pods to ask than one round may.
        self._refused: frozenset[str] = frozenset()
        self._window: deque[tuple[float, BatchCpu]] = deque(maxlen=_MOST_SAMPLES)
        self._node: deque[tuple[float, float]] = deque(maxlen=_MOST_SAMPLES)

    def __len__(self) -> int:
        """The number of pods that are remembered."""
        return len(self.accepted) + len(self._refused)

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
                releases[feature] = self.release(made, feature)
            elif feature.threshold in rule.keys and feature.how != "satisfaction":
                made.errors.append(f"{feature.name}: {evict.idle(feature, rule.keys)}")
        if now < self._again:
            return
        self.accepted = {uid: at for uid, at in self.accepted.items() if now - at < _ENDING_S}
        tasks = [Task(feature, need, self.victims(made, feature)) for feature, (need, _) in releases.items() if need]
        reasons = {feature: reason for feature, (_, reason) in releases.items()}
        requests = _Requests(made, reasons, self._refused)
        if evict.evict_round(tasks, set(self.accepted), requests):
            self._again = now + self._cooldown_s
        self.accepted |= dict.fromkeys(requests.accepted, now)
        self._refused = self._refused | requests.refused if requests.exhausted else frozenset()

    def release(self, made: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
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
        sample = self.batch_cpu(made)
        if sample is None:
            return {}, ""
        self._window.append((now, sample))
        window_s = rule.keys.get("cpuEvictTimeWindowSeconds", _WINDOW_S)
        while now - self._window[0][0] > max(window_s, 0):
            self._window.popleft()
        if len(self._window) * self._pause_s < window_s // 3:
            return {}, ""
        seen = [each for _, each in self._window]
        average = BatchCpu(*(sum(values) / len(seen) for values in zip(*seen, strict=True)))
        need = evict.satisfaction_release(average, sample, rule.keys)
        share = int(100 * sample.limit / sample.request) if sample.request else 100
        return {BATCH_CPU: need} if need else {}, f"batch pods get {share} % of the CPU that they ask for"

    def batch_cpu(self, made: Round[NodeSlo]) -> BatchCpu | None:
        """Return the CPU of all batch pods together, by the policy of the node; None while it is not known."""
        measured = self.measured_batch_cpu(made)
        if measured is None or made.rules.threshold.keys.get("cpuEvictPolicy") != "evictByAllocatable":
            return measured
        status: Mapping[str, Any] = (made.parts.store.document("Node") or {}).get("status") or {}
        try:
            return measured._replace(limit=ceil(capped((status.get("allocatable") or {})[BATCH_CPU])) or 1)
        except (KeyError, TypeError, ValueError):
            return None

    def measured_batch_cpu(self, made: Round[NodeSlo]) -> BatchCpu | None:
        """Return what all batch pods use and ask for, and what their folder allows; None while it is not known."""
        folder = made.best_effort_folder
        used = made.sample.of(folder).milli
        if used is None:
            return None
        most = limit = made.sample.cpus * 1000
        quota, cpus = made.read(folder, QUOTA), made.read(folder, CPUS)
        if isinstance(quota, int) and quota > 0:
            limit = min(limit, quota * 1000 // _PERIOD_US)
        if isinstance(cpus, frozenset) and cpus:
            limit = min(limit, len(cpus) * 1000)
        asked = sum(_batch_milli(pod, most) for pod in made.pods if pod_class.labelled_be(pod.labels))
        return BatchCpu(used, asked, limit)

    def victims(self, made: Round[NodeSlo], feature: Feature) -> list[Victim]:
        """The pods that may go, in order; why others may not is noted."""
        pods = {pod.uid: pod for pod in made.pods}
        cpu = feature.kind == "cpu"
        used = {uid: made.sample.of(pod.folder) for uid, pod in pods.items()}
        sizes = {uid: each.milli if cpu else each.memory for uid, each in used.items()}
        known = {uid: int(size) for uid, size in sizes.items() if size is not None}
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
        super().__init__("cpu", names, settings.loops.cpu_evict_cooldown, settings.loops.interval)


class MemoryEvict(Evict):
    """Evicts pods for memory."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__("memory", names, settings.loops.memory_evict_cooldown, settings.loops.interval)


class _Requests:
    """The evictions that one round requests, each with the reason of its feature.

    Args:
        round_: the round.
        reasons: why pods have to go, by feature.
        passed_over: uids of pods that are not asked in this round.

    Attributes:
        accepted: uids of pods whose eviction is under way.
        refused: uids of pods that stay.
        exhausted: whether a pod was not asked, because a round has a limited number of refusals and limited time.
    """

    def __init__(self, round_: Round[NodeSlo], reasons: Mapping[Feature, str], passed_over: Collection[str]) -> None:
        self._round, self._reasons, self._passed_over = round_, reasons, passed_over
        self._pods = {pod.uid: pod for pod in round_.pods}
        self._deadline = time.monotonic() + _MAX_REQUESTS_S
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.exhausted = False

    def evict(self, feature: Feature, victim: Victim) -> bool:
        """Request one eviction; return whether it was accepted."""
        uid = _uid(victim.pod)
        if uid in self._passed_over:
            return False
        self.exhausted |= len(self.refused) >= _MAX_REFUSALS or time.monotonic() > self._deadline
        if self.exhausted:
            return False
        is_accepted = self._round.evict(self._pods[uid], feature.name, self._reasons[feature])
        (self.accepted if is_accepted else self.refused).add(uid)
        return is_accepted


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


def _batch_milli(pod: StrategyPod, most: int) -> int:
    """Thousandths of a CPU that a pod asks for as batch resources, not more than the machine has.

    By its spec, which the scheduler has counted. An annotation says so of pods of a runtime, which has no word for it;
    else it could have all others evicted, for all may write one.
    """
    request = pod_class.request(pod.manifest, BATCH_CPU)
    if not request and from_runtime(pod.manifest):
        request = batch_resource.batch_request((batch_resource.annotated(pod.annotations) or {}).values())
    return min(request, most)


def _uid(pod: Mapping[str, Any]) -> str:
    return str((pod.get("metadata") or {}).get("uid", ""))
