"""Sysctls that NodeSLO asks for."""

from __future__ import annotations

from typing import Any

import pytest

from nri.agent.koordinator.decisions.system_config import System, parse, wanted


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"watermarkScaleFactor": 500}, "systemStrategy.watermarkScaleFactor: 500 is not from 10 to 400"),
        ({"minFreeKbytesFactor": 0}, "systemStrategy.minFreeKbytesFactor: 0 is not above 0"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}$"):
        parse(given)


def test_nothing_is_asked_for_by_nothing() -> None:
    assert parse(None) == System()


def test_a_share_of_the_memory_stays_free_within_bounds() -> None:
    assert wanted(parse({"minFreeKbytesFactor": 100}), 8 << 30) == ({"vm.min_free_kbytes": (8 << 20) // 100}, "")
    assert wanted(parse({"minFreeKbytesFactor": 1, "memcgReapBackGround": 0}), 8 << 30)[0] == {"mm.memcg_reaper": 0}
