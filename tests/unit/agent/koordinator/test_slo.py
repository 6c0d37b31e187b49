"""What NodeSLO and annotations ask of the loops."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator.decisions.cpu_burst import BurstConfig
from nri.agent.koordinator.defaults import DEFAULTS, OFF
from nri.agent.koordinator.profile import PROFILE
from nri.agent.koordinator.slo import (
    ANNOTATION_BLOCK_IO,
    ANNOTATION_BURST,
    ANNOTATION_MEMORY,
    READERS,
    NodeSlo,
    PodRules,
    pod_rules,
)


def taken(**spec: Any) -> NodeSlo:
    made = NodeSlo()
    made.take({"spec": spec})
    return made


def test_everything_is_off_without_a_word_of_nodeslo() -> None:
    for strategies in (NodeSlo(), taken(), taken(resourceUsedThresholdWithBE=None, resourceQOSStrategy=None)):
        assert (strategies.threshold.enabled, strategies.burst.policy) == (False, "none")
        assert not any(each["enable"] for each in strategies.memory.values())
        assert strategies.disks == ()


def test_nodeslo_that_only_switches_on_has_the_defaults() -> None:
    made = taken(resourceUsedThresholdWithBE={"enable": True}, cpuBurstStrategy={"policy": "auto"})
    assert made.threshold.keys == {**DEFAULTS["resourceUsedThresholdWithBE"], "enable": True}
    assert made.burst == BurstConfig("auto")
    on = taken(resourceQOSStrategy={"beClass": {"memoryQOS": {"enable": True}}}).memory["beClass"]
    assert (on["enable"], on["wmarkRatio"], on["wmarkMinAdj"]) == (True, 95, 50)


def test_a_part_that_cannot_be_read_keeps_its_last_good_form_and_the_others_change() -> None:
    made = taken(resourceUsedThresholdWithBE={"enable": True, "cpuSuppressThresholdPercent": 50})
    made.take({"spec": {"resourceUsedThresholdWithBE": {"enable": 5}, "cpuBurstStrategy": {"policy": "auto"}}})
    assert (made.threshold.suppress_percent, made.burst.policy) == (50, "auto")
    assert made.errors == ["resourceUsedThresholdWithBE.enable: 5 is not true or false"]
    made.take(None)
    assert (made.threshold.enabled, made.burst.policy, made.errors) == (False, "none", [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 101}}, "is not from 0 to 100"),
        ({"resourceUsedThresholdWithBE": {"cpuEvictTimeWindowSeconds": 0}}, "is not from 1 to 86400"),
        ({"cpuBurstStrategy": {"policy": "much"}}, "there is no policy 'much'"),
        ({"cpuBurstStrategy": {"cfsQuotaBurstPercent": 50}}, "50 is not from 100 to 10000"),
        ({"cpuBurstStrategy": {"cfsQuotaBurstPeriodSeconds": -2}}, "-2 is not from -1 to 86400"),
        ({"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": "yes"}}}}, "memoryQOS.enable"),
        ({"resourceQOSStrategy": {"beClass": {"blkioQOS": {"enable": True, "blocks": 5}}}}, "blkioQOS.blocks"),
    ],
)
def test_numbers_out_of_range_are_refused(spec: dict[str, Any], error: str) -> None:
    (told,) = taken(**spec).errors
    assert error in told


def of(annotations: dict[str, str], **spec: Any) -> tuple[PodRules, list[str]]:
    errors: list[str] = []
    return pod_rules(taken(**spec), "LS", annotations, lambda _, error: errors.append(error)), errors


def test_a_pods_word_goes_before_the_nodes_where_it_says_something() -> None:
    node = {"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 10}}}}
    found, errors = of({ANNOTATION_BURST: '{"policy": "auto"}', ANNOTATION_MEMORY: '{"lowLimitPercent": 30}'}, **node)
    assert (found.burst, errors) == (BurstConfig("auto"), [])
    assert (found.memory["enable"], found.memory["minLimitPercent"], found.memory["lowLimitPercent"]) == (True, 10, 30)
    assert of({ANNOTATION_MEMORY: '{"policy": "none"}'}, **node)[0].memory == OFF["memoryQOS"]
    auto = of({ANNOTATION_MEMORY: '{"policy": "auto", "wmarkRatio": 80}'})[0].memory
    assert (auto["wmarkRatio"], auto["wmarkMinAdj"]) == (80, -25)
    disks = '{"blocks": [{"name": "/dev/sda", "ioCfg": {"readBPS": 5}}]}'
    assert [each.read_bps for each in of({ANNOTATION_BLOCK_IO: disks})[0].disks] == [5]


@pytest.mark.parametrize(
    "bad", ["{", "[]", '{"policy": 5}', "5", '{"policy": "what"}', "x" * 10_000, '{"a":' * 100_000]
)
def test_a_bad_annotation_is_told_and_the_nodes_word_stays(bad: str) -> None:
    given = {ANNOTATION_BURST: bad, ANNOTATION_MEMORY: bad, ANNOTATION_BLOCK_IO: bad}
    found, errors = of(given, cpuBurstStrategy={"policy": "cpuBurstOnly"})
    assert (found.burst.policy, found.memory, found.disks) == ("cpuBurstOnly", OFF["memoryQOS"], ())
    told = {each.split(":")[0] for each in errors}
    assert told >= {f"annotation {ANNOTATION_BURST}", f"annotation {ANNOTATION_MEMORY}"}
    assert all(len(each) < 400 for each in errors)


def test_a_bad_annotation_is_told_by_the_name_of_the_strategy_that_reads_it() -> None:
    told: dict[str, str] = {}
    pod_rules(taken(), "LS", dict.fromkeys(READERS, "{"), told.__setitem__)
    assert set(told) == set(READERS.values()) <= {row.name for row in PROFILE.strategies}
