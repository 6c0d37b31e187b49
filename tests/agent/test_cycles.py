"""Ten thousand pods, and rounds of the loops, on a machine of files: nothing is left. Units have a tenth or less."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agent.loops.test_timer import rounds_go_by
from tests.unit.agent.transports.standalone.test_pods import pods_come_and_go


def test_nothing_is_left_of_10_000_pods(tmp_path: Path) -> None:
    pods_come_and_go(tmp_path, 10_000)


def test_nothing_is_left_after_10_000_rounds_of_the_loops(tmp_path: Path) -> None:
    rounds_go_by(tmp_path, 10_000)
