"""Evictions: when they make sense, what they free, and in which order pods go; recorded outcomes are run elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.loops import evict
from nri.policies.koordinator.loops.evict import BatchCpu, Task, Victim, of_name

CPU, USED, MEMORY = of_name("BECPUEvict"), of_name("CPUEvict"), of_name("BEMemoryEvict")
ALLOCATABLE = of_name("CPUAllocatableEvict")
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
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70}, False),
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70, "evictEnabledPriorityThreshold": 0}, True),
    ],
)
def test_a_feature_without_all_it_needs_does_nothing(name: str, thresholds: dict[str, int], valid: bool) -> None:
    assert evict.valid(of_name(name), thresholds) is valid


def test_batch_pods_go_by_priority_then_by_use_over_request_then_by_name() -> None:
    pods = [pod("a", priority=5), pod("b"), pod("c", milli="4000"), pod("d"), pod("ls", "LS")]
    found = evict.ranked(
        CPU, [{**each, "spec": {"priority": 0, **each["spec"]}} for each in pods], {"c": 2000, "b": 900}, {}
    )
    assert [each.pod["metadata"]["name"] for each in found] == ["b", "c", "d", "a"]


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
