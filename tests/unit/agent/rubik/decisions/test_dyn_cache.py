"""Cache masks of any width, groups and tasks of pods, and the dynamic group's walk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik.blocks import DynCache
from nri.agent.rubik.decisions import dyn_cache
from nri.agent.rubik.decisions.dyn_cache import ANNOTATION, Misses, Shares
from nri.agent.rubik.pods import PREEMPTIBLE, Container, Pod


def _pod(name: str, level: str) -> Pod:
    return Pod(name, annotations={PREEMPTIBLE: "true", ANNOTATION: level}, containers=(Container("1", folder=name),))


@given(st.integers(1, 31), st.integers(1, 100))
def test_a_mask_is_as_many_ones_as_the_share_has_ways(width: int, percent: int) -> None:
    ones = width * percent // 100 or 1
    assert bin(dyn_cache.mask(width, percent)) == "0b" + "1" * ones


def test_a_twenty_way_cache_is_shared_like_any_other() -> None:
    shares = dyn_cache.group_shares(DynCache())["rubik_max"]
    assert dyn_cache.schemata(20, shares, {"L3": [0, 8], "MB": [0, 8]}) == {
        "L3": {0: 0xFFFFF, 8: 0xFFFFF},
        "MB": {0: 100, 8: 100},
    }


def test_tasks_are_moved_container_by_container_and_a_bad_level_costs_one_pod() -> None:
    pods = [_pod("a", "low"), _pod("b", "LOW"), _pod("c", ""), Pod("on", containers=(Container("1", folder="on"),))]
    processes = {"a": [1, 2], "b": [3], "c": [], "on": [4]}
    assert dyn_cache.tasks(pods, "dynamic", processes) == {"rubik_low": [1, 2]}
    assert dyn_cache.tasks([_pod("c", ""), _pod("a", "")], "static", processes) == {"rubik_max": [1, 2]}
    assert dyn_cache.uses(pods, "dynamic")
    assert not dyn_cache.uses(pods, "static")


percents = st.sampled_from([0, 9, 10, 11, 19, 20, 21, 100])


@given(st.lists(st.lists(st.tuples(percents, percents), max_size=3), max_size=20))
def test_the_dynamic_group_falls_at_once_rises_slowly_and_stays_within_its_bounds(
    rounds: list[list[tuple[int, int]]],
) -> None:
    config, now, l3, mb = DynCache(), Shares(20, 10), 20, 10
    for measured in rounds:
        flat = [each for pair in measured for each in pair]
        if any(each >= 20 for each in flat):
            l3, mb = max(20, l3 - 50), max(10, mb - 50)
        elif all(each < 10 for each in flat):
            l3, mb = min(50, l3 + 5), min(50, mb + 5)
        now = dyn_cache.step(now, [Misses(*pair) for pair in measured], config)
        assert now == (l3, mb)
    assert dyn_cache.miss_percent(3, 9) == 30


@pytest.mark.parametrize(
    ("most", "least", "measured", "expected"),
    [
        (0, 0, [Misses()], Shares(20, 10)),
        (0, 0, [], Shares(45, 45)),
        (20, 10, [Misses(), Misses(9, 9)], Shares(45, 45)),
        (20, 10, [Misses(10), Misses()], Shares(40, 40)),
        (20, 10, [Misses(0, 20), Misses()], Shares(20, 10)),
    ],
)
def test_the_marks_of_misses_are_where_it_falls_and_below_which_it_rises(
    most: int, least: int, measured: list[Misses], expected: Shares
) -> None:
    assert dyn_cache.step(Shares(40, 40), measured, DynCache(), most, least) == expected
