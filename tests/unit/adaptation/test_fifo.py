"""The lock that is passed on in the order of asking."""

from __future__ import annotations

import threading
import time

import pytest

from nri.adaptation.fifo import FifoLock
from nri.errors import DeadlineExceeded


def test_places_are_served_in_the_order_in_which_they_were_taken() -> None:
    lock = FifoLock()
    assert lock.place() is None, "a free lock is ours at once"
    tickets = [lock.place() for _ in range(5)]
    served: list[int] = []

    def wait(number: int) -> None:
        lock.wait(tickets[number])
        served.append(number)
        lock.release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in reversed(range(5))]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    lock.release()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4]


def test_a_place_that_is_given_up_at_its_deadline_is_skipped() -> None:
    lock = FifoLock()
    lock.acquire()
    with pytest.raises(DeadlineExceeded):
        lock.acquire(time.monotonic() + 0.01)
    next_in_line = lock.place()
    lock.release()
    lock.wait(next_in_line, time.monotonic() + 1)
    assert lock.waiting == 0
    lock.release()
    assert lock.place() is None


def test_a_turn_that_comes_together_with_the_deadline_is_not_lost() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = lock.place()
    lock.release()
    lock.wait(ticket, time.monotonic() - 1)
    lock.release()
    assert lock.place() is None, "the lock must be free again"


def test_an_interrupted_wait_leaves_no_place_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = FifoLock()
    lock.acquire()

    class Interrupted:
        def acquire(self, timeout: float) -> bool:
            raise KeyboardInterrupt

    ticket = Interrupted()
    lock._queue.append(ticket)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        lock.wait(ticket)  # type: ignore[arg-type]
    assert lock.waiting == 0


def test_a_place_may_be_left_before_its_turn_and_after_it() -> None:
    lock = FifoLock()
    first, second, third = lock.place(), lock.place(), lock.place()
    lock.leave(second)
    lock.leave(first)
    lock.wait(third, time.monotonic() + 1)
    lock.leave(None)
    assert lock.place() is None, "the lock must be free again"
