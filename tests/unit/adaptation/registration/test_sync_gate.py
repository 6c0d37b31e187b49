"""The gate that synchronizes events and joining plugins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

import pytest

from nri.adaptation.registration import sync_gate
from nri.adaptation.registration.sync_gate import SyncGate
from nri.errors import DeadlineExceeded
from tests.support.waiting import wait_for


def enter(gate: SyncGate, *, urgent: bool = False, patience_s: float = 20.0, deadline: float | None = None) -> bool:
    return gate.enter(urgent=urgent, deadline=deadline, patience_s=patience_s)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, threading.Event]:
    finished = threading.Event()

    def run() -> None:
        work()
        finished.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, finished


def join(gate: SyncGate) -> None:
    assert gate.join(lambda: False)


def test_several_events_pass_at_the_same_time() -> None:
    gate = SyncGate()
    assert enter(gate)
    assert enter(gate)
    gate.leave()
    gate.leave()


def test_a_joiner_waits_for_events_and_blocks_to_end() -> None:
    gate = SyncGate()
    enter(gate)
    block = gate.block()
    thread, finished = in_thread(lambda: join(gate))
    gate.leave()
    assert not finished.wait(0.05), "a block must keep plugins from joining"
    block.release()
    assert finished.wait(5)
    gate.joined()
    thread.join()


def test_an_event_waits_for_an_active_joiner() -> None:
    gate = SyncGate()
    join(gate)
    thread, finished = in_thread(lambda: enter(gate))
    assert not finished.wait(0.05)
    gate.joined()
    assert finished.wait(5)
    thread.join()


def test_an_event_passes_a_hanging_joiner() -> None:
    gate = SyncGate()
    join(gate)
    assert enter(gate, patience_s=0.02) is False, "a synchronize() that hangs must not hang events"
    with pytest.raises(DeadlineExceeded):
        enter(gate, deadline=time.monotonic() + 0.02)


def test_a_waiting_joiner_delays_ordinary_events_and_blocks_but_not_urgent_ones() -> None:
    gate = SyncGate(preference_s=30.0)
    enter(gate)
    joiner, joined = in_thread(lambda: join(gate))
    wait_for(lambda: gate.waiting, "the joiner waits")
    blocked, finished = in_thread(gate.block)
    assert not finished.wait(0.05), "joiners must not be starved"
    assert enter(gate, urgent=True), "Stop and Remove must not wait for a joiner"
    gate.leave()
    gate.block(urgent=True).release()
    gate.leave()
    assert joined.wait(5)
    gate.joined()
    assert finished.wait(5)
    for thread in (joiner, blocked):
        thread.join()


def test_an_event_inside_a_block_never_waits_for_a_waiting_joiner() -> None:
    gate = SyncGate(preference_s=30.0)
    with gate.block():
        joiner, joined = in_thread(lambda: join(gate))
        wait_for(lambda: gate.waiting, "the joiner waits")
        assert enter(gate, deadline=time.monotonic() + 5), "this would be a deadlock"
        gate.leave()
    assert joined.wait(5)
    gate.joined()
    joiner.join()


def test_a_long_request_delays_the_joiner_but_not_other_requests() -> None:
    gate = SyncGate(preference_s=0.05)
    slow = gate.block(urgent=True)
    joiner, joined = in_thread(lambda: join(gate))
    wait_for(lambda: gate.waiting, "the joiner waits")
    gate.block(deadline=time.monotonic() + 10).release()
    assert not joined.is_set()
    slow.release()
    assert joined.wait(5)
    gate.joined()
    joiner.join()


def test_releasing_a_block_twice_does_nothing() -> None:
    gate = SyncGate()
    block = gate.block()
    block.release()
    block.release()
    with gate.block():
        thread, finished = in_thread(lambda: join(gate))
        assert not finished.wait(0.05), "the second release must not count for another block"
    assert finished.wait(5)
    thread.join()


def test_a_joiner_gives_up_when_the_runtime_stops() -> None:
    gate = SyncGate(preference_s=0.02)
    enter(gate)
    assert gate.join(lambda: True) is False


def test_an_idle_callback_waits_for_the_last_event() -> None:
    finished: list[int] = []
    gate = SyncGate()
    enter(gate)
    enter(gate)
    gate.when_idle(lambda: finished.append(1))
    gate.leave()
    assert finished == []
    gate.leave()
    assert finished == [1]


def test_an_idle_callback_runs_at_once_without_active_events() -> None:
    finished: list[int] = []
    SyncGate().when_idle(lambda: finished.append(1))
    assert finished == [1]


class Joiners:
    """Joiners that come back all the time, each inside for some time."""

    def __init__(self, gate: SyncGate, count: int, seconds: float) -> None:
        self.turns = 0
        self._gate = gate
        self._seconds = seconds
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def _run(self) -> None:
        while self._gate.join(self._stop.is_set):
            self.turns += 1
            time.sleep(self._seconds)
            self._gate.joined()
            if self._stop.is_set():
                return

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.turns >= 2, "they have begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_continuous_joiners_starve_neither_blocks_nor_events() -> None:
    gate = SyncGate(preference_s=30.0)
    waited: list[int] = []
    with Joiners(gate, 16, 0.005) as joiners:
        for _ in range(20):
            before = joiners.turns
            gate.block(deadline=time.monotonic() + 15).release()
            waited.append(joiners.turns - before)
            before = joiners.turns
            assert enter(gate, patience_s=15), "an event must get its turn while joiners wait"
            gate.leave()
            waited.append(joiners.turns - before)
        assert sorted(waited)[20] < 16, f"and not behind all of them each time: {waited}"
        before = joiners.turns
        wait_for(lambda: joiners.turns > before + 20, "joiners get turns as well")


def test_waiting_events_and_blocks_pass_before_the_next_joiner() -> None:
    gate = SyncGate(preference_s=30.0)
    join(gate)
    order: list[str] = []
    event, event_in = in_thread(lambda: (enter(gate), order.append("event")))
    block, block_in = in_thread(lambda: (gate.block(), order.append("block")))
    wait_for(lambda: gate.held_events == gate.held_blocks == 1, "both wait")
    second, second_in = in_thread(lambda: (join(gate), order.append("joiner")))
    wait_for(lambda: gate.waiting, "the second joiner waits")
    gate.joined()
    assert event_in.wait(5)
    assert block_in.wait(5)
    assert not second_in.wait(0.05), "a joiner has passed those who waited longer"
    gate.leave()
    gate.unblock()
    assert second_in.wait(5)
    assert order[-1] == "joiner"
    gate.joined()
    for thread in (event, block, second):
        thread.join()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By how many seconds the clock is ahead; a test sets it."""
    ahead = [0.0]
    monkeypatch.setattr(sync_gate, "monotonic", lambda: time.monotonic() + ahead[0])
    return ahead


def test_joiners_pause_for_as_long_as_they_delayed_others(later: list[float]) -> None:
    gate = SyncGate(preference_s=30.0)
    join(gate)
    later[0] = 20.0
    gate.joined()
    joiner, joined = in_thread(lambda: join(gate))
    wait_for(lambda: gate.waiting, "the next joiner waits")
    assert enter(gate, patience_s=0.0), "an event need not wait: it is not the joiner's time yet"
    gate.leave()
    assert 10.0 < gate.paused_until - time.monotonic() - later[0] <= 21.0
    later[0] += 21.0
    assert joined.wait(5)
    gate.joined()
    joiner.join()


def test_a_pause_that_ends_during_a_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    class Noted(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", Noted)
        gate = SyncGate()
    gate.pause_joiners(0.05)

    def slow_look() -> bool:
        time.sleep(0.1)  # the rest is over when the joiner begins to wait
        return False

    assert gate.join(slow_look)
    assert [wait_ for wait_ in waits if wait_ is None or wait_ > 0.05] == [], "it waits for a notice that never comes"


def test_a_joiner_that_returns_has_no_new_priority(later: list[float]) -> None:
    gate = SyncGate(preference_s=30.0)
    stop = threading.Event()
    enter(gate)  # some long request
    joiner, removed = in_thread(lambda: gate.join(stop.is_set))
    wait_for(lambda: gate.waiting, "the joiner waits")
    later[0] = 20.0
    stop.set()
    enter(gate, urgent=True)
    gate.leave()
    assert removed.wait(5)
    stop.clear()
    second, joined = in_thread(lambda: gate.join(stop.is_set))
    wait_for(lambda: gate.waiting, "it has come back")
    gate.block(
        deadline=time.monotonic() + later[0] + 0.02
    ).release()  # passes: DeadlineExceeded if the way had begun anew
    gate.leave()
    later[0] += 60.0
    assert joined.wait(5)
    gate.joined()
    for thread in (joiner, second):
        thread.join()


def test_a_block_that_reaches_its_deadline_keeps_no_joiner_out() -> None:
    gate = SyncGate()
    join(gate)
    with pytest.raises(DeadlineExceeded):
        gate.block(deadline=time.monotonic() + 0.02)
    gate.joined()
    join(gate)
    gate.joined()


@pytest.mark.pure
@pytest.mark.parametrize("let_in", [False, True], ids=["still waiting", "let in at that moment"])
@pytest.mark.parametrize("what", ["event", "block"])
def test_an_interrupted_wait_leaves_no_entry(monkeypatch: pytest.MonkeyPatch, what: str, let_in: bool) -> None:
    class Interrupted(threading.Condition):
        """The wait ends with Ctrl-C, perhaps just when the joiner has ended."""

        def wait(self, timeout: float | None = None) -> bool:
            if let_in:
                self.release()
                gate.joined()
                self.acquire()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", Interrupted)
        gate = SyncGate()
    join(gate)
    with pytest.raises(KeyboardInterrupt):
        enter(gate) if what == "event" else gate.block()
    if not let_in:
        gate.joined()
    assert (gate.events, gate.blocks, gate.held_events, gate.held_blocks) == (0, 0, 0, 0)
