"""Turns at plugins: a first-in-first-out lock, and an event's place in the queues."""

from __future__ import annotations

import threading
import time

import pytest

from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.turns import FifoLock, Place, Ticket
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import DeadlineExceeded


def test_tickets_are_served_in_order() -> None:
    lock = FifoLock()
    assert lock.place() is None, "a free lock is acquired at once"
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


def test_a_ticket_that_reaches_its_deadline_is_skipped() -> None:
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


def test_a_turn_that_arrives_at_the_deadline_is_not_lost() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = lock.place()
    lock.release()
    lock.wait(ticket, time.monotonic() - 1)
    lock.release()
    assert lock.place() is None, "the lock must be free again"


@pytest.mark.pure
def test_an_interrupted_wait_leaves_no_ticket() -> None:
    lock = FifoLock()
    lock.acquire()

    class Interrupted(Ticket):
        def wait(self, timeout_s: float = -1.0) -> bool:
            raise KeyboardInterrupt

    ticket = Interrupted()
    lock.queue.append(ticket)
    with pytest.raises(KeyboardInterrupt):
        lock.wait(ticket)
    assert lock.waiting == 0


def test_a_ticket_can_be_left_before_and_after_its_turn() -> None:
    lock = FifoLock()
    first, second, third = lock.place(), lock.place(), lock.place()
    lock.leave(second)
    lock.leave(first)
    lock.wait(third, time.monotonic() + 1)
    lock.leave(None)
    assert lock.place() is None, "the lock must be free again"


def queued(lock: FifoLock) -> Ticket:
    ticket = lock.place()
    assert ticket is not None, "the lock was free"
    return ticket


def test_the_releasing_thread_starts_the_next_request() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = queued(lock)
    ticket.begin = threading.current_thread
    releasing = threading.Thread(target=lock.release)
    releasing.start()
    lock.wait(ticket, time.monotonic() + 10)
    assert ticket.begin_result is releasing


def test_an_error_of_a_start_still_passes_the_turn_on() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = queued(lock)

    def fail() -> None:
        raise OSError("no")

    ticket.begin = fail
    with pytest.raises(OSError, match="no"):
        lock.release()
    lock.wait(ticket, time.monotonic() + 10)
    assert ticket.begin_result is None
    lock.release()
    assert lock.place() is None, "the lock must be free again"


def test_an_abandoned_ticket_starts_nothing() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = queued(lock)
    ticket.begin = lambda: "begin_result"
    lock.leave(ticket)
    lock.release()
    assert ticket.begin_result is None


def test_a_wait_that_ends_during_the_start_sees_its_result() -> None:
    lock = FifoLock()
    lock.acquire()
    ticket = queued(lock)
    inside, go = threading.Event(), threading.Event()

    def begin() -> str:
        inside.set()
        assert go.wait(10)
        return "begin_result"

    ticket.begin = begin
    releasing = threading.Thread(target=lock.release)
    releasing.start()
    assert inside.wait(10)
    threading.Timer(0.05, go.set).start()
    lock.wait(ticket, time.monotonic() - 1)
    assert ticket.begin_result == "begin_result"
    releasing.join()


@pytest.mark.parametrize(
    ("waiting", "comes_at"),
    [
        ([("a", False), ("b", False)], 0),
        ([("mine", False), ("b", False)], 1),
        ([("a", False), ("mine", False), ("b", False)], 2),
        ([("a", True), ("b", False)], 1),
    ],
    ids=["all others", "not its own pod's", "not its own pod's in between", "none as urgent"],
)
def test_an_urgent_event_passes_waiting_ones(waiting: list[tuple[str, bool]], comes_at: int) -> None:
    lock = FifoLock()
    assert lock.place() is None
    tickets = [lock.place(m.PodSandbox(id=pod), urgent) for pod, urgent in waiting]
    own_entry = lock.place(m.PodSandbox(id="mine"), True)
    assert list(lock.queue) == [*tickets[:comes_at], own_entry, *tickets[comes_at:]]


# -- an event's place among several plugins


class Queued:
    """A plugin, as far as a place in its queue needs it."""

    takes_bytes = False
    event_policies = (None,) * 16

    def __init__(self, turn_s: float = 0.0) -> None:
        self.lock = FifoLock()
        self.turn_s = turn_s

    def abandon(self, exchange: object) -> None:
        raise AssertionError("nothing was sent")


def place_at(peers: list[Queued], deadline: float | None = None) -> Place:
    request = EventRequest(BY_METHOD["start_container"], m.PodSandbox(id="pod"), m.Container(id="c"))
    return Place(request, peers, deadline)


def send_nothing(peer: object, policy: object) -> None:
    raise AssertionError("no plugin takes bytes")


def test_an_event_occupies_one_plugin_at_a_time() -> None:
    peers = [Queued(), Queued()]
    place = place_at(peers)
    assert [peer.lock.held for peer in peers] == [True, False]
    place.advance()
    assert [peer.lock.held for peer in peers] == [False, True]
    place.advance()
    place.leave()
    assert [peer.lock.held for peer in peers] == [False, False]


def test_an_event_without_a_timely_turn_has_missed_it_and_locks_nothing() -> None:
    peers = [Queued(turn_s=0.01), Queued()]
    peers[0].lock.acquire()
    place = place_at(peers)
    assert place.wait(send_nothing) is None
    assert place.missed and peers[0].lock.waiting == 0
    place.advance()
    assert not place.missed and peers[1].lock.held
    place.leave()
    assert peers[0].lock.held and not peers[1].lock.held


def test_the_callers_deadline_raises_and_is_not_a_missed_turn() -> None:
    peers = [Queued(turn_s=20.0)]
    peers[0].lock.acquire()
    place = place_at(peers, time.monotonic() + 0.01)
    with pytest.raises(DeadlineExceeded):
        place.wait(send_nothing)
    assert not place.missed and peers[0].lock.waiting == 0
    place.leave()
    assert peers[0].lock.held, "the other event still has the lock"


def test_an_abandoned_event_leaves_its_queue() -> None:
    peers = [Queued()]
    peers[0].lock.acquire()
    place = place_at(peers)
    place.leave()
    assert peers[0].lock.waiting == 0
