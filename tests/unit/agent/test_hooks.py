"""Running the table of hooks, independent of the profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from nri.agent.hooks import CREATE, RECONCILE_CONTAINER, UPDATE, Hook, decide
from nri.agent.model import Changes, Decision, HookError


@dataclass(frozen=True)
class Rules:
    gates: frozenset[str] | None = None
    fail: bool = False
    stages_off: frozenset[str] = frozenset()
    keeps_partial: bool = False


def hook(name: str, decision: Decision | HookError, *, default: bool = True, stage: str = CREATE) -> Hook:
    def decides(_context: Any, _rules: Any) -> Decision:
        if isinstance(decision, HookError):
            raise decision
        return decision

    return Hook(name, default, (), (), {stage: decides})


FIRST = hook("first", Decision(Changes({"cpu.shares": 2, "cpu.cfs_quota": 1000}), "one"))
LATER = hook("later", Decision(Changes({"cpu.cfs_quota": -1}), "two"))
BROKEN = hook("broken", HookError("broken", "its annotation", Changes({"cpu.shares": 7})))
OFF = hook("off", Decision(Changes({"cpu.bvt": 1}), "three"), default=False)


def test_of_two_hooks_with_one_field_the_later_wins_and_both_are_reported() -> None:
    outcome = decide([FIRST, LATER, OFF], CREATE, None, Rules())
    assert outcome.changes == Changes({"cpu.shares": 2, "cpu.cfs_quota": -1})
    assert [entry.hook for entry in outcome.because] == outcome.hooks == ["first", "later"]


def test_gates_enable_hooks() -> None:
    assert decide([FIRST, OFF], CREATE, None, Rules(gates=frozenset({"off"}))).changes == Changes({"cpu.bvt": 1})


def test_a_failed_hook_does_not_affect_others_unless_errors_fail_requests() -> None:
    outcome = decide([BROKEN, LATER], CREATE, None, Rules())
    assert (outcome.changes, outcome.failed) == (Changes({"cpu.cfs_quota": -1}), None)
    assert decide([BROKEN], CREATE, None, Rules(keeps_partial=True)).changes == Changes({"cpu.shares": 7})
    failed = decide([BROKEN, LATER], CREATE, None, Rules(fail=True))
    assert failed.failed is not None and failed.failed.hook == "broken" and not failed.changes


def test_reconciling_a_container_follows_its_update_stage_and_its_switch() -> None:
    update_hook = hook("update", Decision(Changes({"cpu.bvt": 2}), "x"), stage=UPDATE)
    assert decide([update_hook], RECONCILE_CONTAINER, None, Rules()).changes == Changes({"cpu.bvt": 2})
    assert not decide([update_hook], RECONCILE_CONTAINER, None, Rules(stages_off=frozenset({UPDATE}))).changes
    with pytest.raises(KeyError):
        decide([], "PreLunch", None, Rules())
