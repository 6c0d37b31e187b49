"""Pods and rounds of the loops on a machine of files, so many that each bound would be passed: nothing is left."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agent.loops.test_timer import held_after_rounds
from tests.unit.agent.transports.standalone.test_pods import held_after_pods


def test_nothing_is_left_of_2_000_pods(tmp_path: Path) -> None:
    assert held_after_pods(tmp_path, 2_000) == []


def test_nothing_is_left_after_1_500_rounds_of_the_loops(tmp_path: Path) -> None:
    assert held_after_rounds(tmp_path, 1_500) == []
