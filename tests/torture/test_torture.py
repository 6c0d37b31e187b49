"""The short run: every attack that CI has, for a moment each. `python -m tests.torture` has all of them, for longer."""

from __future__ import annotations

import pytest

from tests.torture import course, judge, plugin_course, runtimes, table
from tests.torture.attacks import ATTACKS, ROWS

SECONDS = 1.2
TIMEOUT_S = 1.0


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.short])
def test_a_node_withstands(name: str) -> None:
    outcome = course.run(ATTACKS[name], SECONDS, TIMEOUT_S)
    print(table.line(outcome))
    wrong = judge.faults(outcome)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [row.name for row in runtimes.ROWS if row.short])
def test_a_plugin_withstands(name: str) -> None:
    outcome = plugin_course.run(runtimes.ATTACKS[name])
    print(table.plugin_line(outcome))
    assert not outcome.wrong, "\n".join(outcome.wrong)
