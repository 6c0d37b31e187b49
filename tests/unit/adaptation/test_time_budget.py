"""The rules for waiting from the table at the head of `nri.adaptation.time_budget`."""

from __future__ import annotations

import pytest

from nri.adaptation.time_budget import SilenceBudget, answer_deadline, check_deadline, turn_deadline, turn_limit_s
from nri.errors import DeadlineExceeded

NOW = 1000.0


@pytest.mark.parametrize(
    ("timeout_s", "deadline", "expected"),
    [
        (2.0, None, NOW + 2.0),
        (2.0, NOW + 5.0, NOW + 2.0),
        (2.0, NOW + 0.5, NOW + 0.5),
        (2.0, NOW - 1.0, NOW - 1.0),
    ],
)
def test_an_answer_has_the_plugins_timeout_limited_by_the_callers_deadline(
    timeout_s: float, deadline: float | None, expected: float
) -> None:
    assert answer_deadline(NOW, timeout_s, deadline) == expected


@pytest.mark.parametrize(
    ("limit_s", "deadline", "expected"),
    [
        (turn_limit_s(2.0), None, NOW + 4.0),
        (turn_limit_s(2.0), NOW + 9.0, NOW + 4.0),
        (turn_limit_s(2.0), NOW + 1.0, NOW + 1.0),
        (0.0, None, None),
        (0.0, NOW + 1.0, NOW + 1.0),
    ],
)
def test_a_turn_at_a_busy_plugin_is_limited_to_two_of_its_timeouts(
    limit_s: float, deadline: float | None, expected: float | None
) -> None:
    assert turn_deadline(NOW, limit_s, deadline) == expected


@pytest.mark.parametrize(
    ("borne_s", "expected"),
    [
        (0.0, 2.0),
        (0.5, 2.0),
        (1.0, 2.0),
        (2.0, 1.0),
        (2.9, 0.1),
        (2.9995, 0.0),
        (3.0, 0.0),
        (8.0, 0.0),
    ],
)
def test_an_event_spends_at_most_1_5_timeouts_on_a_silent_plugin(borne_s: float, expected: float) -> None:
    budget = SilenceBudget()
    budget.start_waiting("10-a", 7.0)
    assert budget.remaining_s("10-a", 7.0 + borne_s, 2.0) == pytest.approx(expected)


def test_silence_before_the_event_waited_is_not_counted() -> None:
    budget = SilenceBudget()
    assert budget.remaining_s("10-a", 100.0, 2.0) == 2.0
    budget.start_waiting("10-a", 100.0)
    budget.start_waiting("10-a", 101.0)
    assert not budget.has_lost_time("10-a", 100.0)
    assert budget.has_lost_time("10-a", 101.0), "the first sum counts"
    assert not budget.has_lost_time("20-b", 5.0)


def test_every_plugin_has_a_budget_that_a_copy_continues() -> None:
    creation = SilenceBudget()
    creation.start_waiting("10-a", 0.0)
    validation = creation.copy()
    validation.start_waiting("20-b", 0.0)
    assert validation.remaining_s("10-a", 2.0, 2.0) == 1.0
    assert validation.remaining_s("20-b", 1.0, 2.0) == 2.0
    assert not creation.has_lost_time("20-b", 9.0), "the budget of the first event has not changed"


def test_a_plugin_that_was_not_waited_for_has_its_whole_timeout() -> None:
    assert SilenceBudget().remaining_s("10-a", 0.0, 0.0001) == 0.0001


def test_an_event_ends_after_its_callers_deadline() -> None:
    check_deadline("StartContainer", NOW, NOW + 0.001)
    with pytest.raises(DeadlineExceeded, match="StartContainer"):
        check_deadline("StartContainer", NOW, NOW)
