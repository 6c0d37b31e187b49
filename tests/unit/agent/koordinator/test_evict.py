"""Evictions: which pods, when, and how often."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import batch_resource, evict
from nri.agent.koordinator import evict as strategy
from nri.agent.koordinator import names as n
from nri.agent.koordinator.evict import BatchCpu, Task, Victim
from tests.support.host_trees import write_files
from tests.support.loop_world import LoopWorld
from tests.support.scrape import scrape
from tests.unit.agent.transports.standalone.test_pods import pod

BE = "kubepods/besteffort"
GIB = 1 << 30
FEATURES = {feature.name: feature for feature in evict.FEATURES}
CPU, USED, MEMORY = FEATURES["BECPUEvict"], FEATURES["CPUEvict"], FEATURES["BEMemoryEvict"]
ALLOCATABLE = FEATURES["CPUAllocatableEvict"]
DECIDED_ASKED = {
    "cpuAllocatableEvictThresholdPercent": 80, "cpuAllocatableEvictLowerPercent": 70,
    "allocatableEvictPriorityThreshold": 5999,
}  # fmt: skip
SATISFACTION = {"cpuEvictBESatisfactionUpperPercent": 80, "cpuEvictBESatisfactionLowerPercent": 60}


def batch(uid: str, milli: str = "4000", priority: int | None = 5000, **more: Any) -> dict[str, Any]:
    asks = {"requests": {n.BATCH_CPU: milli}, "limits": {n.BATCH_CPU: milli}}
    return pod(uid, n.BE, paths.BEST_EFFORT, containers=[{"name": "c", "resources": asks}], priority=priority, **more)


def memory_world(folder: Path, *sizes: tuple[dict[str, Any], int], **more: Any) -> LoopWorld:
    spec = {"enable": True, "memoryEvictThresholdPercent": 70, **more}
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": spec})
    for manifest, size in sizes:
        path = world.pod(manifest)
        write_files(folder, {f"sys/fs/cgroup/memory/{path}/memory.usage_in_bytes": f"{size}\n"})
    world.source.replace([manifest for manifest, _ in sizes])
    return world


def test_the_lowest_priority_and_biggest_pods_are_evicted_until_enough_is_freed(tmp_path: Path) -> None:
    pods = [(batch("small"), 2 * GIB), (batch("big"), 8 * GIB), (batch("dear", priority=5005), 50 * GIB)]
    world = memory_world(tmp_path, *pods, (pod("ls", n.LS), 50 * GIB))
    world.memory(100 * GIB, 27 * GIB)
    world.loop()
    assert world.asked.pods == ["big"]  # 73 % down to 68 % are 5 GiB
    account = world.history.account("ns/big")
    assert account is not None and account["values"][0]["reason"] == "the node uses 73 % of its memory"


def test_after_an_eviction_there_is_a_pause_and_no_pod_is_evicted_twice(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB), (batch("b"), 20 * GIB))
    world.memory(100 * GIB, 10 * GIB)
    world.loop(4)
    assert world.asked.pods == ["a"]
    world.loop(2)
    assert world.asked.pods == ["a"], "who was asked counts as gone"
    world.source.replace([batch("b")])
    world.loop(50)
    assert world.asked.pods == ["a", "b"]


def test_below_the_threshold_or_disabled_no_pod_is_evicted(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB))
    world.memory(100 * GIB, 31 * GIB)
    world.loop(5)
    world.slo({"resourceUsedThresholdWithBE": {"enable": False, "memoryEvictThresholdPercent": 1}})
    world.memory(100 * GIB, 0)
    world.loop(5)
    assert world.asked.pods == []


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ({"annotations": {"kubernetes.io/config.source": "file"}}, "the pod is static"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "the pod is static"),
        ({"priority": 2_000_001_000}, "the pod is critical to the system"),
        ({"priorityClassName": "system-node-critical"}, "the pod is critical to the system"),
        ({"priority": None}, "the priority is unknown"),
        ({"annotations": {"koordinator.sh/eviction-policy": "[]"}}, "annotation koordinator.sh/eviction-policy"),
    ],
    ids=["static", "mirror", "critical", "critical by name", "unknown", "its own word"],
)
def test_a_protected_batch_pod_is_kept_and_log_metric_and_explain_give_the_reason(
    who: dict[str, Any], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = memory_world(tmp_path, (batch("spared", **who), 90 * GIB), (batch("goes"), 20 * GIB))
    world.memory(100 * GIB, 5 * GIB)
    world.loop(8)
    assert world.asked.pods == ["goes"]
    account = world.history.account("ns/spared")
    assert account is not None
    (row,) = [value for value in account["values"] if value["field"] == "eviction"]
    assert row["value"] == "not allowed" and row["reason"].startswith(why)
    messages = [record for record in caplog.records if "does not evict ns/spared" in record.getMessage()]
    assert len(messages) == 1 and why in messages[0].getMessage()
    assert 'event="pod not allowed to be evicted",transport="loops"} 1.0\n' in scrape(world.observer)


def test_a_pod_of_kube_system_is_not_evicted(tmp_path: Path) -> None:
    spared = batch("spared")
    spared["metadata"]["namespace"] = "kube-system"
    world = memory_world(tmp_path, (spared, 90 * GIB))
    world.memory(100 * GIB, 5 * GIB)
    world.loop(8)
    assert world.asked.pods == []


@pytest.mark.parametrize("gate", ["BEMemoryEvict", "BECPUEvict"])
def test_kubernetes_best_effort_pods_are_not_batch_pods_and_not_evicted(gate: str, tmp_path: Path) -> None:
    kube_proxy = pod("kube-proxy", "", paths.BEST_EFFORT, priority=0)
    world = cpu_world(tmp_path, 2000) if gate == "BECPUEvict" else memory_world(tmp_path)
    batch_pods = [batch("a", priority=None)] if gate == "BECPUEvict" else []
    world.uses[world.pod(kube_proxy)] = 1000
    world.source.replace([kube_proxy, *batch_pods])
    world.memory(100 * GIB, 5 * GIB)
    world.loop(20)
    assert world.asked.pods == []


def test_the_label_of_a_priority_class_replaces_a_missing_priority(tmp_path: Path) -> None:
    """The CRI has no priorities, but it has labels."""
    manifest = batch("known", priority=None)
    manifest["metadata"]["labels"]["koordinator.sh/priority-class"] = "koord-batch"
    world = memory_world(tmp_path, (manifest, 20 * GIB), (batch("unknown", priority=None), 90 * GIB))
    world.memory(100 * GIB, 5 * GIB)
    world.loop()
    assert world.asked.pods == ["known"]


def test_a_refused_eviction_is_reported(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB))
    world.asked.refuses = "a disruption budget forbids it"
    world.memory(100 * GIB, 10 * GIB)
    world.loop()
    assert "BEMemoryEvict: a disruption budget forbids it" in world.loops.health()[1]
    assert 'nri_agent_events_total{event="eviction refused",transport="loops"} 1.0\n' in scrape(world.observer)


FEATURE_KEYS: dict[str, dict[str, Any]] = {
    "BECPUEvict": {
        "cpuEvictBESatisfactionUpperPercent": 60,
        "cpuEvictBESatisfactionLowerPercent": 40,
        "cpuEvictTimeWindowSeconds": 3,
    },
    "CPUEvict": {"cpuEvictThresholdPercent": 70, "cpuEvictLowerPercent": 69, "evictEnabledPriorityThreshold": 5999},
    "CPUAllocatableEvict": {
        "cpuAllocatableEvictThresholdPercent": 110,
        "cpuAllocatableEvictLowerPercent": 100,
        "allocatableEvictPriorityThreshold": 5999,
    },
    "BEMemoryEvict": {"memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 65},
    "MemoryEvict": {
        "memoryEvictThresholdPercent": 70,
        "memoryEvictLowerPercent": 65,
        "evictEnabledPriorityThreshold": 5999,
    },
    "MemoryAllocatableEvict": {
        "memoryAllocatableEvictThresholdPercent": 110,
        "memoryAllocatableEvictLowerPercent": 100,
        "allocatableEvictPriorityThreshold": 5999,
    },
}


def full_world(folder: Path, feature: str, count: int) -> LoopWorld:
    """A node on which a feature has to evict one of several like pods, named p00 and so on in the order of victims."""
    threshold = {"enable": True, "cpuSuppressPolicy": "cfsQuota", **FEATURE_KEYS[feature]}
    gates = {"BECPUSuppress": False, feature: True}
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": threshold}, gates=gates)
    pods = []
    for number in range(count):
        amounts = {n.BATCH_CPU: "4000", n.BATCH_MEMORY: "20Gi"}
        manifest = pod(
            f"p{number:02}",
            n.BE,
            paths.BEST_EFFORT,
            containers=[{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
            priority=5000 + number,
        )
        manifest["metadata"]["labels"]["koordinator.sh/eviction-enabled"] = "true"
        path = world.pod(manifest)
        world.uses[path] = 1000
        world.overwrite(path, "memory.usage_in_bytes", str(20 * GIB))
        pods.append(manifest)
    world.node_milli = 7000
    world.uses[BE] = 2000
    world.overwrite(BE, "cpu.cfs_quota_us", "200000")
    world.memory(100 * GIB, 5 * GIB)
    has = {n.BATCH_CPU: str(count * 4000 - 3500), n.BATCH_MEMORY: f"{count * 20 - 15}Gi"}
    world.store.put("Node", {"status": {"allocatable": has}}, "test")
    world.source.replace(pods)
    world.loop(25)  # no pod is evicted for CPU during the cooldown after the start
    world.asked.pods.clear()
    return world


@pytest.mark.parametrize("feature", FEATURE_KEYS)
def test_a_refused_eviction_frees_nothing_and_is_retried_in_the_next_round(tmp_path: Path, feature: str) -> None:
    world = full_world(tmp_path, feature, 2)
    world.asked.refuses = "503: the API server is unavailable"
    world.kill()
    world.loop(25)
    world.asked.pods.clear()
    world.loop()
    assert set(world.asked.pods) == {"p00", "p01"}
    world.asked.pods.clear()
    world.asked.refuses = ""
    world.loop()
    assert world.asked.pods[:1] == ["p00"]


@pytest.mark.parametrize("feature", FEATURE_KEYS)
def test_after_a_permanent_refusal_another_pod_is_evicted_each_time(tmp_path: Path, feature: str) -> None:
    world = full_world(tmp_path, feature, 2)
    world.asked.refusing = {"p00": "a disruption budget forbids it"}
    world.kill()
    world.loop(25)
    assert "p01" in world.asked.pods
    world.asked.pods.clear()
    remaining = [manifest for manifest in world.source.pods() if manifest["metadata"]["uid"] == "p00"]
    newcomer = {**remaining[0], "metadata": {**remaining[0]["metadata"], "name": "p02", "uid": "p02"}}
    path = world.pod(newcomer)
    world.uses[path] = 1000
    world.overwrite(path, "memory.usage_in_bytes", str(20 * GIB))
    world.source.replace([*remaining, newcomer])
    world.loop(25)
    assert "p02" in world.asked.pods


def test_a_round_requests_a_limited_number_of_evictions_and_the_next_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = [(batch(f"p{number:02}", priority=5000 + number), GIB) for number in range(20)]
    world = memory_world(tmp_path, *sizes)
    world.memory(100 * GIB, 5 * GIB)
    world.asked.refusing = {f"p{number:02}": "a disruption budget forbids it" for number in range(19)}
    world.loop()
    assert world.asked.pods == [f"p{number:02}" for number in range(16)]
    world.loop()
    assert world.asked.pods[16:] == ["p16", "p17", "p18", "p19"]
    world.loop(10)
    assert world.asked.pods.count("p00") > 1 and world.asked.pods.count("p19") == 1
    lines = [record for record in caplog.records if "evicts ns/p00" in record.getMessage()]
    assert [record.levelname for record in lines].count("WARNING") == 1


def test_slow_refusals_end_the_round_and_the_next_round_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = memory_world(tmp_path, *[(batch(f"p{number}", priority=5000 + number), 5 * GIB) for number in range(8)])
    world.memory(100 * GIB, 5 * GIB)
    world.asked.refuses = "the API server did not answer in time"
    quick = world.asked.evict
    monkeypatch.setattr(world.asked, "evict", lambda *arguments: time.sleep(0.1) or quick(*arguments))
    monkeypatch.setattr(strategy, "MAX_REQUESTS_S", 0.05)
    for number in range(1, 4):
        world.loop()
        assert world.asked.pods == [f"p{number}" for number in range(number)]


def test_a_refusal_with_varying_reasons_is_logged_a_limited_number_of_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB))
    for number in range(60):
        world.memory(100 * GIB, (5 + number % 10) * GIB)
        world.asked.refuses = f"429: retry in {number} s" if number % 2 else f"refused by {chr(97 + number % 26)}"
        world.loop()
    lines = [record.levelname for record in caplog.records if "evicts ns/a" in record.getMessage()]
    assert 1 <= lines.count("WARNING") <= 10


def test_contradictory_thresholds_evict_no_pod(tmp_path: Path) -> None:
    world = memory_world(tmp_path, (batch("a"), 30 * GIB), memoryEvictLowerPercent=80)
    world.memory(100 * GIB, 0)
    world.loop(3)
    assert world.asked.pods == []
    assert "is not valid" in world.loops.health()[1]


def cpu_world(folder: Path, used: int, **more: Any) -> LoopWorld:
    spec = {
        "enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuEvictBESatisfactionUpperPercent": 60,
        "cpuEvictBESatisfactionLowerPercent": 40, "cpuEvictTimeWindowSeconds": 30, **more,
    }  # fmt: skip
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": spec}, gates={"BECPUSuppress": False, "BECPUEvict": True})
    for uid in ("a", "b"):
        world.uses[world.pod(batch(uid))] = used // 2
    world.uses[BE] = world.node_milli = used
    world.overwrite(BE, "cpu.cfs_quota_us", "200000")
    world.source.replace([batch("b"), batch("a")])  # of two equal pods, the first in the list is evicted first
    return world


def test_batch_pods_that_lack_cpu_for_long_are_evicted(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 2000)
    world.loop(20)  # no pod is evicted during the cooldown after the start
    assert world.asked.pods == []
    world.loop(5)
    assert world.asked.pods == ["b"]  # they get 2 of 8 CPUs; up to 60 % are 2.8 to be freed
    world.loop(15)
    assert world.asked.pods == ["b"]


def test_without_a_window_batch_pods_must_lack_cpu_for_a_minute_on_average(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 0, cpuEvictTimeWindowSeconds=None)
    world.loop(60)
    world.uses[BE] = 2000
    world.loop(30)  # Koordinator evicts at the first sample
    assert world.asked.pods == []
    world.loop(30)
    assert len(world.asked.pods) == 1


def test_batch_pods_that_do_not_use_their_cpu_are_kept(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 1000)
    world.loop(60)
    assert world.asked.pods == []


@pytest.mark.parametrize("claim", ["8000000", "9" * 4300 + "E"], ids=["big", "huge"])
def test_an_annotation_that_claims_batch_cpu_has_no_effect_on_evictions(tmp_path: Path, claim: str) -> None:
    """The scheduler and Koordinator count only the spec; anyone can write an annotation."""
    world = cpu_world(tmp_path, 2000)
    liar = pod(
        "z", n.BE, paths.BEST_EFFORT, priority=5000, annotations={batch_resource.ANNOTATION_EXTENDED: claims(claim)}
    )
    world.pod(liar)
    world.source.replace([batch("b"), batch("a"), liar])
    world.loop(25)
    assert world.asked.pods == ["b"]  # as without it: one is enough
    assert "errors" not in world.loops.health()[1]


def test_a_request_known_only_by_annotation_is_limited_to_the_machine(tmp_path: Path) -> None:
    world = cpu_world(tmp_path, 2000)
    liar = pod(
        "z",
        n.BE,
        paths.BEST_EFFORT,
        priority=5000,
        annotations={batch_resource.ANNOTATION_EXTENDED: claims("9" * 4300 + "E")},
    )
    world.source.replace([{**liar, "cgroupParent": "/" + world.pod(liar)}])
    world.loop(25)
    assert world.asked.pods == ["z"]
    account = world.history.account("ns/z")
    assert account is not None and account["values"][0]["reason"] == "batch pods get 25 % of the CPU that they request"


CPU_USED = {"cpuEvictThresholdPercent": 70, "evictEnabledPriorityThreshold": 5999}
ASKED = {
    "cpuAllocatableEvictThresholdPercent": 110, "cpuAllocatableEvictLowerPercent": 100,
    "allocatableEvictPriorityThreshold": 5999,
}  # fmt: skip


def labelled_world(folder: Path, gate: str, allocatable: Any = None, **keys: Any) -> LoopWorld:
    """Three batch pods and a production pod; the labels of two batch pods and of the production pod allow eviction."""
    world = LoopWorld(folder, {"resourceUsedThresholdWithBE": {"enable": True, **keys}}, gates={gate: True})
    pods = [batch("kept"), batch("small"), batch("big", "5000"), pod("prod", n.LS, priority=9500)]
    for entry in pods[1:]:
        entry["metadata"]["labels"]["koordinator.sh/eviction-enabled"] = "true"
    for entry, milli in zip(pods, (3000, 400, 1600, 2000), strict=True):
        world.uses[world.pod(entry)] = milli
    world.node_milli = 7000
    if allocatable is not None:
        world.store.put("Node", {"status": {"allocatable": allocatable}}, "test")
    world.source.replace(pods)
    return world


@pytest.mark.parametrize(
    ("gate", "allocatable", "keys", "requested", "reason"),
    [
        ("CPUEvict", None, CPU_USED, ["big"], "the node uses 87 % of its CPU"),
        ("CPUEvict", None, CPU_USED | {"cpuEvictThresholdPercent": 95}, [], ""),
        ("CPUAllocatableEvict", {n.BATCH_CPU: "9000"}, ASKED, ["big"], f"pods request 13000 of 9000 {n.BATCH_CPU}"),
        ("CPUAllocatableEvict", {n.BATCH_CPU: "12000"}, ASKED, [], ""),
        ("CPUAllocatableEvict", {"cpu": "8"}, ASKED, ["big", "small"], f"pods request 13000 of 0 {n.BATCH_CPU}"),
    ],
    ids=["used", "used below the threshold", "asked for", "asked for below the threshold", "none to be had"],
)
def test_labelled_pods_are_evicted_for_cpu_up_to_the_priority_threshold(
    tmp_path: Path, gate: str, allocatable: Any, keys: dict[str, Any], requested: list[str], reason: str
) -> None:
    world = labelled_world(tmp_path, gate, allocatable, **keys)
    world.loop(25)
    assert sorted(world.asked.pods) == requested
    account = world.history.account("ns/big")
    assert (account["values"][0]["reason"] if account and account["values"] else "") == reason


@pytest.mark.parametrize(
    ("gate", "allocatable", "keys", "message"),
    [
        (
            "CPUEvict",
            None,
            {"cpuEvictThresholdPercent": 70},
            "evictEnabledPriorityThreshold is missing, so no pod is evicted",
        ),
        (
            "CPUAllocatableEvict",
            None,
            {**ASKED, "cpuAllocatableEvictLowerPercent": None},
            "cpuAllocatableEvictLowerPercent is missing, so no pod is evicted",
        ),
        (
            "CPUAllocatableEvict",
            None,
            {**ASKED, "allocatableEvictPriorityThreshold": 8000},
            "allocatableEvictPriorityThreshold 8000 is above 7999",
        ),
        ("CPUAllocatableEvict", None, ASKED, "the Node document has no allocatable resources"),
        ("CPUAllocatableEvict", {n.BATCH_CPU: "many"}, ASKED, "CPUAllocatableEvict: allocatable of the Node: "),
    ],
    ids=["no priority", "no lower end", "production", "no Node", "no number"],
)
def test_with_an_unknown_need_no_pod_is_evicted_and_health_gives_the_reason(
    tmp_path: Path, gate: str, allocatable: Any, keys: dict[str, Any], message: str
) -> None:
    world = labelled_world(tmp_path, gate, allocatable, **keys)
    world.loop(25)
    assert world.asked.pods == []
    assert message in str(world.loops.health())


def test_a_short_cpu_peak_evicts_no_pod_if_a_window_is_configured(tmp_path: Path) -> None:
    world = labelled_world(tmp_path, "CPUEvict", cpuEvictTimeWindowSeconds=60, **CPU_USED)
    world.node_milli = 1000
    world.loop(30)
    world.node_milli = 8000
    world.loop(10)
    assert world.asked.pods == []
    world.loop(50)
    assert world.asked.pods[:1] == ["big"]


@pytest.mark.parametrize(
    ("allocatable", "requested"),
    [({n.BATCH_CPU: "2000"}, ["b"]), ({n.BATCH_CPU: "8000"}, []), ({n.BATCH_CPU: "many"}, []), ({}, []), (None, [])],
    ids=["little", "enough", "no number", "nothing said", "no allocatable"],
)
def test_satisfaction_of_batch_pods_can_use_the_nodes_allocatable(
    tmp_path: Path, allocatable: Any, requested: list[str]
) -> None:
    world = cpu_world(tmp_path, 2000, cpuEvictPolicy="evictByAllocatable")
    world.store.put("Node", {"status": {"allocatable": allocatable}}, "test")
    world.loop(25)
    assert world.asked.pods == requested


def claims(milli: str) -> str:
    return json.dumps({"containers": {"c": {"requests": {n.BATCH_CPU: milli}}}})


def test_batch_cpu_of_a_sidecar_counts_for_satisfaction(tmp_path: Path) -> None:
    one = batch("a", "1000")
    one["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {n.BATCH_CPU: "9000"}}}
    ]
    world = cpu_world(tmp_path, 2000)
    world.uses[world.pod(one)] = 2000
    world.source.replace([one])
    world.loop(100)
    assert world.asked.pods == ["a"]


def decided_pod(name: str, qos: str = "BE", milli: str = "1000", **spec: Any) -> dict[str, Any]:
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
def test_unsatisfied_batch_pods_free_the_missing_cpu_by_average_and_now(
    average: BatchCpu, now: BatchCpu, lower: int, need: int
) -> None:
    thresholds = {**SATISFACTION, "cpuEvictBESatisfactionLowerPercent": lower}
    assert evict.satisfaction_release(average, now, thresholds) == need


@given(st.integers(0, 10**12), st.integers(1, 10**12), st.integers(0, 100))
def test_usage_above_the_threshold_is_freed_and_usage_below_it_is_not(used: int, capacity: int, percent: int) -> None:
    need = evict.usage_release(MEMORY, used, capacity, {MEMORY.threshold: percent})
    assert need >= 0
    if int(used * 100 / capacity) < percent:
        assert need == 0
    else:
        assert need > 0 or capacity < 100


def test_only_requests_of_batch_and_mid_pods_above_the_threshold_are_freed() -> None:
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
        ("CPUAllocatableEvict", DECIDED_ASKED, True),
        ("CPUAllocatableEvict", {**DECIDED_ASKED, "allocatableEvictPriorityThreshold": 7999}, True),
        ("CPUAllocatableEvict", {**DECIDED_ASKED, "allocatableEvictPriorityThreshold": 8000}, False),
        ("CPUAllocatableEvict", {**DECIDED_ASKED, "cpuAllocatableEvictLowerPercent": 80}, False),
        ("CPUAllocatableEvict", {**DECIDED_ASKED, "cpuAllocatableEvictLowerPercent": None}, False),
        ("CPUAllocatableEvict", {**DECIDED_ASKED, "cpuAllocatableEvictThresholdPercent": None}, False),
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70}, False),
        ("MemoryEvict", {"memoryEvictThresholdPercent": 70, "evictEnabledPriorityThreshold": 0}, True),
    ],
)
def test_an_incomplete_configuration_of_a_feature_is_invalid(
    name: str, thresholds: dict[str, int], valid: bool
) -> None:
    assert evict.valid(FEATURES[name], thresholds) is valid


@pytest.mark.parametrize(
    ("feature", "used", "order"),
    [
        (CPU, {"c": 2000, "b": 900, "none": 5000}, ["b", "c", "d", "none", "e", "a"]),
        (MEMORY, {"c": 7, "b": 7, "a": 9}, ["b", "c", "none", "e", "d", "a"]),
    ],
    ids=["cpu: by use over request", "memory: by use, of those that use none by name"],
)
def test_batch_pods_are_ranked_by_priority_then_by_usage(
    feature: evict.Feature, used: dict[str, int], order: list[str]
) -> None:
    pods = [
        decided_pod("a", priority=5),
        decided_pod("b"),
        decided_pod("c", milli="4000"),
        decided_pod("d"),
        decided_pod("ls", "LS"),
    ]
    pods += [decided_pod("none", milli="0"), decided_pod("e")]
    actual = evict.ranked(feature, [{**pod, "spec": {"priority": 0, **pod["spec"]}} for pod in pods], used, {})
    assert [entry.pod["metadata"]["name"] for entry in actual] == order


def test_an_evicted_pod_also_frees_its_usage_for_the_next_feature() -> None:
    victims = [Victim(decided_pod(name), 1000, 700) for name in "ab"]
    evictor = Asked()
    tasks = [Task(CPU, {"kubernetes.io/batch-cpu": 500}, victims), Task(USED, {"cpu": 700}, victims[::-1])]
    assert (evict.evict_round(tasks, set(), evictor), evictor.names) == (1, ["a"])


def test_a_mid_pod_frees_no_batch_cpu() -> None:
    labels = {"koordinator.sh/priority-class": "koord-mid"}
    mid = {"metadata": {"name": "mid", "uid": "mid", "labels": labels}, "spec": {}, "status": {}}
    evictor, release = Asked(), {"kubernetes.io/batch-cpu": 1, "kubernetes.io/mid-cpu": 1}
    tasks = [
        Task(CPU, {"kubernetes.io/batch-cpu": 1}, []),
        Task(ALLOCATABLE, release, [Victim(mid, 9, 0), Victim(decided_pod("b"), 9, 0)]),
    ]
    assert (evict.evict_round(tasks, set(), evictor), evictor.names) == (2, ["mid", "b"])


def test_pods_that_allow_eviction_are_evicted_up_to_a_priority() -> None:
    pods = [
        decided_pod("a", "LS", priority=100),
        decided_pod("b", "LS", priority=200),
        decided_pod("c", "LS", priority=50),
    ]
    actual = evict.ranked(USED, pods, {"a": 1, "b": 1, "c": 1}, {"evictEnabledPriorityThreshold": 100})
    assert [entry.pod["metadata"]["name"] for entry in actual] == ["c", "a"]


class Asked:
    def __init__(self, *fails: str) -> None:
        self.fails, self.names = fails, [""][:0]

    def evict(self, _feature: evict.Feature, victim: Victim) -> bool:
        name = victim.pod["metadata"]["name"]
        self.names.append(name)
        return name not in self.fails


def test_evicted_pods_count_for_later_tasks_and_failures_continue_with_the_next_pod() -> None:
    victims = [Victim(decided_pod(name), 1000, 1) for name in "abcd"]
    evictor = Asked("b")
    release = {"kubernetes.io/batch-cpu": 2000}
    count = evict.evict_round([Task(CPU, release, victims), Task(ALLOCATABLE, release, victims)], {"a"}, evictor)
    assert (count, evictor.names) == (1, ["b", "c"])
