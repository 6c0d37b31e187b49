"""Rounds are coalesced, run by the clock and end on request."""

from __future__ import annotations

import threading

import pytest

from nri.agent.worker import TIMER, Worker
from tests.support.waiting import wait_for


class Rounds:
    """Work that can be held up."""

    def __init__(self) -> None:
        self.reasons: list[frozenset[str]] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.fail = False

    def __call__(self, reasons: frozenset[str]) -> None:
        self.reasons.append(reasons)
        self.begun.set()
        self.go.wait(10)
        if self.fail:
            raise RuntimeError("no luck")


def test_many_changes_during_a_round_cause_one_more_round() -> None:
    work = Rounds()
    worker = Worker("test", work, 3600)
    work.go.clear()
    worker.start()
    assert work.begun.wait(20)
    for _ in range(50):
        worker.request_run("pods")
    worker.request_run("rules")
    work.go.set()
    wait_for(lambda: worker.rounds == 2)
    assert work.reasons == [frozenset({TIMER}), frozenset({"pods", "rules"})]
    assert worker.stop()


def test_the_clock_alone_starts_rounds() -> None:
    work = Rounds()
    worker = Worker("test", work, 0.01)
    worker.start()
    wait_for(lambda: worker.rounds >= 3)
    assert worker.stop()
    assert set(work.reasons) == {frozenset({TIMER})}


def test_a_round_longer_than_many_intervals_is_followed_by_one_round() -> None:
    clock, reasons = [0.0], list[frozenset[str]]()

    def work(why: frozenset[str]) -> None:
        reasons.append(why)
        if len(reasons) == 1:
            clock[0] += 1000.0
        elif len(reasons) == 2:
            worker.request_run("something")

    worker = Worker("test", work, 10.0, now=lambda: clock[0])
    worker.start()
    wait_for(lambda: worker.rounds >= 3)
    worker.stop()
    assert reasons == [frozenset({TIMER}), frozenset({TIMER}), frozenset({"something"})]


def test_an_error_ends_the_round_but_not_the_thread() -> None:
    work = Rounds()
    work.fail = True
    worker = Worker("test", work, 3600)
    worker.start()
    wait_for(lambda: worker.rounds == 1)
    assert worker.error == "RuntimeError: no luck"
    work.fail = False
    worker.request_run("again")
    wait_for(lambda: worker.rounds == 2)
    assert worker.error == ""
    worker.stop()


def test_a_worker_can_be_started_and_stopped_twice_and_leaves_no_thread() -> None:
    before = threading.active_count()
    worker = Worker("test", Rounds(), 3600)
    worker.stop()
    worker.start()
    worker.start()
    wait_for(lambda: worker.rounds == 1)
    assert worker.stop() and worker.stop()
    assert threading.active_count() <= before
    worker.start()
    wait_for(lambda: worker.rounds == 2)
    assert worker.stop()


def test_a_round_that_hangs_does_not_block_stop() -> None:
    work = Rounds()
    work.go.clear()
    worker = Worker("test", work, 3600)
    worker.start()
    assert work.begun.wait(20)
    assert not worker.stop(timeout_s=0.05)
    work.go.set()


def test_an_error_is_stored_as_one_line_of_bounded_length() -> None:
    def work(_: object) -> None:
        raise ValueError("a\nready  all: well" + "x" * 100_000)

    worker = Worker("test", work, 3600)
    worker.start()
    wait_for(lambda: worker.error)
    worker.stop()
    assert worker.error.startswith("ValueError: a\\nready")
    assert len(worker.error) <= 300


def test_a_repeated_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    work = Rounds()
    work.fail = True
    worker = Worker("test", work, 0.001)
    worker.start()
    wait_for(lambda: worker.rounds > 5)
    worker.stop()
    assert caplog.text.count("a run failed") == 1
