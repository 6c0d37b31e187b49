"""Parts of caches and bandwidth by class; recorded outcomes are run elsewhere."""

from __future__ import annotations

import pytest

from nri.agent.koordinator.decisions.class_resctrl import bandwidth, group_of, schemata


@pytest.mark.parametrize(
    ("percent", "vendor", "found"),
    [(33, "GenuineIntel", "40"), (33, "AuthenticAMD", "52"), (100, "AuthenticAMD", "2048"), (0, "GenuineIntel", "")],
)
def test_a_share_of_bandwidth_is_in_the_processors_words(percent: int, vendor: str, found: str) -> None:
    assert bandwidth(percent, vendor) == found


def test_what_makes_no_sense_has_no_line() -> None:
    config = {"catRangeStartPercent": 50, "catRangeEndPercent": 30, "mbaPercent": 50}
    assert schemata(config, 0xFF, "GenuineIntel", [0]) == ("MB:0=50;\n",)
    assert schemata({**config, "catRangeEndPercent": 100}, None, "GenuineIntel", []) == ()


def test_lse_pods_are_with_those_of_lsr_and_system_pods_in_none() -> None:
    assert [group_of(each) for each in ("LSE", "LSR", "LS", "BE", "SYSTEM", "")] == ["LSR", "LSR", "LS", "BE", "", ""]
