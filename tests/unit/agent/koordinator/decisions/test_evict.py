"""Evictions: when they make sense, what they free, and in which order pods go; recorded outcomes are run elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator.decisions import evict
from nri.agent.koordinator.decisions.evict import BatchCpu, Task, Victim

FEATURES = {each.name: each for each in evict.FEATURES}
CPU, USED, MEMORY = FEATURES["BECPUEvict"], FEATURES["CPUEvict"], FEATURES["BEMemoryEvict"]
ALLOCATABLE = FEATURES["CPUAllocatableEvict"]
ASKED = {
    "cpuAllocatableEvictThresholdPercent": 80, "cpuAllocatableEvictLowerPercent": 70,
    "allocatableEvictPriorityThreshold": 5999,
}  # fmt: skip
SATISFACTION = {"cpuEvictBESatisfactionUpperPercent": 80, "cpuEvictBESatisfactionLowerPercent": 60}


def pod(name: str, qos: str = "BE", milli: str = "1000", **spec: Any) -> dict[str, Any]:
    labels = {"koordinator.sh/qosClass": qos, "koordinator.sh/eviction-enabled": "true"}
    asks = {"resources": {"requests": {"kubernetes.io/batch-cpu": milli}}}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"containers": [{"name": "c", **asks}], **spec},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("average", "now", "lower", "need"),
    [
        (BatchCpu(5000, 10000, 5000), BatchCpu(5000, 10000, 5000), 60, 3000),
        (BatchCpu(5000, 10000, 5000), BatchCpu(5000, 8000, 5000), 70, 1400),
        (BatchCpu(5000, 10000, 5000), BatchCpu(100, 10000, 5000), 60, 0),
        (BatchCpu(5000, 10000, 5000), BatchCpu(5000, 10000, 5000), 40, 0),
        (BatchCpu(5000, 10000, 0), BatchCpu(5000, 10000, 5000), 60, 0),
        (BatchCpu(1, 1000, 100), BatchCpu(1, 1000, 100), 60, 700),
    ],
)
def test_batch_pods_that_get_too_little_free_what_they_lack_by_average_and_now(
    average: BatchCpu, now: BatchCpu, lower: int, need: int
) -> None:
    thresholds = {**SATISFACTION, "cpuEvictBESatisfactionLowerPercent": lower}
    assert evict.satisfaction_release(average, now, thresholds) == need


@given(st.integers(0, 10**12), st.integers(1, 10**12), st.integers(0, 100))
def test_usage_frees_down_to_below_the_threshold_and_nothing_below_it(used: int, capacity: int, percent: int) -> None:
    need = evict.usage_release(MEMORY, used, capacity, {MEMORY.threshold: percent})
    assert need >= 0
    if int(used * 100 / capacity) < percent:
        assert need == 0
    else:
        assert need > 0 or capacity < 100


def test_only_what_batch_and_mid_pods_ask_for_above_the_threshold_is_freed() -> None:
    thresholds = {ALLOCATABLE.threshold: 80, ALLOCATABLE.lower: 70}
    assert evict.allocatable_release(ALLOCATABLE, {"a": 81, "b": 80, "c": 5}, {"a": 100, "b": 100}, thresholds) == {
        "a": 11,
        "c": 5,
    }


@pytest.mark.parametrize(
    ("name", "thresholds", "valid"),
    [
        ("BECPUEvict", SATISFACTION, True),
        ("BECPUEvict", {**SATISFACTION, "cpuEvictBESatisfactionUpperPercent": 100}, False),
        ("BEMemoryEvict", {"memoryEvictThresholdPercent": 70}, True),
        ("BEMemoryEvict", {"memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 70}, False),
        ("CPUAllocatableEvict", ASKED, True),
        ("CPUAllocatableEvict", {**ASKED, "allocatableEvictPriorityThreshold": 7999}, True),
        ("CPUAllocatableEvict", {**ASKED, "allocatableEvictPriorityThreshold": 8000}, False),
        ("CPUAllocatableEvict", {**ASKED, "cpuAllocatableEvictLowerPercent": 80}, False),
        ("CPUAllocatableEvict", {**ASKED, "cpuAllocatableEvictLowerPercent": None}, False),
        ("CPUAllocatableEvict", {**ASKED, "cpuAllocatableEvictThresholdPercent": None}, False),
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70}, False),
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70, "evictEnabledPriorityThreshold": 0}, True),
    ],
)
def test_a_feature_without_all_it_needs_does_nothing(name: str, thresholds: dict[str, int], valid: bool) -> None:
    assert evict.valid(FEATURES[name], thresholds) is valid


@pytest.mark.parametrize(
    ("feature", "used", "order"),
    [
        (CPU, {"c": 2000, "b": 900, "none": 5000}, ["b", "c", "d", "none", "e", "a"]),
        (MEMORY, {"c": 7, "b": 7, "a": 9}, ["b", "c", "none", "e", "d", "a"]),
    ],
    ids=["cpu: by use over request", "memory: by use, of those that use none by name"],
)
def test_batch_pods_go_by_priority_then_by_use(feature: evict.Feature, used: dict[str, int], order: list[str]) -> None:
    pods = [pod("a", priority=5), pod("b"), pod("c", milli="4000"), pod("d"), pod("ls", "LS")]
    pods += [pod("none", milli="0"), pod("e")]
    found = evict.ranked(feature, [{**each, "spec": {"priority": 0, **each["spec"]}} for each in pods], used, {})
    assert [each.pod["metadata"]["name"] for each in found] == order


def test_who_is_evicted_frees_what_it_used_for_the_next_feature_too() -> None:
    victims = [Victim(pod(name), 1000, 700) for name in "ab"]
    asked = Asked()
    tasks = [Task(CPU, {"kubernetes.io/batch-cpu": 500}, victims), Task(USED, {"cpu": 700}, victims[::-1])]
    assert (evict.evict_round(tasks, set(), asked), asked.names) == (1, ["a"])


def test_a_mid_pod_frees_no_cpu_of_batch_pods() -> None:
    labels = {"koordinator.sh/priority-class": "koord-mid"}
    mid = {"metadata": {"name": "mid", "uid": "mid", "labels": labels}, "spec": {}, "status": {}}
    asked, release = Asked(), {"kubernetes.io/batch-cpu": 1, "kubernetes.io/mid-cpu": 1}
    tasks = [
        Task(CPU, {"kubernetes.io/batch-cpu": 1}, []),
        Task(ALLOCATABLE, release, [Victim(mid, 9, 0), Victim(pod("b"), 9, 0)]),
    ]
    assert (evict.evict_round(tasks, set(), asked), asked.names) == (2, ["mid", "b"])


def test_pods_that_allow_it_go_up_to_a_priority() -> None:
    pods = [pod("a", "LS", priority=100), pod("b", "LS", priority=200), pod("c", "LS", priority=50)]
    found = evict.ranked(USED, pods, {"a": 1, "b": 1, "c": 1}, {"evictEnabledPriorityThreshold": 100})
    assert [each.pod["metadata"]["name"] for each in found] == ["c", "a"]


class Asked:
    def __init__(self, *fails: str) -> None:
        self.fails, self.names = fails, [""][:0]

    def evict(self, _feature: evict.Feature, victim: Victim) -> bool:
        name = victim.pod["metadata"]["name"]
        self.names.append(name)
        return name not in self.fails


def test_what_is_gone_counts_a_failure_goes_on_and_one_task_counts_for_the_next() -> None:
    victims = [Victim(pod(name), 1000, 1) for name in "abcd"]
    asked = Asked("b")
    release = {"kubernetes.io/batch-cpu": 2000}
    count = evict.evict_round([Task(CPU, release, victims), Task(ALLOCATABLE, release, victims)], {"a"}, asked)
    assert (count, asked.names) == (1, ["b", "c"])
