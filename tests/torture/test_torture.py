"""A short run of every attack for CI. `python -m tests.torture` runs all of them for longer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.torture import course, judge, plugin_course, runtimes, table
from tests.torture.attacks import ATTACKS, ROWS
from tests.torture.known import KNOWN
from tests.torture.stillness import faults_of

SECONDS = 1.2
TIMEOUT_S = 1.0
#: Seconds. A longer standstill of the machine is not an outcome of an attack.
STILL_S = judge.SLACK_S


def marked(rows: Iterable[Any]) -> list[Any]:
    """The names of the short run; those that are known not to hold yet must fail."""
    matches = []
    for row in rows:
        if row.short:
            reason = KNOWN.get(row.name)
            matches.append(
                pytest.param(row.name, marks=[pytest.mark.xfail(reason=reason, strict=True)] if reason else [])
            )
    return matches


@pytest.mark.parametrize("name", marked(ROWS))
def test_a_node_withstands_the_attack(name: str) -> None:
    def run() -> list[str]:
        outcome = course.run(ATTACKS[name], SECONDS, TIMEOUT_S)
        print(table.line(outcome))
        return judge.faults(outcome)

    wrong = faults_of(run, STILL_S)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["updates", "empty-entries"])
def test_a_second_flood_adds_almost_no_memory(name: str) -> None:
    attack, holder = ATTACKS[name], list[int]()

    def run() -> list[str]:
        with course.Setting(attack, TIMEOUT_S) as setting:
            outcomes = [setting.run(attack, SECONDS) for _ in range(3)]
        holder[:] = [outcome.after["memory"] >> 10 for outcome in outcomes]
        return [fault for outcome in outcomes for fault in judge.faults(outcome)]

    assert not faults_of(run, STILL_S)
    assert holder[2] - holder[0] <= 24, f"MiB after each: {holder}"


def test_an_attack_with_several_plugins_starts_after_all_have_joined() -> None:
    attack = replace(ATTACKS["too-large-for-the-next"], node={"snapshot_s": 2 * SECONDS})
    outcome = course.run(attack, SECONDS, TIMEOUT_S)
    assert outcome.refused, "the plugins had no time to join, and nothing was refused"


@pytest.mark.parametrize("name", marked(runtimes.ROWS))
def test_a_plugin_withstands_the_attack(name: str) -> None:
    outcome = plugin_course.run(runtimes.ATTACKS[name])
    print(table.plugin_line(outcome))
    assert not outcome.wrong, "\n".join(outcome.wrong)


def test_known_failures_are_attacks() -> None:
    assert set(KNOWN) <= ATTACKS.keys() | runtimes.ATTACKS.keys()
