"""Ten thousand pods, and rounds of the loops, on a machine of files: nothing is left. Units have a tenth or less."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agent.loops.test_timer import held_after_rounds
from tests.unit.agent.transports.standalone.test_pods import held_after_pods


def test_nothing_is_left_of_10_000_pods(tmp_path: Path) -> None:
    assert held_after_pods(tmp_path, 10_000) == []


def test_nothing_is_left_after_10_000_rounds_of_the_loops(tmp_path: Path) -> None:
    assert held_after_rounds(tmp_path, 10_000) == []
