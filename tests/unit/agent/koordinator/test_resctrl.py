"""A pod's share of cache and memory bandwidth."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import resctrl
from nri.agent.koordinator.node import Cache
from nri.agent.koordinator.quirks import Quirks
from nri.policies.changes import HookError, Resctrl
from nri.policies.contexts import ContainerContext, PodContext

CACHE = Cache((0, 1), 0xFFF, resctrl.INTEL)


def pod(text: str) -> PodContext:
    return PodContext(uid="u", annotations={resctrl.ANNOTATION_RESCTRL: text})


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 31))
def test_masks_are_whole_and_inside_the_cache(start: int, end: int, ways: int) -> None:
    cache = Cache((0,), (1 << ways) - 1, resctrl.INTEL)
    text = json.dumps({"llc": {"schemata": {"range": [start, end]}}})
    group = resctrl.pod(pod(text), cache).changes.resctrl
    assert group is not None
    if group.schemata:
        mask = int(group.schemata.removeprefix("L3:0=").rstrip(";\n"), 16)
        low = mask & -mask
        assert mask // low + 1 == 1 << (mask // low).bit_length()
        assert mask <= cache.mask
    else:
        assert end <= start or -(-ways * start // 100) == -(-ways * end // 100)


@given(st.integers(1, 100))
def test_intel_bandwidths_are_rounded_up_to_tens_and_amds_are_of_160(percent: int) -> None:
    assert resctrl.bandwidth(percent, resctrl.INTEL) == -(-percent // 10) * 10
    assert resctrl.bandwidth(percent, resctrl.AMD) == (2048 if percent == 100 else percent * 160 // 100)
    assert resctrl.bandwidth(percent, "other") == 0


def test_a_container_has_the_class_of_a_group_that_there_is() -> None:
    """`resctrl_class_needs_group`."""
    assert resctrl.container(ContainerContext(pod("{}"))).changes.resctrl == Resctrl("koordlet-u")
    bad = ContainerContext(pod("not-json"))
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.container(bad)
    assert resctrl.container(bad, Quirks.REFERENCE).changes.resctrl == Resctrl("koordlet-u")
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.pod(bad.pod, CACHE)


def test_groups_of_gone_pods_are_stale_and_others_are_not_ours() -> None:
    groups = ["koordlet-u", "koordlet-gone", "BE", "mon_groups"]
    assert resctrl.stale(groups, [pod("{}")]) == ["koordlet-gone"]
    assert resctrl.stale(groups, [PodContext(uid="u")]) == ["koordlet-gone", "koordlet-u"]


def schemata(wanted: Mapping[str, object], vendor: str = resctrl.INTEL) -> str:
    group = resctrl.pod(pod(json.dumps(wanted)), Cache((0, 1), 0xFFF, vendor)).changes.resctrl
    assert group is not None
    return group.schemata


def test_a_pod_without_annotation_has_no_group_to_make_or_to_remove() -> None:
    plain = PodContext(uid="u")
    assert resctrl.pod(plain, CACHE).changes.resctrl is None
    assert resctrl.container(ContainerContext(plain)).changes.resctrl is None
    assert resctrl.removal(plain).changes.resctrl is None


def test_the_group_of_a_removed_pod_goes_even_if_its_annotation_cannot_be_read() -> None:
    for text in ("{}", "not-json"):
        assert resctrl.removal(pod(text)).changes.resctrl == Resctrl("koordlet-u", remove=True)


@pytest.mark.parametrize(("vendor", "line"), [(resctrl.INTEL, "MB:0=20;1=40;\n"), (resctrl.AMD, "MB:0=24;1=2048;\n")])
def test_a_bandwidth_of_one_cache_counts_before_that_of_all(vendor: str, line: str) -> None:
    one = 31 if vendor == resctrl.INTEL else 100
    wanted = {"mb": {"schemata": {"percent": 15}, "schemataPerCache": [{"cacheID": 1, "percent": one}]}}
    assert schemata(wanted, vendor) == line


def test_a_range_of_one_cache_counts_before_that_of_all() -> None:
    wanted = {"llc": {"schemata": {"range": [0, 50]}, "schemataPerCache": [{"cacheID": 1, "range": [50, 100]}]}}
    assert schemata(wanted) == "L3:0=3f;1=fc0;\n"


def test_a_range_of_one_cache_that_has_not_two_ends_is_passed_over() -> None:
    wanted = {"llc": {"schemata": {"range": [0, 50]}, "schemataPerCache": [{"range": [50]}, {"cacheID": 1}]}}
    assert schemata(wanted) == "L3:0=3f;1=3f;\n"


def test_a_range_that_is_none_leaves_the_rest_of_the_schemata() -> None:
    assert (
        schemata({"llc": {"schemata": {"range": [50, 20]}}, "mb": {"schemata": {"percent": 20}}}) == "MB:0=20;1=20;\n"
    )


def test_a_cache_that_has_no_range_of_its_own_nor_one_of_all_leaves_the_line_out() -> None:
    assert schemata({"llc": {"schemataPerCache": [{"cacheID": 0, "range": [0, 50]}]}}) == ""
