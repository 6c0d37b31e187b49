"""Memory QoS by property; recorded outcomes are run elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator.decisions.memory_qos import CACHE_SWITCH, Container, Pod, of_pod, parse, targets
from nri.agent.koordinator.defaults import OFF
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED

CACHE_SIZE = "memory.pagecache_limit.size"
PERCENT = st.integers(0, 100)
CLASSES: dict[str, None] = {"lsrClass": None, "lsClass": None, "beClass": None}
FOLDERS = {GUARANTEED: "top", BURSTABLE: "top/burstable", BEST_EFFORT: "top/besteffort"}


@given(PERCENT, PERCENT, PERCENT, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_protection_is_below_the_request_and_slowing_above_it_in_whole_pages(
    least: int, low: int, slow: int, request: int, limit: int
) -> None:
    config = {"minLimitPercent": least, "lowLimitPercent": low, "throttlingPercent": slow}
    pod = Pod("top/burstable/p", BURSTABLE, config, request, [Container("top/burstable/p/c", request, request + limit)])
    found = {(each.folder, each.knob): each.value for each in targets([pod], CLASSES, 1 << 50, FOLDERS)}
    own = {knob: value for (folder, knob), value in found.items() if folder.endswith("/c")}
    assert own["memory.min"] <= request >= own["memory.low"]
    assert own["memory.low"] == 0 or own["memory.low"] >= own["memory.min"]
    high = own["memory.high"]
    assert high == -1 if slow == 0 else high >= own["memory.min"] and (high % 4096 == 0 or high == own["memory.min"])
    assert found["top", "memory.min"] == found["top/burstable", "memory.min"] == own["memory.min"]


def test_where_the_node_is_not_known_nothing_without_a_limit_is_slowed_down() -> None:
    pod = Pod("p", BURSTABLE, {"throttlingPercent": 50}, 0, [Container("p/c", 0, 0)])
    assert "memory.high" not in {each.knob for each in targets([pod], {}, None, FOLDERS)}


def test_an_annotation_takes_a_policy_and_single_fields() -> None:
    node = parse({"enable": True, "minLimitPercent": 10})
    assert of_pod('{"policy": "none", "minLimitPercent": 5}', node, "lsClass") == OFF["memoryQOS"]
    auto = of_pod('{"policy": "auto", "priority": 3}', node, "beClass")
    assert (auto["enable"], auto["minLimitPercent"], auto["wmarkMinAdj"], auto["priority"]) == (True, 0, 50, 3)
    assert of_pod('{"lowLimitPercent": 7}', node, "lsClass") == {**node, "lowLimitPercent": 7}
    with pytest.raises(ValueError, match="whole number"):
        of_pod('{"lowLimitPercent": "7"}', node, "lsClass")


def test_a_pod_without_an_annotation_has_the_nodes_word() -> None:
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
    pod = Pod("p", BURSTABLE, config, 0, [Container("p/c", 0, limit)], limit)
    found = {each.knob: each.value for each in targets([pod], {}, None, FOLDERS) if each.folder == "p"}
    assert {knob: found[knob] for knob in (CACHE_SWITCH, CACHE_SIZE) if knob in found} == expected
