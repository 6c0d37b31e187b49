"""A question that is asked again and again."""

import threading

import pytest

from nri.agent.poll import Poll


def test_it_is_asked_at_once_and_again_until_it_is_stopped() -> None:
    asked = threading.Semaphore(0)
    poll = Poll(asked.release, 0.01, "test")
    poll.start()
    poll.start()
    assert all(asked.acquire(timeout=5) for _ in range(3))
    poll.stop()
    poll.stop()
    while asked.acquire(blocking=False):
        pass
    assert not asked.acquire(timeout=0.1)


def test_an_error_is_told_and_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    asked = threading.Semaphore(0)

    def ask() -> None:
        asked.release()
        raise ValueError("odd")

    poll = Poll(ask, 0.01, "test")
    poll.start()
    assert all(asked.acquire(timeout=5) for _ in range(3))
    poll.stop()
    assert "odd" in caplog.text


def test_it_may_stop_itself_and_begin_again() -> None:
    asked = threading.Semaphore(0)
    poll = Poll(lambda: (asked.release(), poll.stop()), 0.01, "test")
    poll.start()
    assert asked.acquire(timeout=5)
    poll.stop()
    poll.start()
    assert asked.acquire(timeout=5)
    poll.stop()
