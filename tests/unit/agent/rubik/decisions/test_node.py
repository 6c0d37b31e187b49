"""The node's use between two readings."""

from __future__ import annotations

from nri.agent.rubik.decisions.node import Ticks, share


def test_a_reading_that_goes_back_is_no_time_in_use() -> None:
    assert share(Ticks(10, 20), Ticks(5, 30)) == 0
    assert share(Ticks(10, 20), Ticks(15, 20)) == 100
    assert share(Ticks(0, 0), Ticks(1, 4)) == 25
