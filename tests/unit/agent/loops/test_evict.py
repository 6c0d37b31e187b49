"""Who is evicted, when, and how often."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.policies.koordinator import names as n
from tests.support.host_trees import write_files
from tests.support.loop_world import LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod

BE = "kubepods/besteffort"
GIB = 1 << 30


def batch(uid: str, milli: str = "4000", priority: int = 0) -> dict[str, Any]:
    asks = {"requests": {n.BATCH_CPU: milli}, "limits": {n.BATCH_CPU: milli}}
    return pod(uid, n.BE, n.BEST_EFFORT, containers=[{"name": "c", "resources": asks}], priority=priority)


def memory_world(folder: Path, *sizes: tuple[dict[str, Any], int], **more: Any) -> LoopWorld:
    spec = {"enable": True, "memoryEvictThresholdPercent": 70, **more}
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": spec})
    for manifest, size in sizes:
        path = world.pod(manifest)
        write_files(folder, {f"sys/fs/cgroup/memory/{path}/memory.usage_in_bytes": f"{size}\n"})
    world.source.replace([manifest for manifest, _ in sizes])
    return world


def test_the_lowest_priority_and_biggest_goes_first_and_only_as_many_as_the_need_takes(tmp_path: Path) -> None:
    pods = [(batch("small"), 2 * GIB), (batch("big"), 8 * GIB), (batch("dear", priority=5), 50 * GIB)]
    world = memory_world(tmp_path, *pods, (pod("ls", n.LS), 50 * GIB))
    world.memory(100 * GIB, 27 * GIB)
    world.loop()
    assert world.asked.pods == ["big"]  # 73 % down to 68 % are 5 GiB
    told = world.history.of("ns/big")
    assert told is not None and told["values"][0]["reason"] == "the node uses 73 % of its memory"


def test_after_an_eviction_there_is_a_pause_and_nobody_is_asked_twice(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB), (batch("b"), 20 * GIB))
    world.memory(100 * GIB, 10 * GIB)
    world.loop(4)
    assert world.asked.pods == ["a"]
    world.loop(2)
    assert world.asked.pods == ["a", "b"]
    world.loop(50)
    assert world.asked.pods == ["a", "b"]


def test_below_the_threshold_or_switched_off_nobody_goes(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB))
    world.memory(100 * GIB, 31 * GIB)
    world.loop(5)
    world.slo({"resourceUsedThresholdWithBE": {"enable": False, "memoryEvictThresholdPercent": 1}})
    world.memory(100 * GIB, 0)
    world.loop(5)
    assert world.asked.pods == []


def test_a_refused_eviction_is_told(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB))
    world.asked.refuses = "a disruption budget forbids it"
    world.memory(100 * GIB, 10 * GIB)
    world.loop()
    assert "BEMemoryEvict: a disruption budget forbids it" in world.loops.health()[1]
    assert 'nri_agent_events_total{transport="loops",event="eviction refused"} 1\n' in world.observer.text()


def test_thresholds_that_contradict_each_other_evict_nobody(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB), memoryEvictLowerPercent=80)
    world.memory(100 * GIB, 0)
    world.loop(3)
    assert world.asked.pods == []
    assert "makes no sense" in world.loops.health()[1]


def cpu_world(folder: Path, used: int) -> LoopWorld:
    spec = {
        "enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuEvictBESatisfactionUpperPercent": 60,
        "cpuEvictBESatisfactionLowerPercent": 40, "cpuEvictTimeWindowSeconds": 30,
    }  # fmt: skip
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": spec}, gates={"BECPUSuppress": False, "BECPUEvict": True})
    for uid in ("a", "b"):
        world.uses[world.pod(batch(uid))] = used // 2
    world.uses[BE] = world.node_milli = used
    world.overwrite(BE, "cpu.cfs_quota_us", "200000")
    world.source.replace([batch("a"), batch("b")])
    return world


def test_batch_pods_that_starve_for_long_enough_are_evicted_for_cpu(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 2000)
    world.loop(10)
    assert world.asked.pods == []
    world.loop(5)
    assert world.asked.pods == ["a"]  # they get 2 of 8 CPUs; up to 60 % are 2.8 to be freed
    world.loop(15)
    assert world.asked.pods == ["a"]


def test_batch_pods_that_do_not_use_what_they_get_stay(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 1000)
    world.loop(60)
    assert world.asked.pods == []


@pytest.mark.parametrize("claim", ["8000000", "9" * 4300 + "E"], ids=["big", "huge"])
def test_an_annotation_that_claims_batch_cpu_evicts_nobody_and_keeps_nobody(tmp_path: Path, claim: str) -> None:
    """The scheduler counts the spec alone, and so does Koordinator; an annotation is for anybody to write."""
    world = cpu_world(tmp_path, 2000)
    liar = pod("z", n.BE, n.BEST_EFFORT, annotations={n.ANNOTATION_EXTENDED: claims(claim)})
    world.pod(liar)
    world.source.replace([batch("a"), batch("b"), liar])
    world.loop(15)
    assert world.asked.pods == ["a"]  # as without it: one is enough
    assert "errors" not in world.loops.health()[1]


def test_where_only_the_annotation_can_say_it_a_pod_asks_for_no_more_than_the_machine_has(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 2000)
    liar = pod("z", n.BE, n.BEST_EFFORT, annotations={n.ANNOTATION_EXTENDED: claims("9" * 4300 + "E")})
    world.source.replace([{**liar, "cgroupParent": "/" + world.pod(liar)}])
    world.loop(15)
    assert world.asked.pods == ["z"]
    told = world.history.of("ns/z")
    assert told is not None and told["values"][0]["reason"] == "batch pods get 25 % of the CPU that they ask for"


def claims(milli: str) -> str:
    return json.dumps({"containers": {"c": {"requests": {n.BATCH_CPU: milli}}}})
