"""A pod's share of cache and memory bandwidth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import names as n
from nri.agent.koordinator import resctrl
from nri.agent.koordinator.documents import NodeSlo
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.profile import PARTS
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.resctrl import ClassResctrl, Schemata, cache_mask, class_bandwidth, class_schemata, group_of
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.model import Container, HookError, Pod, Resctrl
from nri.agent.settings import AgentSettings
from nri.host import read_topology
from tests.support.host_trees import write_files
from tests.support.loop_world import LoopWorld
from tests.unit.agent.loops.test_round import make_pod
from tests.unit.agent.transports.standalone.test_pods import pod as class_pod

CACHE = Cache((0, 1), 0xFFF, resctrl.INTEL)
BE_THIRD = {"resourceQOSStrategy": {"beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 33}}}}


def pod(text: str) -> Pod:
    return Pod(uid="u", annotations={resctrl.ANNOTATION_RESCTRL: text})


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 31))
def test_masks_are_contiguous_and_inside_the_cache(start: int, end: int, ways: int) -> None:
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


def test_a_container_has_the_class_of_an_existing_group() -> None:
    """`resctrl_class_needs_group`."""
    assert resctrl.container(Container(pod("{}"))).changes.resctrl == Resctrl("koordlet-u")
    bad = Container(pod("not-json"))
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.container(bad)
    assert resctrl.container(bad, Quirks.REFERENCE).changes.resctrl == Resctrl("koordlet-u")
    with pytest.raises(HookError, match=r"node\.koordinator\.sh/resctrl"):
        resctrl.pod(bad.pod, CACHE)


def test_groups_of_removed_pods_are_stale_and_foreign_groups_are_not() -> None:
    groups = ["koordlet-u", "koordlet-gone", "BE", "mon_groups"]
    assert resctrl.stale(groups, [pod("{}")]) == ["koordlet-gone"]
    assert resctrl.stale(groups, [Pod(uid="u")]) == ["koordlet-gone", "koordlet-u"]


def schemata(expected: Mapping[str, object], vendor: str = resctrl.INTEL) -> str:
    group = resctrl.pod(pod(json.dumps(expected)), Cache((0, 1), 0xFFF, vendor)).changes.resctrl
    assert group is not None
    return group.schemata


def test_a_pod_without_an_annotation_has_no_group() -> None:
    plain = Pod(uid="u")
    assert resctrl.pod(plain, CACHE).changes.resctrl is None
    assert resctrl.container(Container(plain)).changes.resctrl is None
    assert resctrl.removal(plain).changes.resctrl is None


def test_the_group_of_a_removed_pod_is_removed_despite_an_unreadable_annotation() -> None:
    for text in ("{}", "not-json"):
        assert resctrl.removal(pod(text)).changes.resctrl == Resctrl("koordlet-u", remove=True)


@pytest.mark.parametrize(("vendor", "line"), [(resctrl.INTEL, "MB:0=20;1=40;\n"), (resctrl.AMD, "MB:0=24;1=2048;\n")])
def test_a_bandwidth_of_one_cache_overrides_the_common_one(vendor: str, line: str) -> None:
    one = 31 if vendor == resctrl.INTEL else 100
    expected = {"mb": {"schemata": {"percent": 15}, "schemataPerCache": [{"cacheID": 1, "percent": one}]}}
    assert schemata(expected, vendor) == line


def test_a_range_of_one_cache_overrides_the_common_one() -> None:
    expected = {"llc": {"schemata": {"range": [0, 50]}, "schemataPerCache": [{"cacheID": 1, "range": [50, 100]}]}}
    assert schemata(expected) == "L3:0=3f;1=fc0;\n"


def test_a_range_of_one_cache_without_two_ends_is_ignored() -> None:
    expected = {"llc": {"schemata": {"range": [0, 50]}, "schemataPerCache": [{"range": [50]}, {"cacheID": 1}]}}
    assert schemata(expected) == "L3:0=3f;1=3f;\n"


def test_an_invalid_range_keeps_the_rest_of_the_schemata() -> None:
    assert (
        schemata({"llc": {"schemata": {"range": [50, 20]}}, "mb": {"schemata": {"percent": 20}}}) == "MB:0=20;1=20;\n"
    )


def test_a_cache_without_any_range_omits_the_line() -> None:
    assert schemata({"llc": {"schemataPerCache": [{"cacheID": 0, "range": [0, 50]}]}}) == ""


def test_a_line_has_every_domain_in_order() -> None:
    written = Schemata((1, 0))
    written.l3, written.mb = {1: 0xFF, 0: 0xF}, {1: 50, 0: 100}
    assert (written.l3_line(), written.mb_line()) == ("L3:0=f;1=ff;\n", "MB:0=100;1=50;\n")
    assert (Schemata().l3_line(), Schemata().mb_line()) == ("", "")


def test_schemata_are_valid_if_exactly_the_machines_domains_are_set() -> None:
    schemata = Schemata((0, 1))
    assert not schemata.l3_valid()
    assert not schemata.mb_valid()
    schemata.l3, schemata.mb = {0: 1, 1: 3}, {0: 10, 1: 10}
    assert schemata.l3_valid()
    assert schemata.mb_valid()
    schemata.l3[5] = 1
    assert not schemata.l3_valid()


@pytest.mark.parametrize(("ways", "start", "end"), [(0b101, 0, 50), (0xFF, 50, 50), (0xFF, -1, 50), (0xFF, 0, 101)])
def test_an_invalid_range_is_refused(ways: int, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"gap|range"):
        cache_mask(ways, start, end)


@pytest.mark.parametrize(
    ("percent", "vendor", "actual"),
    [(33, "GenuineIntel", "40"), (33, "AuthenticAMD", "52"), (100, "AuthenticAMD", "2048"), (0, "GenuineIntel", "")],
)
def test_a_bandwidth_share_has_the_processors_unit(percent: int, vendor: str, actual: str) -> None:
    assert class_bandwidth(percent, vendor) == actual


def test_invalid_values_have_no_line() -> None:
    config = {"catRangeStartPercent": 50, "catRangeEndPercent": 30, "mbaPercent": 50}
    assert class_schemata(config, 0xFF, "GenuineIntel", [0]) == ("MB:0=50;\n",)
    assert class_schemata({**config, "catRangeEndPercent": 100}, None, "GenuineIntel", []) == ()


def test_lse_pods_are_in_the_lsr_group_and_system_pods_in_none() -> None:
    assert [group_of(entry) for entry in ("LSE", "LSR", "LS", "BE", "SYSTEM", "")] == ["LSR", "LSR", "LS", "BE", "", ""]


def moment_of(world: LoopWorld, spec: dict[str, object] | None) -> Round:
    strategies = NodeSlo(PARTS)
    strategies.take(None if spec is None else {"spec": spec})
    world.pod(class_pod("be", n.BE, "BestEffort"))
    pods = [make_pod(world, class_pod("be", n.BE, "BestEffort"))]
    return Round(world.parts, strategies, pods, Sample(0.0, 8, None, None, None, {}), read_topology(world.root))


def test_a_class_has_its_schemata_and_threads_and_is_reset_when_disabled(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, node=Node(cache=Cache((0, 1), 0xF, "GenuineIntel")))
    loop, moment = ClassResctrl(AgentSettings(), ["RdtResctrl"]), moment_of(world, BE_THIRD)
    loop.round(moment)
    assert moment.groups[-1] == Resctrl("BE", "L3:0=3;1=3;\nMB:0=40;1=40;\n", (100,))
    off = moment_of(world, {})
    assert loop.is_needed(off.rules)
    loop.round(off)
    assert [group.schemata for group in off.groups] == ["L3:0=f;1=f;\nMB:0=100;1=100;\n"] * 3
    assert not loop.is_needed(off.rules)


def test_an_obsolete_group_of_a_killed_agent_is_reset(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, node=Node(cache=Cache((0, 1), 0xF, "GenuineIntel")))
    off, nothing_set = moment_of(world, {}), moment_of(world, {})
    ClassResctrl(AgentSettings(), ["RdtResctrl"]).round(nothing_set)
    assert not nothing_set.groups
    write_files(tmp_path, {"sys/fs/resctrl/BE/schemata": "L3:0=3;1=3\n"})
    loop = ClassResctrl(AgentSettings(), ["RdtResctrl"])
    loop.round(off)
    assert Resctrl("BE", "L3:0=f;1=f;\nMB:0=100;1=100;\n") in off.groups
    loop.round(second_round := moment_of(world, {}))
    assert not second_round.groups


def test_a_machine_without_cache_partitioning_is_reported(tmp_path: Path) -> None:
    loop, moment = ClassResctrl(AgentSettings(), ["RdtResctrl"]), moment_of(LoopWorld(tmp_path), BE_THIRD)
    loop.round(moment)
    assert not moment.groups and "cannot partition its caches" in next(iter(moment.unsupported))
