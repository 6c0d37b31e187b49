"""The run of a table of hooks, whatever profile it is of."""

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


def test_of_two_hooks_that_set_one_thing_the_later_counts_and_both_are_told() -> None:
    outcome = decide([FIRST, LATER, OFF], CREATE, None, Rules())
    assert outcome.changes == Changes({"cpu.shares": 2, "cpu.cfs_quota": -1})
    assert [entry.hook for entry in outcome.because] == outcome.hooks == ["first", "later"]


def test_gates_say_which_decide() -> None:
    assert decide([FIRST, OFF], CREATE, None, Rules(gates=frozenset({"off"}))).changes == Changes({"cpu.bvt": 1})


def test_a_hook_that_fails_costs_no_other_unless_errors_fail_requests() -> None:
    outcome = decide([BROKEN, LATER], CREATE, None, Rules())
    assert (outcome.changes, outcome.failed) == (Changes({"cpu.cfs_quota": -1}), None)
    assert decide([BROKEN], CREATE, None, Rules(keeps_partial=True)).changes == Changes({"cpu.shares": 7})
    failed = decide([BROKEN, LATER], CREATE, None, Rules(fail=True))
    assert failed.failed is not None and failed.failed.hook == "broken" and not failed.changes


def test_what_runs_already_is_decided_as_it_was_and_switched_off_with_that() -> None:
    mended = hook("mended", Decision(Changes({"cpu.bvt": 2}), "x"), stage=UPDATE)
    assert decide([mended], RECONCILE_CONTAINER, None, Rules()).changes == Changes({"cpu.bvt": 2})
    assert not decide([mended], RECONCILE_CONTAINER, None, Rules(stages_off=frozenset({UPDATE}))).changes
    with pytest.raises(KeyError):
        decide([], "PreLunch", None, Rules())
