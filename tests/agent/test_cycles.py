"""Thousands of pods and rounds on a file tree, more than each bound of the agent's state: no state remains."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agent.loops.test_timer import held_after_rounds
from tests.unit.agent.transports.standalone.test_pods import held_after_pods


def test_two_thousand_removed_pods_leave_no_state(tmp_path: Path) -> None:
    assert held_after_pods(tmp_path, 2_000) == []


def test_rounds_of_the_loops_1_500_times_leave_no_state(tmp_path: Path) -> None:
    assert held_after_rounds(tmp_path, 1_500) == []
