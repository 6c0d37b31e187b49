"""Evictions for CPU or memory: when, how much they have to free, and in which order pods go.

| feature | fires when | who may go | counts |
|---|---|---|---|
| BECPUEvict | batch pods get too little of the CPU that they ask for | labelled BE | batch CPU asked for |
| BEMemoryEvict | the node uses too much memory | labelled BE | memory used |
| CPUAllocatableEvict, MemoryAllocatableEvict | batch or mid pods ask for more than there is | see below | asked for |
| CPUEvict, MemoryEvict | the node uses too much | see below | used |

The last two rows take pods whose label allows it, up to a priority that NodeSLO names. Rules: pure; pods are the API's
JSON. The caller asks `pod_class.never_evicted` first, which says what may never be evicted. Units: thousandths of CPUs
and bytes. Next: `nri.agent.koordinator.decisions.memory_qos`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from nri.agent.koordinator import pod_class
from nri.agent.koordinator.names import BATCH_CPU
from nri.policies.manifest import active
from nri.policies.shapes import Record, Word

__all__ = [
    "FEATURES",
    "MOST_PRIORITY",
    "NUMBERS",
    "THRESHOLDS",
    "BatchCpu",
    "Evicts",
    "Feature",
    "Task",
    "Victim",
    "allocatable_release",
    "asked_for",
    "evict_round",
    "frees",
    "idle",
    "ranked",
    "satisfaction_release",
    "usage_release",
    "valid",
]

#: Percent below the threshold down to which is freed, unless NodeSLO says.
_BUFFER: Final = 2
_USAGE_PERCENT: Final = 90
#: Above it no pod is evicted for what is allocatable: from there on they are production.
MOST_PRIORITY: Final = 7999
#: Numbers of NodeSLO that are percentages, or seconds.
NUMBERS: Final = (
    "cpuSuppressThresholdPercent", "cpuSuppressMinPercent", "memoryEvictThresholdPercent", "memoryEvictLowerPercent",
    "cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent", "cpuEvictBEUsageThresholdPercent",
    "cpuEvictTimeWindowSeconds", "cpuEvictThresholdPercent", "cpuEvictLowerPercent",
)  # fmt: skip
#: Percentages of what is allocatable may be above 100, and priorities are any numbers.
_FREE_NUMBERS: Final = (
    "cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent",
    "memoryAllocatableEvictLowerPercent", "evictEnabledPriorityThreshold", "allocatableEvictPriorityThreshold",
)  # fmt: skip
_TEXTS: Final = {
    "cpuSuppressPolicy": Word(("cpuset", "cfsQuota")),
    "cpuEvictPolicy": Word(("evictByRealLimit", "evictByAllocatable")),
}
#: `resourceUsedThresholdWithBE` of NodeSLO.
THRESHOLDS: Final = Record({"enable": bool, **_TEXTS, **dict.fromkeys((*NUMBERS, *_FREE_NUMBERS), int)})
Thresholds = Mapping[str, Any]


class Feature(NamedTuple):
    """One feature: its name, the resource, how it decides, and NodeSLO's keys for its threshold and lower end."""

    name: str
    kind: str
    how: str
    threshold: str
    lower: str
    most_priority: str = ""


_USED, _ALLOCATABLE = "evictEnabledPriorityThreshold", "allocatableEvictPriorityThreshold"
#: In the order in which they decide in a round.
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
    """CPU of all batch pods together, in thousandths: used, asked for, and what their folder allows."""

    used: float
    request: float
    limit: float


class Victim(NamedTuple):
    """A pod that may be evicted, and what it asks for and uses of the feature's resource; use None is not known."""

    pod: Mapping[str, Any]
    request: int
    used: int | None


def valid(feature: Feature, thresholds: Thresholds) -> bool:
    """Whether NodeSLO says of a feature all that it needs, and that makes sense; else it does nothing."""
    threshold, lower = thresholds.get(feature.threshold), thresholds.get(feature.lower)
    if feature.how == "satisfaction":
        return threshold is not None and lower is not None and 0 < lower <= 60 and lower <= threshold < 100
    if threshold is None or threshold < 0:
        return False
    most = thresholds.get(feature.most_priority)
    if feature.how == "allocatable":
        return lower is not None and lower < threshold and most is not None and most <= MOST_PRIORITY
    if (threshold - _BUFFER if lower is None else lower) >= threshold:
        return False
    return not feature.most_priority or most is not None


def idle(feature: Feature, thresholds: Thresholds) -> str:
    """Return why a feature whose threshold NodeSLO names does nothing; "" if that is not by its numbers."""
    if valid(feature, thresholds):
        return ""
    threshold, lower, most = (thresholds.get(key) for key in (feature.threshold, feature.lower, feature.most_priority))
    if feature.most_priority and most is None:
        return f"nothing is evicted without {feature.most_priority}"
    if feature.how in ("allocatable", "satisfaction") and lower is None:
        return f"nothing is evicted without {feature.lower}"
    if feature.how == "allocatable" and most is not None and most > MOST_PRIORITY:
        return f"{feature.most_priority} {most} is above {MOST_PRIORITY}: pods from there on are production"
    accepted = "from the lower one to 99, and the lower one from 1 to 60"
    if feature.how != "satisfaction":
        accepted = "0 or more, and the lower one below it"
    return f"{feature.threshold} {threshold} with {feature.lower} {lower} makes no sense: it is {accepted}"


def satisfaction_release(average: BatchCpu, now: BatchCpu, thresholds: Thresholds) -> int:
    """Return how many thousandths of a CPU of requests are to be freed; 0 for none.

    Args:
        average: over the window; too few samples are the caller's business.
        now: the last sample.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
    """
    lower = thresholds["cpuEvictBESatisfactionLowerPercent"]
    upper = thresholds["cpuEvictBESatisfactionUpperPercent"]
    usage = thresholds.get("cpuEvictBEUsageThresholdPercent", _USAGE_PERCENT)
    needs = []
    for sample in (average, now):
        if not _busy(sample, usage) or sample.request <= 0:
            return 0
        rate = sample.limit / sample.request
        gap = upper / 100 - rate
        if rate > lower / 100 or gap <= 0:
            return 0
        needs.append(int(sample.request * gap))
    return min(needs)


def usage_release(feature: Feature, used: float, capacity: int, thresholds: Thresholds) -> int:
    """Return how much of CPU or memory is to be freed on a node; 0 below the threshold."""
    threshold, lower = thresholds.get(feature.threshold), thresholds.get(feature.lower)
    if threshold is None or capacity <= 0:
        return 0
    percent = int(used) * 100 // capacity
    down_to: int = threshold - _BUFFER if lower is None else lower
    return 0 if percent < threshold else max(capacity * (percent - down_to) // 100, 0)


def asked_for(feature: Feature, pod: Mapping[str, Any], thresholds: Thresholds) -> tuple[str, int]:
    """Return which resource of a feature a pod asks for, and how much; "" if it is above the priority that counts."""
    most = thresholds.get(feature.most_priority)
    if most is None or pod_class.priority(pod) > most:
        return "", 0
    name = pod_class.resource_name(pod, feature.kind)
    return name, pod_class.request(pod, name)


def allocatable_release(
    feature: Feature, asked: Mapping[str, int], allocatable: Mapping[str, int], thresholds: Thresholds
) -> dict[str, int]:
    """Return how much is to be freed of each resource of batch and mid pods: all of what the node does not have.

    Args:
        feature: which one.
        asked: the sums of what pods ask for, by resource; see `asked_for`.
        allocatable: what the node has, by resource; what is not there is none.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
    """
    threshold, down_to = thresholds[feature.threshold], thresholds[feature.lower]
    found = {}
    for name, amount in asked.items():
        has = allocatable.get(name, 0)
        if has <= 0:
            found[name] = amount
        elif amount / has > threshold / 100:  # floating point, as Koordinator has it: a unit more or less
            kept = amount - down_to / 100 * has if feature.kind == "cpu" else (amount / has - down_to / 100) * has
            found[name] = int(kept)
    return found


def frees(feature: Feature, victim: Victim) -> tuple[str, int]:
    """Return what the eviction of a pod frees, as `..._release` counts it; "" if nothing that counts."""
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
    """Return the pods that a feature may evict, in the order in which they go.

    Args:
        feature: which one.
        pods: those of the node.
        used: CPU or memory that pods use, by uid; a pod that is absent was not measured.
        thresholds: `resourceUsedThresholdWithBE` of NodeSLO.
        requests: batch CPU that pods ask for, by uid, where that is known better than their spec says it.
    """
    known = requests or {}
    allowed = [pod for pod in pods if pod_class.policy_allows(pod, feature.name)]
    if not feature.most_priority:
        found = [_victim(feature, pod, used, known) for pod in allowed if pod_class.labelled_be(_labels(pod))]
        # Of two that use no memory the one whose name is later goes first; the sorts after the first keep that.
        if feature.kind == "memory":
            found.sort(key=lambda each: "" if each.used else str(_meta(each.pod).get("name", "")), reverse=True)
        return sorted(found, key=lambda each: (_batch_priority(each.pod), -_weight(feature, each)))
    most = thresholds.get(feature.most_priority)
    found = [
        _victim(feature, pod, used, known)
        for pod in allowed
        if most is not None
        and pod_class.evictable_label(pod)
        and pod_class.priority(pod) <= most
        and active(pod)
        and _uid(pod) in used
    ]
    return sorted(found, key=lambda each: _order(feature, each))


class Evicts(Protocol):
    """Makes pods go, one at a time."""

    def evict(self, feature: Feature, victim: Victim) -> bool:
        """Return whether a pod is under way; if it is not, the next one is tried."""
        ...


class Task(NamedTuple):
    """The work of one feature in a round: what is to be freed, by resource, and the pods in their order."""

    feature: Feature
    release: Mapping[str, int]
    victims: Sequence[Victim]


def evict_round(tasks: Iterable[Task], gone: Collection[str], evictor: Evicts) -> int:
    """Evict until each task has what it needs; return how many pods were.

    Args:
        tasks: in the order in which they decide.
        gone: uids of pods that were evicted before, and still are listed; they count as freed.
        evictor: makes pods go.
    """
    every = list(tasks)
    evicted, counted = 0, set()
    freed: Counter[tuple[bool, str]] = Counter()  # of what is used, and of what is asked for, by all tasks
    for feature, release, victims in every:
        used = feature.how == "used"
        for victim in victims:
            uid = _uid(victim.pod)
            if all(freed[used, name] >= amount for name, amount in release.items()):
                break
            if uid in counted or (uid not in gone and not evictor.evict(feature, victim)):
                continue
            counted.add(uid)
            evicted += uid not in gone
            freed.update(_freed(every, feature, victim))
    return evicted


def _freed(tasks: Iterable[Task], chooser: Feature, victim: Victim) -> dict[tuple[bool, str], int]:
    """The amount that a pod's end frees for each task that wants some of it, whichever of them chose it."""
    found: dict[tuple[bool, str], int] = {}
    for feature, release, _ in tasks:
        seen = victim
        if feature is not chooser and feature.how == "satisfaction":
            seen = victim._replace(request=pod_class.request(victim.pod, BATCH_CPU))
        name, amount = frees(feature, seen)
        if name in release:
            place = feature.how == "used", name
            found[place] = max(found.get(place, 0), amount)
    return found


def _batch_priority(pod: Mapping[str, Any]) -> int:
    """The priority by which batch pods are sorted: of their spec, 0 too."""
    found = pod_class.spec_priority(pod)
    return pod_class.priority(pod) if found is None else found


def _weight(feature: Feature, victim: Victim) -> float:
    """The use by which batch pods of one priority are sorted: of CPU in proportion to what they ask for."""
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
    asked = requests[uid] if name == BATCH_CPU and uid in requests else pod_class.request(pod, name)
    return Victim(pod, asked, used.get(uid))


def _meta(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod.get("metadata") or {}
    return found


def _labels(pod: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = _meta(pod).get("labels") or {}
    return found


def _uid(pod: Mapping[str, Any]) -> str:
    return str(_meta(pod).get("uid", ""))


def _busy(sample: BatchCpu, percent: int) -> bool:
    """Whether the pods use what they are allowed; less than one CPU always counts as used up."""
    return 0 < sample.limit < 1000 or (sample.limit > 0 and sample.used / sample.limit >= percent / 100)
