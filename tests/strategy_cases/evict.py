"""Stages of evictions: what pods are, when a feature makes sense, how much it frees, who goes, and whole rounds.

A round is run twice: by the decisions alone, which is what was recorded, and with the pods left out that nothing may
evict. Next: `tests.strategy_cases.stages`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from nri.kube.quantity import capped, ceil
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.loops import evict
from nri.policies.koordinator.loops.evict import BatchCpu, Feature, Task, Victim
from nri.policies.koordinator.names import BATCH_CPU, qos_class
from nri.policies.manifest import active
from tests.strategy_cases.metrics import Metrics

__all__ = ["STAGES", "both_rounds", "spared"]

Json = dict[str, Any]
_FEATURES = {each.name: each for each in evict.FEATURES}


def _thresholds(given: Json) -> Json | None:
    return ((given.get("node_slo") or {}).get("spec") or {}).get("resourceUsedThresholdWithBE")


def _pods(given: Json) -> list[Json]:
    return [each["pod"] for each in given.get("pods") or ()]


def _amount(value: Any, name: str) -> int:
    return ceil(capped(value) * (1000 if name == "cpu" else 1))


def _part(given: Json, part: str) -> dict[str, int]:
    status = (given.get("node") or {}).get("status") or {}
    return {name: _amount(value, name) for name, value in (status.get(part) or {}).items()}


def _facts(given: Json) -> Json:
    (pod,) = _pods(given)
    cpu, memory = pod_class.resource_name(pod, "cpu"), pod_class.resource_name(pod, "memory")
    text = (pod["metadata"].get("annotations") or {}).get(pod_class.ANNOTATION_EVICTION_PRIORITY)
    number = pod_class.eviction_priority(pod)
    return {
        "counts_as_non_be": not pod_class.offline(pod),
        "cpu_burstable": pod_class.cpu_burstable(pod),
        "cpu_request": {"resource": cpu, "value": pod_class.request(pod, cpu)},
        "memory_request": {"resource": memory, "value": pod_class.request(pod, memory)},
        "eviction_enabled": pod_class.evictable_label(pod),
        "eviction_priority": number,
        "eviction_priority_error": bool(text) and number == 0 and text.lstrip("+-").strip("0") != "",
        "inactive": not active(pod),
        "label_priority": pod_class.label_priority(pod),
        "policy_allowed": pod_class.policy_allows(pod, given["args"]["policy"]),
        "priority": pod_class.priority(pod),
        "priority_class": pod_class.priority_class(pod),
        "qos_class": pod_class.default_qos(pod),
        "qos_label": qos_class(pod["metadata"].get("labels") or {}),
    }


def _config(given: Json) -> Json:
    return {"valid": evict.valid(_FEATURES[given["feature"]], _thresholds(given) or {})}


def release_of(given: Json, feature: Feature) -> dict[str, int]:
    """Return what a feature is to free, in thousandths and bytes."""
    metrics = Metrics(given.get("metrics"), given.get("collect_interval_seconds", 1))
    thresholds = _thresholds(given) or {}
    if feature.how == "used":
        used, scale = metrics.last(f"node_{feature.kind}"), 1
        if feature.kind == "cpu":
            seen, scale = metrics.window(_window(metrics, thresholds), "node_cpu"), 1000
            used = sum(seen) / len(seen) if seen else None
        capacity = _part(given, "capacity").get(feature.kind, 0)
        found = 0 if used is None else evict.usage_release(feature, used * scale, capacity, thresholds)
        return {feature.kind: found} if found else {}
    if feature.how == "allocatable":
        asked: Counter[str] = Counter()
        for pod in _pods(given):
            name, amount = evict.asked_for(feature, pod, thresholds)
            if name:
                asked[name] += amount
        return evict.allocatable_release(feature, asked, _part(given, "allocatable"), thresholds)
    found = _satisfaction(given, metrics, thresholds)
    return {BATCH_CPU: found} if found else {}


def _window(metrics: Metrics, thresholds: Json) -> int:
    """The seconds of which there is an average: at least those between two samples."""
    return max(metrics.interval_s, thresholds.get("cpuEvictTimeWindowSeconds", 0))


def _satisfaction(given: Json, metrics: Metrics, thresholds: Json) -> int:
    """What is to be freed; of what there is no sample counts as 0, if so few samples are enough."""
    window, keys = _window(metrics, thresholds), ("usage", "request", "real_limit")
    seen = [metrics.window(window, "be_cpu", key) for key in keys]
    if min(map(len, seen)) * metrics.interval_s < window // 3:
        return 0
    average = BatchCpu(*(sum(each) / len(each) if each else 0.0 for each in seen))
    now = BatchCpu(*(metrics.last("be_cpu", key) or 0.0 for key in keys))
    if thresholds.get("cpuEvictPolicy") == "evictByAllocatable":
        allocatable = _part(given, "allocatable").get(BATCH_CPU, -1)
        average, now = (each._replace(limit=1 if allocatable == 0 else allocatable) for each in (average, now))
    return evict.satisfaction_release(average, now, thresholds)


def _release(given: Json) -> Json:
    feature = _FEATURES[given["feature"]]
    found = release_of(given, feature)
    cores = feature.how == "used" or not _part(given, "allocatable").get("cpu")
    outcome: Json = {"release": {**found, "cpu": found["cpu"] / 1000} if "cpu" in found and cores else found}
    if feature.how == "allocatable":
        outcome["per_pod"] = {}
        for pod in _pods(given):
            name = pod_class.resource_name(pod, feature.kind)
            counted = name in found and name != feature.kind
            outcome["per_pod"][pod["metadata"]["name"]] = {name: pod_class.request(pod, name)} if counted else {}
    return outcome


def victims_of(given: Json, feature: Feature, pods: list[Json]) -> list[Victim]:
    """Return the pods that a feature may evict, in order."""
    metrics, place = Metrics(given.get("metrics"), given.get("collect_interval_seconds", 1)), f"pod_{feature.kind}"
    scale = 1000 if feature.kind == "cpu" else 1
    used = {uid: int(value * scale) for uid in metrics.names(place) if (value := metrics.last(place, uid)) is not None}
    return list(evict.ranked(feature, pods, used, _thresholds(given) or {}))


def _victims(given: Json) -> Json:
    feature = _FEATURES[given["feature"]]
    return {"victims": [_shown(feature, each) for each in victims_of(given, feature, _pods(given))]}


def _shown(feature: Feature, victim: Victim) -> Json:
    found: Json = {"pod": victim.pod["metadata"]["name"]}
    if feature.kind == "cpu":
        found |= {"milli_request": victim.request, "milli_used": victim.used or 0}
    elif feature.most_priority:
        found["memory_request"] = victim.request
    if feature.most_priority:
        found["eviction_priority"] = pod_class.eviction_priority(victim.pod)
        found["priority"] = pod_class.priority(victim.pod)
        found["label_priority"] = pod_class.label_priority(victim.pod)
    return found


class _Evictor:
    """Notes who is evicted; some are refused."""

    def __init__(self, fails: list[str]) -> None:
        self._fails = fails
        self.done: list[Json] = []

    def evict(self, feature: Feature, victim: Victim) -> bool:
        name = victim.pod["metadata"]["name"]
        failed = name in self._fails
        self.done.append({"feature": feature.name, "pod": name, "result": "failed" if failed else "evicted"})
        return not failed


def one_round(given: Json, strategy: str, *, guarded: bool, plain: bool = False) -> Json:
    """Run one round of a strategy.

    Args:
        given: the case's input.
        strategy: cpuevict or memoryevict.
        guarded: whether the pods are left out that nothing may evict.
        plain: whether what no pod frees counts as asked for, as in the original.
    """
    eviction, kind = given.get("eviction") or {}, strategy.removesuffix("evict")
    evictor, pods = _Evictor(eviction.get("evict_fails") or []), _pods(given)
    nothing: Json = {"cooldown_started": False, "evictions": []}
    cool, last = given.get("cool_seconds", 0), given.get("last_evict_seconds_ago")
    thresholds = _thresholds(given)
    if not thresholds or thresholds.get("enable") is not True or (last is not None and last < cool):
        return nothing
    if not given.get("node") or _part(given, "capacity").get(kind, 0) <= 0:
        return nothing
    if guarded:
        pods = [pod for pod in pods if not pod_class.never_evicted(pod)]
    tasks = []
    for feature in evict.FEATURES:
        on = (given.get("features") or {}).get(feature.name)
        if feature.kind != kind or not on or not evict.valid(feature, thresholds):
            continue
        found = release_of(given, feature)
        if not plain and feature.how == "allocatable":
            found.pop(kind, None)
        tasks.append(Task(feature, found, victims_of(given, feature, pods)))
    gone = {
        pod["metadata"].get("uid", "") for pod in pods if pod["metadata"]["name"] in eviction.get("already_evicted", ())
    }
    count = evict.evict_round(tasks, gone, evictor)
    return {"cooldown_started": count > 0, "evictions": evictor.done}


def both_rounds(given: Json, strategy: str) -> tuple[Json, Json]:
    """Return a round as it was recorded, and as this agent has it."""
    return one_round(given, strategy, guarded=False, plain=True), one_round(given, strategy, guarded=True)


def spared(given: Json, name: str) -> bool:
    """Whether nothing may evict a pod."""
    return any(pod_class.never_evicted(pod) for pod in _pods(given) if pod["metadata"]["name"] == name)


STAGES = {"pod_facts": _facts, "config": _config, "release": _release, "victims": _victims}
