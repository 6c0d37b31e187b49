"""Evictions because of CPU or memory: when they start, how much they must free, the order of pods, and the requests.

| feature | starts when | candidates | frees |
|---|---|---|---|
| BECPUEvict | batch pods get too little of the CPU that they request | pods with label BE | requested batch CPU |
| BEMemoryEvict | the node uses too much memory | pods with label BE | used memory |
| CPUAllocatableEvict, MemoryAllocatableEvict | batch or mid pods request too much | see below | requests |
| CPUEvict, MemoryEvict | the node uses too much | see below | usage |

The candidates of the last two rows are pods with a label that allows evictions, up to a priority in NodeSLO. All
features of one resource decide in one round, because an eviction for one feature also frees resources for the others.
`pod_class.never_evicted` spares static pods, system pods and pods of unknown priority; the log names them. A cooldown
follows each eviction; for CPU it also follows the start, when there are few samples. An accepted eviction counts as
freed. After a refused eviction the next pod is tried, and the next round tries again. Units: thousandths of CPUs and
bytes.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from nri.agent.koordinator import batch_resource, pod_class
from nri.agent.koordinator.documents import SLO, NodeSlo
from nri.agent.koordinator.names import BATCH_CPU
from nri.agent.koordinator.thresholds import THRESHOLD
from nri.agent.loops.round import Round
from nri.agent.loops.strategy import SampledCgroups, Strategy
from nri.agent.model import CPUS, QUOTA, Pod
from nri.agent.pods.manifest import active, from_runtime
from nri.agent.profile import StrategyRow
from nri.agent.settings.values import AgentSettings
from nri.kube.quantity import capped, ceil

#: The default lower threshold is this many percent below the threshold.
_BUFFER: Final = 2
_USAGE_PERCENT: Final = 90
#: Pods with a higher priority are production pods; allocatable evictions spare them.
MAX_PRIORITY: Final = 7999
Thresholds = Mapping[str, Any]
_PERIOD_US = 100_000
_WINDOW_S: Final = 60
#: The maximum number of samples of a window.
_MAX_SAMPLES: Final = 4096
#: The time in seconds for which an evicted pod counts as freed while it is still listed.
_ENDING_S: Final = 600.0
#: The maximum number of refused evictions in a round; each may take the timeout of a request to the apiserver.
_MAX_REFUSALS: Final = 16
#: The maximum time in seconds for the requests of a round, because other strategies wait for its end.
MAX_REQUESTS_S: Final = 10.0


class Feature(NamedTuple):
    """A feature: its name, its resource, its kind of decision, and NodeSLO's keys of the upper and lower threshold."""

    name: str
    kind: str
    how: str
    threshold: str
    lower: str
    most_priority: str = ""


_USED, _ALLOCATABLE = "evictEnabledPriorityThreshold", "allocatableEvictPriorityThreshold"
#: The features, in the order of their decisions in a round.
FEATURES: Final = (
    Feature(
        "BECPUEvict", "cpu", "satisfaction", "cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent"
    ),
    Feature(
        "CPUAllocatableEvict", "cpu", "allocatable", "cpuAllocatableEvictThresholdPercent",
        "cpuAllocatableEvictLowerPercent", _ALLOCATABLE,
    ),
    Feature("CPUEvict", "cpu", "used", "cpuEvictThresholdPercent", "cpuEvictLowerPercent", _USED),
    Feature("BEMemoryEvict", "memory", "used", "memoryEvictThresholdPercent", "memoryEvictLowerPercent"),
    Feature(
        "MemoryAllocatableEvict", "memory", "allocatable", "memoryAllocatableEvictThresholdPercent",
        "memoryAllocatableEvictLowerPercent", _ALLOCATABLE,
    ),
    Feature("MemoryEvict", "memory", "used", "memoryEvictThresholdPercent", "memoryEvictLowerPercent", _USED),
)  # fmt: skip


class BatchCpu(NamedTuple):
    """The CPU of all batch pods together, in thousandths: used, requested, and the limit of their cgroup."""

    used: float
    request: float
    limit: float


class Victim(NamedTuple):
    """A pod that may be evicted, with its request and usage of the feature's resource. Unknown usage is None."""

    pod: Mapping[str, Any]
    request: int
    used: int | None


def valid(feature: Feature, thresholds: Thresholds) -> bool:
    """Return whether NodeSLO has valid thresholds for a feature. Without them the feature does nothing."""
    threshold, lower = thresholds.get(feature.threshold), thresholds.get(feature.lower)
    if feature.how == "satisfaction":
        return threshold is not None and lower is not None and 0 < lower <= 60 and lower <= threshold < 100
    if threshold is None or threshold < 0:
        return False
    maximum = thresholds.get(feature.most_priority)
    if feature.how == "allocatable":
        return lower is not None and lower < threshold and maximum is not None and maximum <= MAX_PRIORITY
    if (threshold - _BUFFER if lower is None else lower) >= threshold:
        return False
    return not feature.most_priority or maximum is not None


def idle(feature: Feature, thresholds: Thresholds) -> str:
    """Return why a feature does nothing although NodeSLO has its threshold, or "" if its numbers are valid."""
    if valid(feature, thresholds):
        return ""
    threshold, lower, maximum = (
        thresholds.get(key) for key in (feature.threshold, feature.lower, feature.most_priority)
    )
    if feature.most_priority and maximum is None:
        return f"{feature.most_priority} is missing, so no pod is evicted"
    if feature.how in ("allocatable", "satisfaction") and lower is None:
        return f"{feature.lower} is missing, so no pod is evicted"
    if feature.how == "allocatable" and maximum is not None and maximum > MAX_PRIORITY:
        return f"{feature.most_priority} {maximum} is above {MAX_PRIORITY}; pods above it are production pods"
    accepted = "from the lower threshold to 99, and the lower threshold from 1 to 60"
    if feature.how != "satisfaction":
        accepted = "0 or more, and the lower threshold must be below it"
    return f"{feature.threshold} {threshold} with {feature.lower} {lower} is not valid: it must be {accepted}"


def satisfaction_release(average: BatchCpu, now: BatchCpu, thresholds: Thresholds) -> int:
    """Return the amount of CPU requests to free, in thousandths of a CPU.

    Args:
        average: the average over the window; the caller checks the number of samples.
        now: the latest sample.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
    """
    lower = thresholds["cpuEvictBESatisfactionLowerPercent"]
    upper = thresholds["cpuEvictBESatisfactionUpperPercent"]
    usage = thresholds.get("cpuEvictBEUsageThresholdPercent", _USAGE_PERCENT)
    needs = []
    for sample in (average, now):
        if not _is_busy(sample, usage) or sample.request <= 0:
            return 0
        rate = sample.limit / sample.request
        gap = upper / 100 - rate
        if rate > lower / 100 or gap <= 0:
            return 0
        needs.append(int(sample.request * gap))
    return min(needs)


def usage_release(feature: Feature, used: float, capacity: int, thresholds: Thresholds) -> int:
    """Return the amount of CPU or memory to free on a node, or 0 below the threshold."""
    threshold, lower = thresholds.get(feature.threshold), thresholds.get(feature.lower)
    if threshold is None or capacity <= 0:
        return 0
    percent = int(used) * 100 // capacity
    down_to: int = threshold - _BUFFER if lower is None else lower
    return 0 if percent < threshold else max(capacity * (percent - down_to) // 100, 0)


def requested_amount(feature: Feature, pod: Mapping[str, Any], thresholds: Thresholds) -> tuple[str, int]:
    """Return the resource of a feature that a pod requests, and the amount; ("", 0) if its priority is too high."""
    maximum = thresholds.get(feature.most_priority)
    if maximum is None or pod_class.priority(pod) > maximum:
        return "", 0
    name = pod_class.resource_name(pod, feature.kind)
    return name, pod_class.request(pod, name)


def allocatable_release(
    feature: Feature, requests: Mapping[str, int], allocatable: Mapping[str, int], thresholds: Thresholds
) -> dict[str, int]:
    """Return the amounts of batch and mid resources to free. A resource that the node lacks is freed completely.

    Args:
        feature: the feature.
        requests: the sums of pods' requests by resource; see `requested_amount`.
        allocatable: the node's amounts by resource; an absent resource counts as 0.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
    """
    threshold, down_to = thresholds[feature.threshold], thresholds[feature.lower]
    release = {}
    for name, amount in requests.items():
        has = allocatable.get(name, 0)
        if has <= 0:
            release[name] = amount
        elif amount / has > threshold / 100:  # floating point, as in Koordinator: one unit more or less
            excess = amount - down_to / 100 * has if feature.kind == "cpu" else (amount / has - down_to / 100) * has
            release[name] = int(excess)
    return release


def frees(feature: Feature, victim: Victim) -> tuple[str, int]:
    """Return the resource and amount that the eviction of a pod frees; ("", 0) if it frees nothing."""
    if feature.how == "satisfaction":
        return BATCH_CPU, victim.request
    if feature.how == "used":
        return feature.kind, victim.used or 0
    name = pod_class.resource_name(victim.pod, feature.kind)
    return ("", 0) if name == feature.kind else (name, victim.request)


def ranked(
    feature: Feature,
    pods: Iterable[Mapping[str, Any]],
    used: Mapping[str, int],
    thresholds: Thresholds,
    requests: Mapping[str, int] | None = None,
) -> Sequence[Victim]:
    """Return the pods that a feature may evict, in the order of evictions.

    Args:
        feature: the feature.
        pods: the pods of the node.
        used: the CPU or memory usage of measured pods, by uid.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
        requests: batch CPU requests by uid, if they are more accurate than the spec.
    """
    requests_by_uid = requests or {}
    allowed = [pod for pod in pods if pod_class.policy_allows(pod, feature.name)]
    if not feature.most_priority:
        victims = [
            _victim(feature, pod, used, requests_by_uid) for pod in allowed if pod_class.labelled_be(_labels(pod))
        ]
        # Of two pods without memory usage, the later name is evicted first; the later stable sorts keep that order.
        if feature.kind == "memory":
            victims.sort(key=lambda victim: "" if victim.used else str(_meta(victim.pod).get("name", "")), reverse=True)
        return sorted(victims, key=lambda victim: (_batch_priority(victim.pod), -_weight(feature, victim)))
    maximum = thresholds.get(feature.most_priority)
    victims = [
        _victim(feature, pod, used, requests_by_uid)
        for pod in allowed
        if maximum is not None
        and pod_class.evictable_label(pod)
        and pod_class.priority(pod) <= maximum
        and active(pod)
        and _uid(pod) in used
    ]
    return sorted(victims, key=lambda victim: _order(feature, victim))


class Evictor(Protocol):
    """An object that evicts pods, one at a time."""

    def evict(self, feature: Feature, victim: Victim) -> bool:
        """Return whether the eviction was accepted; otherwise the next pod is tried."""
        ...


class Task(NamedTuple):
    """The work of one feature in a round: the amounts to free by resource, and the candidates in order."""

    feature: Feature
    release: Mapping[str, int]
    victims: Sequence[Victim]


def evict_round(tasks: Iterable[Task], evicted_uids: Collection[str], evictor: Evictor) -> int:
    """Evict pods until the amounts of each task are freed, and return the number of evicted pods.

    Args:
        tasks: the tasks, in the order of their decisions.
        evicted_uids: the uids of pods that were evicted before and are still listed; they count as freed.
        evictor: the object that evicts pods.
    """
    every = list(tasks)
    evicted, counted = 0, set()
    freed: Counter[tuple[bool, str]] = Counter()  # by (is usage, resource), for all tasks
    for feature, release, victims in every:
        used = feature.how == "used"
        for victim in victims:
            uid = _uid(victim.pod)
            if all(freed[used, name] >= amount for name, amount in release.items()):
                break
            if uid in counted or (uid not in evicted_uids and not evictor.evict(feature, victim)):
                continue
            counted.add(uid)
            evicted += uid not in evicted_uids
            freed.update(_freed_amounts(every, feature, victim))
    return evicted


def _freed_amounts(tasks: Iterable[Task], chooser: Feature, victim: Victim) -> dict[tuple[bool, str], int]:
    """Return the amounts that the eviction of a pod frees for all tasks."""
    freed: dict[tuple[bool, str], int] = {}
    for feature, release, _ in tasks:
        with_request = victim
        if feature is not chooser and feature.how == "satisfaction":
            with_request = victim._replace(request=pod_class.request(victim.pod, BATCH_CPU))
        name, amount = frees(feature, with_request)
        if name in release:
            place = feature.how == "used", name
            freed[place] = max(freed.get(place, 0), amount)
    return freed


def _batch_priority(pod: Mapping[str, Any]) -> int:
    """Return the priority by which batch pods are sorted: the priority in the spec, even if it is 0."""
    priority = pod_class.spec_priority(pod)
    return pod_class.priority(pod) if priority is None else priority


def _weight(feature: Feature, victim: Victim) -> float:
    """Return the usage by which batch pods of one priority are sorted. CPU usage is relative to the request."""
    if feature.how != "satisfaction":
        return float(victim.used or 0)
    return (victim.used or 0) / victim.request if victim.request else 0.0


def _order(feature: Feature, victim: Victim) -> tuple[int, int, int, int]:
    pod = victim.pod
    size = victim.request if feature.how == "allocatable" else victim.used or 0
    return pod_class.eviction_priority(pod), pod_class.priority(pod), pod_class.label_priority(pod), -size


def _victim(feature: Feature, pod: Mapping[str, Any], used: Mapping[str, int], requests: Mapping[str, int]) -> Victim:
    uid = _uid(pod)
    name = BATCH_CPU if feature.how == "satisfaction" else pod_class.resource_name(pod, feature.kind)
    request = requests[uid] if name == BATCH_CPU and uid in requests else pod_class.request(pod, name)
    return Victim(pod, request, used.get(uid))


def _meta(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = pod.get("metadata") or {}
    return meta


def _labels(pod: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = _meta(pod).get("labels") or {}
    return labels


def _uid(pod: Mapping[str, Any]) -> str:
    return str(_meta(pod).get("uid", ""))


def _is_busy(sample: BatchCpu, percent: int) -> bool:
    """Return whether the pods use up their limit. A limit below one CPU always counts as used up."""
    return 0 < sample.limit < 1000 or (sample.limit > 0 and sample.used / sample.limit >= percent / 100)


class Evict(Strategy):
    """The strategy that evicts pods because of one resource.

    Args:
        kind: the resource: cpu or memory.
        on: the names of the enabled features.
        cooldown_s: the pause after an eviction, in seconds.
        interval_s: the seconds between two rounds.

    Attributes:
        accepted: the times of accepted evictions, by the uid of the pod, which may still be listed.
    """

    samples = SampledCgroups.PODS | SampledCgroups.BEST_EFFORT

    def __init__(self, kind: str, on: Collection[str], cooldown_s: float, interval_s: float) -> None:
        self.features = [feature for feature in FEATURES if feature.kind == kind and feature.name in on]
        self.name = ", ".join(feature.name for feature in self.features)
        self._kind, self._cooldown_s, self._pause_s = kind, cooldown_s, interval_s
        self._next_attempt: float | None = None
        self.accepted: dict[str, float] = {}
        #: Pods with an eviction that earlier rounds requested without success, while there are more candidates than a
        #: round may try.
        self._refused: frozenset[str] = frozenset()
        self._window: deque[tuple[float, BatchCpu]] = deque(maxlen=_MAX_SAMPLES)
        self._node: deque[tuple[float, float]] = deque(maxlen=_MAX_SAMPLES)

    def __len__(self) -> int:
        """The number of remembered pods."""
        return len(self.accepted) + len(self._refused)

    def is_needed(self, rules: NodeSlo) -> bool:
        """Return whether NodeSLO switches evictions on."""
        return rules[THRESHOLD].enabled

    def round(self, round_: Round[NodeSlo]) -> None:
        """Decide on evictions and request them."""
        rule, now = round_.rules[THRESHOLD], round_.sample.at
        if not rule.enabled:
            self._window.clear()
            self._node.clear()
            return
        if self._next_attempt is None:
            self._next_attempt = now + (self._cooldown_s if self._kind == "cpu" else 0.0)
        releases = {}
        for feature in self.features:
            if valid(feature, rule.keys):
                releases[feature] = self.release(round_, feature)
            elif feature.threshold in rule.keys and feature.how != "satisfaction":
                round_.errors.append(f"{feature.name}: {idle(feature, rule.keys)}")
        if now < self._next_attempt:
            return
        self.accepted = {uid: at for uid, at in self.accepted.items() if now - at < _ENDING_S}
        tasks = [Task(feature, need, self.victims(round_, feature)) for feature, (need, _) in releases.items() if need]
        reasons = {feature: reason for feature, (_, reason) in releases.items()}
        requests = _Requests(round_, reasons, self._refused)
        if evict_round(tasks, set(self.accepted), requests):
            self._next_attempt = now + self._cooldown_s
        self.accepted |= dict.fromkeys(requests.accepted, now)
        self._refused = self._refused | requests.refused if requests.exhausted else frozenset()

    def release(self, round_: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
        """Return the amounts that a feature has to free, and the reason."""
        if feature.how == "satisfaction":
            return self._satisfaction(round_, feature)
        if feature.how == "allocatable":
            return _allocatable(round_, feature)
        sample, keys = round_.sample, round_.rules[THRESHOLD].keys
        used: float | None
        if feature.kind == "cpu":
            used, capacity, why = sample.milli, sample.cpus * 1000, sample.no_cpu
        else:
            used, capacity, why = sample.memory_used, sample.memory_total or 0, sample.no_memory
        if used is None or not capacity:
            round_.cannot(feature.name, "no pod is evicted", why)
            return {}, ""
        if feature.kind == "cpu":
            used = self._used_on_average(sample.at, used, keys.get("cpuEvictTimeWindowSeconds", 0))
        need = usage_release(feature, used, capacity, keys)
        what = "CPU" if feature.kind == "cpu" else "memory"
        return {feature.kind: need} if need else {}, f"the node uses {int(used) * 100 // capacity} % of its {what}"

    def _used_on_average(self, now: float, used: float, window_s: int) -> float:
        """Return the node's average CPU usage in NodeSLO's time window, or its current usage without a window."""
        self._node.append((now, used))
        while now - self._node[0][0] > max(window_s, 0):
            self._node.popleft()
        return sum(milli for _, milli in self._node) / len(self._node)

    def _satisfaction(self, round_: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
        rule, now = round_.rules[THRESHOLD], round_.sample.at
        if not round_.sample.cpus:
            round_.cannot(feature.name, "no pod is evicted", round_.sample.no_cpu)
            return {}, ""
        sample = self.batch_cpu(round_)
        if sample is None:
            return {}, ""
        self._window.append((now, sample))
        window_s = rule.keys.get("cpuEvictTimeWindowSeconds", _WINDOW_S)
        while now - self._window[0][0] > max(window_s, 0):
            self._window.popleft()
        if len(self._window) * self._pause_s < window_s // 3:
            return {}, ""
        samples = [usage for _, usage in self._window]
        average = BatchCpu(*(sum(values) / len(samples) for values in zip(*samples, strict=True)))
        need = satisfaction_release(average, sample, rule.keys)
        share = int(100 * sample.limit / sample.request) if sample.request else 100
        return {BATCH_CPU: need} if need else {}, f"batch pods get {share} % of the CPU that they request"

    def batch_cpu(self, round_: Round[NodeSlo]) -> BatchCpu | None:
        """Return the CPU of all batch pods together with the limit of NodeSLO's policy, or None if unknown."""
        measured = self.measured_batch_cpu(round_)
        if measured is None or round_.rules[THRESHOLD].keys.get("cpuEvictPolicy") != "evictByAllocatable":
            return measured
        status: Mapping[str, Any] = (round_.parts.store.document("Node") or {}).get("status") or {}
        try:
            return measured._replace(limit=ceil(capped((status.get("allocatable") or {})[BATCH_CPU])) or 1)
        except (KeyError, TypeError, ValueError):
            return None

    def measured_batch_cpu(self, round_: Round[NodeSlo]) -> BatchCpu | None:
        """Return usage, requests and limit of all batch pods together, or None while they are unknown."""
        folder = round_.best_effort_folder
        used = round_.sample.of(folder).milli
        if used is None:
            return None
        node_milli = limit = round_.sample.cpus * 1000
        quota, cpus = round_.read(folder, QUOTA), round_.read(folder, CPUS)
        if isinstance(quota, int) and quota > 0:
            limit = min(limit, quota * 1000 // _PERIOD_US)
        if isinstance(cpus, frozenset) and cpus:
            limit = min(limit, len(cpus) * 1000)
        requested = sum(_batch_milli(pod, node_milli) for pod in round_.pods if pod_class.labelled_be(pod.labels))
        return BatchCpu(used, requested, limit)

    def victims(self, round_: Round[NodeSlo], feature: Feature) -> list[Victim]:
        """Return the pods that may be evicted, in order, and record why other candidates are spared."""
        pods = {pod.uid: pod for pod in round_.pods}
        cpu = feature.kind == "cpu"
        used = {uid: round_.sample.of(pod.folder) for uid, pod in pods.items()}
        sizes = {uid: usage.milli if cpu else usage.memory for uid, usage in used.items()}
        size_by_uid = {uid: int(size) for uid, size in sizes.items() if size is not None}
        victims = []
        keys = round_.rules[THRESHOLD].keys
        for pod in round_.pods:
            if pod_class.labelled_be(pod.labels) and not pod_class.policy_allows(pod.manifest, feature.name):
                why = f"annotation {pod_class.ANNOTATION_EVICTION_POLICY} does not allow {feature.name}"
                round_.spared[pod.subject(), feature.name] = why
        batch = feature.how == "satisfaction"
        requests = {uid: _batch_milli(pod, round_.sample.cpus * 1000) for uid, pod in pods.items()} if batch else None
        for victim in ranked(feature, [pod.manifest for pod in round_.pods], size_by_uid, keys, requests):
            one = pods[_uid(victim.pod)]
            why = pod_class.never_evicted(victim.pod)
            if not why and frees(feature, victim)[1] > 0:
                victims.append(victim)
            elif why:
                round_.spared[one.subject(), feature.name] = why
        return victims


class CpuEvict(Evict):
    """The strategy that evicts pods because of CPU."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__("cpu", names, settings.loops.cpu_evict_cooldown, settings.loops.interval)


class MemoryEvict(Evict):
    """The strategy that evicts pods because of memory."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__("memory", names, settings.loops.memory_evict_cooldown, settings.loops.interval)


class _Requests:
    """The evictions that one round requests.

    Args:
        round_: the round.
        reasons: the reasons of evictions, by feature.
        passed_over: the uids of pods that are not tried in this round.

    Attributes:
        accepted: the uids of pods with an accepted eviction.
        refused: the uids of pods with a refused eviction.
        exhausted: whether the round reached its limit of refusals or time before the last candidate.
    """

    def __init__(self, round_: Round[NodeSlo], reasons: Mapping[Feature, str], passed_over: Collection[str]) -> None:
        self._round, self._reasons, self._passed_over = round_, reasons, passed_over
        self._pods = {pod.uid: pod for pod in round_.pods}
        self._deadline = time.monotonic() + MAX_REQUESTS_S
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.exhausted = False

    def evict(self, feature: Feature, victim: Victim) -> bool:
        """Request an eviction, and return whether it was accepted."""
        uid = _uid(victim.pod)
        if uid in self._passed_over:
            return False
        self.exhausted |= len(self.refused) >= _MAX_REFUSALS or time.monotonic() > self._deadline
        if self.exhausted:
            return False
        is_accepted = self._round.evict(self._pods[uid], feature.name, self._reasons[feature])
        (self.accepted if is_accepted else self.refused).add(uid)
        return is_accepted


def _allocatable(round_: Round[NodeSlo], feature: Feature) -> tuple[dict[str, int], str]:
    """Return the requests of batch and mid pods above the node's resources, and the reason. Empty while unknown."""
    status = (round_.parts.store.document("Node") or {}).get("status") or {}
    amounts, keys = status.get("allocatable"), round_.rules[THRESHOLD].keys
    if not isinstance(amounts, dict):
        round_.cannot(feature.name, "no pod is evicted", "the Node document has no allocatable resources")
        return {}, ""
    try:
        allocatable = {name: ceil(capped(value) * (1000 if name == "cpu" else 1)) for name, value in amounts.items()}
    except ValueError as error:
        round_.errors.append(f"{feature.name}: allocatable of the Node: {error}")
        return {}, ""
    requests: Counter[str] = Counter()
    for pod in round_.pods:
        name, amount = requested_amount(feature, pod.manifest, keys)
        if name != feature.kind:  # these evictions do not free plain CPU or memory
            requests[name] += amount
    del requests[""]
    need = allocatable_release(feature, requests, allocatable, keys)
    shown = ", ".join(f"{requests[name]} of {allocatable.get(name, 0)} {name}" for name in need)
    return need, f"pods request {shown}"


def _batch_milli(pod: Pod, maximum: int) -> int:
    """Return the batch CPU request of a pod in thousandths, at most `maximum`.

    The request comes from the spec, which the scheduler counted. Pods from a runtime have no extended resources, so
    their
    annotation is used. Otherwise the annotation is not trusted: a large value would evict all other pods.
    """
    request = pod_class.request(pod.manifest, BATCH_CPU)
    if not request and from_runtime(pod.manifest):
        request = batch_resource.batch_request((batch_resource.annotated(pod.annotations) or {}).values())
    return min(request, maximum)


_CPU: Final = "nri.agent.koordinator.evict:CpuEvict"
_MEMORY: Final = "nri.agent.koordinator.evict:MemoryEvict"


def _row(name: str, what: str, strategy: str) -> StrategyRow:
    return StrategyRow(
        name,
        False,
        what,
        strategy,
        document_keys=((SLO, "resourceUsedThresholdWithBE"),),
    )


#: The features. All features of one resource form one strategy.
STRATEGIES: Final = (
    _row("BECPUEvict", "batch pods that get too little CPU are evicted", _CPU),
    _row("CPUEvict", "pods that allow it are evicted when the node uses too much CPU", _CPU),
    _row("CPUAllocatableEvict", "batch and mid pods that request more CPU than is allocatable are evicted", _CPU),
    _row("BEMemoryEvict", "batch pods are evicted when memory runs short", _MEMORY),
    _row("MemoryEvict", "pods that allow it are evicted when the node uses too much memory", _MEMORY),
    _row(
        "MemoryAllocatableEvict",
        "batch and mid pods that request more memory than is allocatable are evicted",
        _MEMORY,
    ),
)
