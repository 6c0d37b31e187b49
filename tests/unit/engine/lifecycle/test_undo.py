"""Steps with undo functions, and their order after an error."""

from __future__ import annotations

import pytest

from nri.engine.lifecycle.undo import Step, Undo, take_back
from nri.engine.support.errors import EngineError


def fail(error: Exception) -> object:
    raise error


def test_without_an_error_no_step_is_undone() -> None:
    steps: list[str] = []
    with Undo("pod p") as undo:
        assert undo.step("one", lambda: 7, lambda: steps.append("undone")) == 7
    assert steps == []


def test_after_an_error_all_steps_are_undone_in_reverse_order() -> None:
    steps: list[str] = []

    def work() -> None:
        with Undo("pod p") as undo:
            undo.step("one", lambda: None, lambda: steps.append("one"))
            undo.step("two", lambda: None, lambda: steps.append("two"))
            undo.step("three", lambda: fail(EngineError("no")), lambda: steps.append("three"))

    with pytest.raises(EngineError, match="no"):
        work()
    assert steps == ["three", "two", "one"]


def test_a_system_error_names_object_and_step() -> None:
    with pytest.raises(EngineError, match=r"pod p: network: .*full"), Undo("pod p") as undo:
        undo.step("network", lambda: fail(OSError(28, "full")), lambda: None)


def test_a_failed_undo_does_not_affect_others_or_hide_the_error() -> None:
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


def test_failed_undos_are_reported_by_step() -> None:
    steps = [Step("a", lambda: None, lambda: fail(EngineError("x"))), Step("b", lambda: None, lambda: None)]
    assert take_back(steps) == ["a: x"]


def test_an_unexpected_error_of_an_undo_is_reported_and_the_others_run() -> None:
    steps_ = list[str]()

    def broken() -> None:
        raise LookupError("no such zone")

    steps = [Step("first", int, lambda: steps_.append("first")), Step("second", int, broken)]
    assert take_back(steps) == ["second: LookupError: no such zone"]
    assert steps_ == ["first"]
