"""NodeSLO's defaults; recorded outcomes are run elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator.defaults import DEFAULTS, OFF, merged, violations


def test_a_spec_has_what_is_written_over_the_defaults_and_neither_is_changed() -> None:
    given = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": ""}}
    found = merged(given)
    assert found["resourceUsedThresholdWithBE"] == {**DEFAULTS["resourceUsedThresholdWithBE"], "enable": True}
    found["resourceUsedThresholdWithBE"]["enable"] = False
    assert given["resourceUsedThresholdWithBE"]["enable"] and merged(None) == merged({})


def test_a_class_that_is_off_has_nothing_and_the_system_class_what_is_written() -> None:
    parts = {"memoryQOS": {"lowLimitPercent": 7}}
    found = merged({"resourceQOSStrategy": {"lsClass": parts, "systemClass": parts}})["resourceQOSStrategy"]
    assert found["lsClass"]["memoryQOS"] == OFF["memoryQOS"]
    assert found["systemClass"]["memoryQOS"]["lowLimitPercent"] == 7


@pytest.mark.parametrize("bad", [[], 5, {"lsClass": 5}, {"lsClass": {"memoryQOS": []}}])
def test_what_has_another_form_stays_to_be_refused_by_who_reads_it(bad: Any) -> None:
    assert merged({"resourceQOSStrategy": bad})["resourceQOSStrategy"] is not None


@pytest.mark.parametrize(
    ("part", "given", "named"),
    [
        (
            "resourceUsedThresholdWithBE",
            {"memoryEvictThresholdPercent": 101, "cpuEvictTimeWindowSeconds": 0},
            [("cpuEvictTimeWindowSeconds", "gt"), ("memoryEvictThresholdPercent", "max")],
        ),
        ("cpuBurstStrategy", {"cpuBurstPercent": 0, "cfsQuotaBurstPeriodSeconds": -1}, [("cpuBurstPercent", "min")]),
        ("systemStrategy", {"watermarkScaleFactor": "401", "memcgReapBackGround": True, "other": 9}, []),
        ("systemStrategy", None, []),
        ("resourceUsedThresholdWithBE", {"cpuEvictLowerPercent": 60, "cpuEvictThresholdPercent": 70}, []),
        ("resourceUsedThresholdWithBE", {"cpuEvictLowerPercent": 60}, [("cpuEvictLowerPercent", "ltfield")]),
        ("resourceUsedThresholdWithBE", {"cpuEvictThresholdPercent": 60}, [("cpuEvictThresholdPercent", "gtfield")]),
        (
            "resourceQOSStrategy",
            {
                "lsClass": {"resctrlQOS": {"catRangeStartPercent": 50, "catRangeEndPercent": 50}, "cpuQOS": 5},
                "beClass": [{"cpuQOS": {"groupIdentity": 9}}],
            },
            [
                ("lsClass.resctrlQOS.catRangeEndPercent", "gtfield"),
                ("lsClass.resctrlQOS.catRangeStartPercent", "ltfield"),
            ],
        ),
    ],
    ids=["most", "least", "no numbers", "nothing", "pair", "lower alone", "upper alone", "classes"],
)
def test_numbers_out_of_range_and_pairs_in_the_wrong_order_are_named(
    part: str, given: dict[str, Any] | None, named: list[tuple[str, str]]
) -> None:
    assert violations(part, given) == named
