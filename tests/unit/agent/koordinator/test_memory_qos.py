"""Memory QoS of containers, pods and parent cgroups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.agent.koordinator import names as n
from nri.agent.koordinator.documents import OFF
from nri.agent.koordinator.memory_qos import CACHE_SWITCH, QosContainer, QosPod, of_pod, parse, targets
from tests.support.host_trees import TOP, write_files
from tests.support.loop_world import LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod

MIB = 1 << 20
CACHE_SIZE = "memory.pagecache_limit.size"
PERCENT = st.integers(0, 100)
CLASSES: dict[str, None] = {"lsrClass": None, "lsClass": None, "beClass": None}
FOLDERS = {GUARANTEED: "top", BURSTABLE: "top/burstable", BEST_EFFORT: "top/besteffort"}


def slo(**memory: Any) -> dict[str, Any]:
    return {"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, **memory}}}}


def ls(uid: str, request: str, limit: str = "") -> dict[str, Any]:
    asks: dict[str, Any] = {"requests": {"memory": request}}
    if limit:
        asks["limits"] = {"memory": limit}
    return pod(uid, n.LS, containers=[{"name": "c", "resources": asks}])


def value(world: LoopWorld, path: str, file: str) -> int:
    return int(world.text(path, file))


@pytest.mark.parametrize("killed", [False, True])
def test_protection_is_summed_up_to_the_root_and_reset_when_disabled(tmp_path: Path, killed: bool) -> None:
    world = LoopWorld(tmp_path, slo(minLimitPercent=50, lowLimitPercent=80, throttlingPercent=50))
    pods = [ls("a", "100Mi", "200Mi"), ls("b", "40Mi")]
    for manifest in pods:
        world.pod(manifest)
    world.source.replace(pods)
    world.loop()
    top = "kubepods/burstable"
    assert value(world, f"{top}/poda", "memory.min") == value(world, f"{top}/poda/ac", "memory.min") == 50 * MIB
    assert value(world, top, "memory.min") == value(world, "kubepods", "memory.min") == 70 * MIB
    assert value(world, top, "memory.low") == 112 * MIB
    assert value(world, f"{top}/poda/ac", "memory.high") == 150 * MIB
    world.source.replace(pods[1:])
    world.loop()
    assert value(world, top, "memory.min") == 20 * MIB
    if killed:
        world.kill()
    world.slo({})
    world.loop()
    assert {value(world, path, "memory.min") for path in (top, "kubepods", f"{top}/podb", f"{top}/podb/bc")} == {0}
    assert value(world, f"{top}/podb/bc", "memory.high") == -1


def test_an_agent_without_requests_or_earlier_values_changes_nothing(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    folder = tmp_path / TOP / "memory" / world.pod(ls("a", "100Mi"))
    write_files(folder, {"ac/memory.oom.group": "1"})
    world.source.replace([ls("a", "100Mi")])
    world.loop(2)
    assert (folder / "ac/memory.oom.group").read_text() == "1", "so the kubelet has it"
    assert world.history.account("a") is None


def test_the_oom_group_of_a_killed_agent_is_reset_when_disabled(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo(oomKillGroup=1, wmarkRatio=0, wmarkScalePermill=50, wmarkMinAdj=0))
    folder = tmp_path / TOP / "memory" / world.pod(ls("a", "100Mi"))
    files = [entry / "memory.oom.group" for entry in (folder, folder / "ac")]
    for entry in files:
        write_files(entry.parent, {entry.name: "0"})
    world.source.replace([ls("a", "100Mi")])
    world.loop()
    assert [file.read_text() for file in files] == ["1", "1"]
    world.kill()
    world.slo({})
    world.loop()
    assert [file.read_text() for file in files] == ["0", "0"]


def test_an_unreadable_annotation_keeps_its_earlier_values(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo(minLimitPercent=50))
    world.pod(ls("a", "100Mi"))
    for text in ('{"minLimitPercent": 10}', "{"):
        one = ls("a", "100Mi")
        one["metadata"]["annotations"] = {"koordinator.sh/memoryQOS": text}
        world.source.replace([one])
        world.loop()
        assert value(world, "kubepods/burstable/poda", "memory.min") == 10 * MIB


def test_a_pod_with_policy_none_has_no_protection(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo(minLimitPercent=50))
    one = ls("a", "100Mi")
    one["metadata"]["annotations"] = {"koordinator.sh/memoryQOS": '{"policy": "none"}'}
    world.pod(one)
    world.source.replace([one])
    world.loop()
    assert value(world, "kubepods/burstable/poda", "memory.min") == 0


def test_a_page_cache_is_limited_if_supported_and_released(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, slo(pageCacheEnable=True, pageCacheLimitPercent=25, pageCacheReclaimSync=True))
    one = ls("a", "100Mi", "200Mi")
    folder = tmp_path / TOP / "memory" / world.pod(one)
    world.source.replace([one])
    world.loop()
    names = ("enable", "size", "sync")
    assert not (folder / "memory.pagecache_limit.enable").exists()
    write_files(folder, {f"memory.pagecache_limit.{name}": "0" for name in names})

    def read() -> list[int]:
        return [int((folder / f"memory.pagecache_limit.{name}").read_text()) for name in names]

    world.loop()
    assert read() == [1, 50 * MIB, 1]
    world.slo(slo(pageCacheEnable=True, pageCacheLimitSize=MIB))
    world.loop()
    assert read() == [1, MIB, 0]
    world.slo({})
    world.loop()
    assert read()[0] == 0


SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "60Mi"}}}


@pytest.mark.parametrize(
    ("more", "mebibytes"),
    [
        ({"initContainers": [SIDECAR]}, 160),
        ({"initContainers": [{"name": "i", "resources": {"requests": {"memory": "400Mi"}}}]}, 400),
        ({"overhead": {"memory": "28Mi"}}, 128),
        ({"resources": {"requests": {"memory": "300Mi"}}}, 300),
    ],
)
def test_protection_includes_sidecars_init_containers_and_overhead(
    tmp_path: Path, more: dict[str, Any], mebibytes: int
) -> None:
    world = LoopWorld(tmp_path, slo(minLimitPercent=100))
    one = ls("a", "100Mi")
    one["spec"] |= more
    world.pod(one)
    world.source.replace([one])
    world.loop()
    assert value(world, "kubepods/burstable/poda", "memory.min") == mebibytes * MIB
    assert value(world, "kubepods/burstable/poda/ac", "memory.min") == 100 * MIB


@pytest.mark.parametrize(
    ("label", "resource", "mebibytes"),
    [(n.BE, n.BATCH_MEMORY, 160), (n.BE, "memory", 0), (n.LS, n.BATCH_MEMORY, 0), ("", n.BATCH_MEMORY, 0)],
)
def test_the_label_selects_the_memory_resource_and_batch_memory_includes_sidecars(
    tmp_path: Path, label: str, resource: str, mebibytes: int
) -> None:
    classes = {key: {"memoryQOS": {"enable": True, "minLimitPercent": 100}} for key in ("lsClass", "beClass")}
    world = LoopWorld(tmp_path, {"resourceQOSStrategy": classes})
    main = {"name": "c", "resources": {"requests": {resource: "100Mi"}}}
    one = pod("a", label, containers=[main])
    one["spec"]["initContainers"] = [{**SIDECAR, "resources": {"requests": {resource: "60Mi"}}}]
    folder = world.pod(one)
    world.source.replace([one])
    world.loop()
    assert value(world, folder, "memory.min") == mebibytes * MIB


@given(PERCENT, PERCENT, PERCENT, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_protection_is_below_the_request_and_throttling_above_it_in_whole_pages(
    least: int, low: int, slow: int, request: int, limit: int
) -> None:
    config = {"minLimitPercent": least, "lowLimitPercent": low, "throttlingPercent": slow}
    pod = QosPod(
        "top/burstable/p", BURSTABLE, config, request, [QosContainer("top/burstable/p/c", request, request + limit)]
    )
    actual = {(target.folder, target.knob): target.value for target in targets([pod], CLASSES, 1 << 50, FOLDERS)}
    own_part = {knob: value for (folder, knob), value in actual.items() if folder.endswith("/c")}
    assert own_part["memory.min"] <= request >= own_part["memory.low"]
    assert own_part["memory.low"] == 0 or own_part["memory.low"] >= own_part["memory.min"]
    high = own_part["memory.high"]
    assert (
        high == -1
        if slow == 0
        else high >= own_part["memory.min"] and (high % 4096 == 0 or high == own_part["memory.min"])
    )
    assert actual["top", "memory.min"] == actual["top/burstable", "memory.min"] == own_part["memory.min"]


def test_without_the_nodes_memory_unlimited_containers_are_not_throttled() -> None:
    pod = QosPod("p", BURSTABLE, {"throttlingPercent": 50}, 0, [QosContainer("p/c", 0, 0)])
    assert "memory.high" not in {target.knob for target in targets([pod], {}, None, FOLDERS)}


def test_an_annotation_sets_a_policy_and_single_fields() -> None:
    node = parse({"enable": True, "minLimitPercent": 10})
    assert of_pod('{"policy": "none", "minLimitPercent": 5}', node, "lsClass") == OFF["memoryQOS"]
    auto = of_pod('{"policy": "auto", "priority": 3}', node, "beClass")
    assert (auto["enable"], auto["minLimitPercent"], auto["wmarkMinAdj"], auto["priority"]) == (True, 0, 50, 3)
    assert of_pod('{"lowLimitPercent": 7}', node, "lsClass") == {**node, "lowLimitPercent": 7}
    with pytest.raises(ValueError, match="whole number"):
        of_pod('{"lowLimitPercent": "7"}', node, "lsClass")


def test_a_pod_without_an_annotation_has_the_nodes_values() -> None:
    assert of_pod(None, {"minLimitPercent": 10}, "lsClass") == {"minLimitPercent": 10}
    assert of_pod("", None, "") == {}


@pytest.mark.parametrize(
    ("config", "limit", "expected"),
    [
        ({}, 1000, {}),
        ({"pageCacheEnable": False}, 1000, {CACHE_SWITCH: 0}),
        ({"pageCacheEnable": True}, 1000, {CACHE_SWITCH: 1}),
        ({"pageCacheLimitPercent": 50}, 0, {}),
        ({"pageCacheLimitPercent": 50}, 1000, {CACHE_SWITCH: 1, CACHE_SIZE: 500}),
        ({"pageCacheLimitPercent": 0}, 1000, {CACHE_SWITCH: 0, CACHE_SIZE: 0}),
        ({"pageCacheEnable": False, "pageCacheLimitPercent": 50}, 1000, {CACHE_SWITCH: 0, CACHE_SIZE: 500}),
        ({"pageCacheLimitSize": 7, "pageCacheLimitPercent": 50}, 1000, {CACHE_SWITCH: 1, CACHE_SIZE: 7}),
        ({"pageCacheLimitSize": 7000}, 1000, {CACHE_SWITCH: 1, CACHE_SIZE: 1000}),
        ({"pageCacheLimitSize": 7000}, 0, {CACHE_SWITCH: 1, CACHE_SIZE: 7000}),
        ({"pageCacheLimitSize": 0}, 1000, {CACHE_SWITCH: 0, CACHE_SIZE: 0}),
    ],
)
def test_a_page_cache_is_limited_by_a_size_or_a_share_of_the_limit(
    config: dict[str, int], limit: int, expected: dict[str, int]
) -> None:
    pod = QosPod("p", BURSTABLE, config, 0, [QosContainer("p/c", 0, limit)], limit)
    actual = {target.knob: target.value for target in targets([pod], {}, None, FOLDERS) if target.folder == "p"}
    assert {knob: actual[knob] for knob in (CACHE_SWITCH, CACHE_SIZE) if knob in actual} == expected
