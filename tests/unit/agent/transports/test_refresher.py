"""The refresher thread: coalesced requests, retries and its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nri.agent.transports.refresher import Refresher
from nri.backoff import Backoff
from tests.support.waiting import PATIENCE_S


class Work:
    """The work of the thread: wait for `may`, then return or raise the next outcome."""

    def __init__(self, *outcomes: bool | Exception) -> None:
        self.outcomes, self.times = list(outcomes), 0
        self.may = threading.Semaphore(1000)
        self.begun = threading.Semaphore(0)

    def __call__(self) -> bool:
        self.times += 1
        self.begun.release()
        self.may.acquire()
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def agent_refresher() -> Iterator[list[Refresher]]:
    all_of_them: list[Refresher] = []
    yield all_of_them
    for entry in all_of_them:
        entry.stop()


def start(work: Work, agent_refresher: list[Refresher]) -> Refresher:
    refresher = Refresher(work, "a test's", Backoff(0.01, 0.02))
    agent_refresher.append(refresher)
    refresher.start()
    refresher.start()
    return refresher


def test_the_refresher_works_only_on_request_and_coalesces_requests(agent_refresher: list[Refresher]) -> None:
    work = Work()
    work.may = threading.Semaphore(0)
    refresher = start(work, agent_refresher)
    assert work.times == 0
    refresher.ask()
    assert work.begun.acquire(timeout=PATIENCE_S)
    for _ in range(10):
        refresher.ask()
    work.may.release(1000)
    assert work.begun.acquire(timeout=PATIENCE_S)
    assert not work.begun.acquire(timeout=0.2)
    assert work.times == 2


def test_unfinished_work_is_retried_until_it_is_done(
    agent_refresher: list[Refresher], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(False, RuntimeError("a defect"), True)
    start(work, agent_refresher).ask()
    for _ in range(3):
        assert work.begun.acquire(timeout=PATIENCE_S)
    assert not work.begun.acquire(timeout=0.2)
    assert "a defect" in caplog.text


def test_work_that_never_succeeds_is_retried_a_few_times_per_request(
    agent_refresher: list[Refresher], caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(*[False] * 100)
    refresher = start(work, agent_refresher)
    for requested in (1, 2):
        refresher.ask()
        for _ in range(5):
            assert work.begun.acquire(timeout=PATIENCE_S)
        assert not work.begun.acquire(timeout=0.2)
        assert caplog.text.count("next attempt follows a change of rules") == requested


def test_the_refresher_can_be_stopped_during_a_pause_and_restarted(agent_refresher: list[Refresher]) -> None:
    work = Work(False)
    refresher = Refresher(work, "a test's", Backoff(1000.0, 1000.0, uniform=lambda: 0.999))
    agent_refresher.append(refresher)
    refresher.stop()
    refresher.start()
    refresher.ask()
    assert work.begun.acquire(timeout=PATIENCE_S)
    refresher.stop()
    assert not [entry for entry in threading.enumerate() if entry.name == "a test's"]
    refresher.start()
    refresher.ask()
    assert work.begun.acquire(timeout=PATIENCE_S)
