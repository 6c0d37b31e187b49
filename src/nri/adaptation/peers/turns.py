"""Turns: the order in which events reach plugins, and how they wait for it.

An event takes its place in the queue of the next plugin before it leaves the current plugin, even if a
plugin does not get the event. So the order of arrival at the first plugin is the order at every plugin, and a slow
plugin delays only the events behind it. An event holds no lock while it waits, so there is no deadlock. The rules may
have two exceptions: an event that has waited too long for a turn (`nri.adaptation.time_budget`) continues without that
plugin, and may reach later plugins before the events that were ahead of it; an event that disposes of a pod or
container passes waiting events of other pods, but never of its own pod.

        place = Place(request, peers, deadline)          # in the queue of the first plugin
        for peer in peers:
            sent = place.wait(begin)                     # the event's turn: this plugin gets no other request
            ...                                          # ask the plugin
            place.advance()                              # enter the next plugin's queue, then release this plugin
        place.leave()                                    # in a `finally`: releases a lock or a place in a queue

Each plugin has a queue, a `FifoLock`. A bare `threading.Lock` starves callers: the thread that has just released the
lock takes it again before the others wake. A waiting event also leaves a callback (`Ticket.begin`) that sends its
request. The thread that releases the lock calls it before it wakes the waiting thread, so the plugin gets its next
request before a thread switch.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.time_budget import turn_deadline, turn_limit_s
from nri.errors import DeadlineExceeded
from nri.signals import check_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nri.adaptation.peers.event_request import EventRequest
    from nri.api import messages as m
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.ttrpc.waiters import Sent as Exchange


class Ticket:
    """A place in the queue.

    Attributes:
        pod: the id of the event's pod; "" without a pod.
        urgent: whether the ticket has passed other events.
        begin: called when the turn comes, by the thread that releases the lock; it must not wait.
        begin_result: the return value of `begin`; None if it was not called.
    """

    __slots__ = ("begin", "begin_result", "pod", "turn", "urgent")

    def __init__(self, pod: str = "", urgent: bool = False) -> None:
        self.pod, self.urgent = pod, urgent
        self.begin: Callable[[], Any] | None = None
        self.begin_result: Any = None
        self.turn = allocate_lock()
        self.turn.acquire()

    def wait(self, timeout_s: float = -1.0) -> bool:
        """Wait for the turn. Returns False after `timeout_s` seconds. A negative timeout waits for ever."""
        check_signals()
        return self.turn.acquire(timeout=timeout_s)

    def call(self) -> None:
        """Wake the waiting thread: its turn has come."""
        try:
            if self.begin is not None:
                self.begin_result = self.begin()
        finally:
            self.turn.release()


class FifoLock:
    """A lock with a queue: first come, first served. Not reentrant; any thread may release it.

        ticket = lock.place()            # never waits
        lock.wait(ticket, deadline)      # waits for its turn
        ...
        lock.release()

    `leave` gives up a place without waiting, or releases the lock if the turn has come.

    Attributes:
        queue: the waiting tickets, in the order of their turns.
    """

    __slots__ = ("_guard", "held", "queue")

    def __init__(self) -> None:
        self._guard = allocate_lock()
        self.held = False
        self.queue: deque[Ticket] = deque()

    def place(self, pod: m.PodSandbox | None = None, urgent: bool = False) -> Ticket | None:
        """Take a place in the queue. Returns None if the lock was free; the caller then holds it.

        With `urgent`, the place is ahead of all waiting tickets, except tickets of the same pod and other urgent
        tickets.
        """
        with self._guard:
            if not self.held:
                self.held = True
                return None
            # The id is read only in this branch: reading a field of a message costs as much as the lock.
            ticket = Ticket("" if pod is None else pod.id, urgent)
            queue = self.queue
            at = len(queue)
            if urgent:
                while at and not (queue[at - 1].urgent or queue[at - 1].pod == ticket.pod):
                    at -= 1
            queue.insert(at, ticket)
            return ticket

    def wait(self, ticket: Ticket | None, deadline: float | None = None) -> None:
        """Wait for the turn of a ticket. Raises DeadlineExceeded if the place is given up and nothing is held."""
        if ticket is None:
            return
        try:
            if ticket.wait(-1.0 if deadline is None else max(0.0, deadline - monotonic())):
                return
        except BaseException:  # also KeyboardInterrupt: an abandoned place would block all tickets behind it
            if not self._give_up(ticket):
                ticket.wait()
                self.release()
            raise
        if self._give_up(ticket):
            raise DeadlineExceeded("a plugin that is busy with earlier events")
        # The turn came just after the end of the wait; the call itself checks the caller's deadline.
        ticket.wait()

    def _give_up(self, ticket: Ticket) -> bool:
        """Remove a ticket from the queue. Returns False if its turn has come in the meantime."""
        with self._guard:
            if ticket not in self.queue:
                return False
            self.queue.remove(ticket)
            return True

    def leave(self, ticket: Ticket | None) -> None:
        """Give up a place without waiting for its turn, or release the lock if the turn has come."""
        if ticket is None or not self._give_up(ticket):
            self.release()

    def acquire(self, deadline: float | None = None) -> None:
        """Take a place and wait for it."""
        self.wait(self.place(), deadline)

    def release(self) -> None:
        """Release the lock to the next ticket in the queue."""
        with self._guard:
            if not self.queue:
                self.held = False
                return
            ticket = self.queue.popleft()
        ticket.call()

    @property
    def waiting(self) -> int:
        """The number of waiting tickets."""
        return len(self.queue)


class Sent:
    """A request that was sent to a plugin.

    Attributes:
        policy: the plugin's policy when the request was sent.
        began: when the request was sent, in monotonic seconds.
        deadline: the deadline of the answer, in monotonic seconds.
        exchange: identifies the request for the connection.
    """

    __slots__ = ("began", "deadline", "exchange", "policy")

    def __init__(self, policy: EventPolicy, began: float, deadline: float, exchange: Exchange) -> None:
        self.policy, self.began, self.deadline, self.exchange = policy, began, deadline, exchange


class _Queued(Protocol):
    """The members of a plugin (`nri.adaptation.peers.peer.Peer`) that a place in its queue needs."""

    lock: FifoLock
    turn_s: float
    takes_bytes: bool
    event_policies: Sequence[EventPolicy | None]

    def abandon(self, exchange: Exchange) -> None:
        """Drop the reply to a request that was sent."""


class Place:
    """An event's place among the plugins: in the queue of a plugin, or at its turn.

    Args:
        request: the event's request.
        peers: the plugins, in the order of the event; at least one.
        deadline: the caller's deadline or None.
        urgent: whether the event passes waiting events of other pods.

    Attributes:
        ticket: the place in the queue of the current plugin; None if it is the event's turn.
        missed: the turn at the current plugin did not come in time: nothing is held, and the event skips the plugin.
    """

    __slots__ = ("_deadline", "_index", "_lock", "_peers", "_request", "_urgent", "missed", "ticket")

    def __init__(
        self, request: EventRequest, peers: Sequence[_Queued], deadline: float | None, urgent: bool = False
    ) -> None:
        self._request = request
        self._peers = peers
        self._deadline = deadline
        self._index = 0
        self._urgent = urgent
        self.missed = False
        lock = peers[0].lock
        self._lock: FifoLock | None = lock
        self.ticket: Ticket | None = lock.place(request.pod, urgent)

    def wait(self, begin: Callable[[Any, EventPolicy], Sent | None]) -> Sent | None:
        """Wait for the event's turn at the current plugin.

        Returns the request if the thread of the previous event has already sent it, else None. If the turn has not come
        in time, `missed` is set. Raises DeadlineExceeded if the caller's deadline has passed; nothing is held then.

        Args:
            begin: sends the request to a plugin that has this policy; called by the thread of the previous event.
        """
        ticket = self.ticket
        if ticket is None:
            return None
        peer = self._peers[self._index]
        request = self._request
        policy = peer.event_policies[request.spec.number]
        if policy is not None and peer.takes_bytes and not (policy.guarded and not policy.admits(request.pod)):
            request.encoded()  # now, so that other events do not wait for the encoding
            ticket.begin = partial(begin, peer, policy)
        lock, self._lock, self.ticket = self._lock, None, None  # a wait that fails has given up its place by itself
        assert lock is not None
        deadline = limit = self._deadline
        if peer.turn_s:
            limit_s = peer.turn_s if policy is None else turn_limit_s(policy.timeout_s)
            limit = turn_deadline(monotonic(), limit_s, deadline)
        try:
            lock.wait(ticket, limit)
        except DeadlineExceeded:
            if limit == deadline:  # the caller's deadline was the earlier of the two
                raise
            self.missed = True
            return None
        except BaseException:
            if ticket.begin_result is not None:
                peer.abandon(ticket.begin_result.exchange)
            raise
        self._lock = lock
        sent: Sent | None = ticket.begin_result
        return sent

    def advance(self, *, keep: bool = False) -> None:
        """Take a place at the next plugin, then release this plugin. With `keep`, the caller releases it."""
        current = self._lock
        self.missed = False
        self._index += 1
        if self._index < len(self._peers):
            next_lock = self._peers[self._index].lock
            self.ticket = next_lock.place(self._request.pod, self._urgent)
            self._lock = next_lock
        else:
            self._lock = None
        if current is not None and not keep:
            current.release()

    def leave(self) -> None:
        """Give up the lock or the place in a queue if there is one."""
        if self._lock is not None:
            self._lock.leave(self.ticket)
            self._lock = None
