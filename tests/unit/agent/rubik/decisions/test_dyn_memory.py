"""memory.high of offline pods: its walk against an obvious model, and pods that change sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik.decisions import dyn_memory
from nri.agent.rubik.decisions.dyn_memory import MemoryHigh
from nri.agent.rubik.pods import PREEMPTIBLE, Pod

OFF = Pod("u", folder="p", labels={PREEMPTIBLE: "true"})


#: Percents of the memory that are free, and in how many readings in a row.
runs = st.lists(st.tuples(st.sampled_from([0, 9, 10, 11, 19, 20, 21, 60]), st.sampled_from([1, 2, 12, 13, 30])))


@given(st.integers(1000, 1 << 40), runs)
def test_the_walk_is_that_of_the_text(total: int, runs: list[tuple[int, int]]) -> None:
    assert dyn_memory.INTERVAL_S == 5
    walk, high, quiet = MemoryHigh(total), total * 8 // 10, 0
    for percent in (percent for percent, times in runs for _ in range(times)):
        free = total * percent // 100
        before = high
        if free < total // 10:
            high, quiet = max(high - total // 10, total * 3 // 10), 0
        elif free <= 2 * (total // 10):
            quiet = 0
        elif quiet == 12:
            high, quiet = min(high + total // 100, total * 8 // 10), 0
        else:
            quiet += 1
        assert walk.read(free) is (high != before)
        assert (walk.high, walk.quiet) == (high, quiet)


@pytest.mark.parametrize("total", [None, 0, -5])
def test_memory_that_is_not_known_is_an_error_of_the_configuration(total: int | None) -> None:
    with pytest.raises(ValueError, match="MemTotal"):
        MemoryHigh(total)


def test_a_pod_that_becomes_online_is_free_again() -> None:
    assert [each.value for each in dyn_memory.writes(OFF, OFF, 5)] == ["80", "5"]
    assert [(each.knob, each.value) for each in dyn_memory.writes(OFF, Pod("u", folder="p"), 5)] == [
        ("memory.high", "-1")
    ]
    assert dyn_memory.writes(Pod("u"), Pod("u"), 5) == []
