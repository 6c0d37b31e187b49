"""Steps with their undos: what is taken back after an error, in which order, and what is told."""

from __future__ import annotations

import pytest

from nri.engine.lifecycle.undo import Step, Undo, take_back
from nri.engine.support.errors import EngineError


def fail(error: Exception) -> object:
    raise error


def test_nothing_is_taken_back_where_nothing_fails() -> None:
    steps: list[str] = []
    with Undo("pod p") as undo:
        assert undo.step("one", lambda: 7, lambda: steps.append("undone")) == 7
    assert steps == []


def test_all_steps_and_the_one_that_failed_half_way_are_taken_back_the_last_one_first() -> None:
    steps: list[str] = []

    def work() -> None:
        with Undo("pod p") as undo:
            undo.step("one", lambda: None, lambda: steps.append("one"))
            undo.step("two", lambda: None, lambda: steps.append("two"))
            undo.step("three", lambda: fail(EngineError("no")), lambda: steps.append("three"))

    with pytest.raises(EngineError, match="no"):
        work()
    assert steps == ["three", "two", "one"]


def test_an_error_of_the_system_names_thing_and_step() -> None:
    with pytest.raises(EngineError, match=r"pod p: network: .*full"), Undo("pod p") as undo:
        undo.step("network", lambda: fail(OSError(28, "full")), lambda: None)


def test_an_undo_that_fails_stops_no_other_and_does_not_hide_the_error() -> None:
    steps: list[str] = []

    def work() -> None:
        with Undo("pod p") as undo:
            undo.step("one", lambda: None, lambda: steps.append("one"))
            undo.step("two", lambda: None, lambda: fail(OSError("stuck")))
            undo.step("three", lambda: fail(EngineError("first")), lambda: steps.append("three"))

    with pytest.raises(EngineError, match="first") as raised:
        work()
    assert steps == ["three", "one"]
    assert raised.value.__notes__ == ["not undone: two: stuck"]


def test_what_could_not_be_taken_back_is_told_by_step() -> None:
    steps = [Step("a", lambda: None, lambda: fail(EngineError("x"))), Step("b", lambda: None, lambda: None)]
    assert take_back(steps) == ["a: x"]


def test_an_undo_that_fails_unexpectedly_is_a_complaint_and_the_others_run() -> None:
    steps_ = list[str]()

    def broken() -> None:
        raise LookupError("no such zone")

    steps = [Step("first", int, lambda: steps_.append("first")), Step("second", int, broken)]
    assert take_back(steps) == ["second: LookupError: no such zone"]
    assert steps_ == ["first"]
