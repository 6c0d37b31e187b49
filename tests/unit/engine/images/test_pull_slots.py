"""Which pulls run at a time, and when a pull counts as slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from nri.engine.images.pull_slots import MAX_PULLS, PullSlots
from nri.engine.images.pull_timer import COPYING, UNPACKING, PullTimer
from nri.engine.support.errors import CommandTimeout, TooMany


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock_ = Clock()
    monkeypatch.setattr(time, "monotonic", clock_)
    return clock_


def new_timer(name: str = "a:1") -> PullTimer:
    return PullTimer(name, 60, 1000)


def test_each_step_has_its_own_progress_and_the_pull_one_deadline(clock: Clock) -> None:
    timer = new_timer()
    clock.now += 500
    timer.start()
    assert timer.remaining_s() == 1000
    timer.start_step(COPYING)
    for done_bytes in (0, 1, 2):
        clock.now += 60
        timer.check(done_bytes)
    timer.start_step(UNPACKING)
    clock.now += 60
    timer.check(2)
    clock.now += 60.5
    with pytest.raises(CommandTimeout, match=r"^pulling a:1: unpacking without progress: still running after 60 s"):
        timer.check(2)
    clock.now += 1000
    with pytest.raises(CommandTimeout, match=r"^pulling a:1: still running after 1000 s"):
        timer.check(3)


def test_a_copy_is_slow_while_it_moves_few_bytes_and_unpacking_never_is(clock: Clock) -> None:
    timer = new_timer()
    assert not timer.is_slow
    clock.now += 6
    assert timer.is_slow
    timer.start_step(COPYING)
    for done_bytes in (100_000, 200_000):
        clock.now += 4
        timer.check(done_bytes)
    assert timer.is_slow
    timer.check(2_000_000)
    assert not timer.is_slow
    timer.start_step(UNPACKING)
    clock.now += 50
    assert not timer.is_slow


class SeenTimer(PullTimer):
    """Notes the threads that wait for this running pull: each asks whether the pull is slow."""

    def __init__(self) -> None:
        self.waiting: set[threading.Thread] = set()
        super().__init__("a:1", 60, 1000)

    @property
    def is_slow(self) -> bool:
        self.waiting.add(threading.current_thread())
        return super().is_slow


class Pulls:
    """Pulls that run until the test ends them."""

    def __init__(self, slots: PullSlots) -> None:
        self.slots, self._stack = slots, ExitStack()
        self.order: list[str] = []
        self._threads: list[threading.Thread] = []
        self.go = threading.Event()

    def hold(self, name: str, wait_s: float = 0, timer: PullTimer | None = None) -> ExitStack:
        """Start a pull; its registry is the name up to the first slash."""
        stack = ExitStack()
        stack.enter_context(self.slots.hold(name, name.partition("/")[0], timer or new_timer(name), wait_s))
        self._stack.push(stack)
        return stack

    def queue(self, name: str, running: SeenTimer) -> None:
        """Have a thread wait for its slot, note its name, and hold the slot until `go`."""

        def work() -> None:
            with self.slots.hold(name, name.partition("/")[0], new_timer(name), 30):
                self.order.append(name)
                assert self.go.wait(30)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()
        deadline = time.monotonic() + 10
        while self._threads[-1] not in running.waiting:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def wait_started(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.order) < count:
            assert time.monotonic() < deadline, self.order
            time.sleep(0.001)

    def close(self) -> None:
        self.go.set()
        self._stack.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def pulls() -> Iterator[Pulls]:
    pulls_ = Pulls(PullSlots())
    try:
        yield pulls_
    finally:
        pulls_.close()


def test_one_registry_leaves_a_slot_to_others(pulls: Pulls) -> None:
    for number in range(3):
        pulls.hold(f"bad/{number}")
    with pytest.raises(TooMany, match=r"pulls to start bad/4; running pulls: bad/0, bad/1, bad/2: at most 3"):
        pulls.hold("bad/4")
    pulls.hold("good/1")
    with pytest.raises(TooMany, match=r"to start good/2; .*at most 4"):
        pulls.hold("good/2")


def test_slow_pulls_leave_their_slots_to_others_up_to_a_number(pulls: Pulls, clock: Clock) -> None:
    for number in range(4):
        pulls.hold(f"bad{number}/x")
    with pytest.raises(TooMany, match="at most 4"):
        pulls.hold("good/1")
    clock.now += 6
    for number in range(4, MAX_PULLS):
        pulls.hold(f"bad{number}/x")
        clock.now += 6
    with pytest.raises(TooMany, match=f"at most {MAX_PULLS}"):
        pulls.hold("good/1")


def test_the_registry_with_the_fewest_pulls_is_next_then_the_oldest_pull(pulls: Pulls) -> None:
    timer = SeenTimer()
    first = [pulls.hold(name, timer=timer) for name in ("a/1", "a/2", "b/1", "b/2")]
    for name in ("a/3", "a/4", "b/3", "c/1", "c/2"):
        pulls.queue(name, timer)
    for count, stack in enumerate(first, 1):
        stack.close()
        pulls.wait_started(count)
    assert pulls.order == ["c/1", "a/3", "a/4", "b/3"]


def test_a_waiting_pull_notices_that_a_running_one_became_slow(pulls: Pulls, clock: Clock) -> None:
    for number in range(4):
        pulls.hold(f"bad{number}/x")
    timer = threading.Timer(0.05, lambda: setattr(clock, "now", clock.now + 6))
    timer.start()
    pulls.hold("good/1", wait_s=30)
    timer.join()
