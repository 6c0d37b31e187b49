"""A lock that is passed on in the order of asking, and whose place in the queue can be taken before waiting for it.

A thread that waits may leave word what is to be begun as soon as its turn comes: the one that lets go does that first,
and wakes it then. So what the lock guards is at work again while threads still change places.

An urgent event passes those that wait, but none of its own pod.

A bare `threading.Lock` starves callers: the thread that has just let go takes it again before the others wake. Taking a
place (`place`) and waiting for it (`wait`) are apart, because an event takes its place at the next plugin before it
leaves the one at hand: that keeps all events in one order at every plugin. Knows nothing of plugins. Next:
`nri.adaptation.dispatch.order`.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from nri.errors import DeadlineExceeded
from nri.signals import check_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.api import messages as m

__all__ = ["FifoLock", "Ticket"]


class Ticket:
    """A place in the queue.

    Attributes:
        pod: whose event it is; "" for none.
        urgent: whether it has passed others.
        begin: called when the turn comes, by the thread that lets go; it must not wait. May be set while it waits.
        begun: what `begin` returned; None if it was not called.
    """

    __slots__ = ("begin", "begun", "pod", "turn", "urgent")

    def __init__(self, pod: str = "", urgent: bool = False) -> None:
        self.pod, self.urgent = pod, urgent
        self.begin: Callable[[], Any] | None = None
        self.begun: Any = None
        self.turn = allocate_lock()
        self.turn.acquire()

    def wait(self, timeout_s: float = -1.0) -> bool:
        """Wait for the turn; False if it has not come in so many seconds. Negative: for ever."""
        check_signals()
        return self.turn.acquire(timeout=timeout_s)

    def call(self) -> None:
        """Tell the thread that waits that its turn has come."""
        try:
            if self.begin is not None:
                self.begun = self.begin()
        finally:
            self.turn.release()


class FifoLock:
    """A lock: first come, first served. Not reentrant; any thread may release it.

        ticket = lock.place()            # never waits
        lock.wait(ticket, deadline)      # waits for its turn
        ...
        lock.release()

    A thread that has changed its mind gives up its place, or the lock if its turn has come, with `leave`.

    Attributes:
        queue: the places of those that wait, in the order of their turns.
    """

    __slots__ = ("_guard", "held", "queue")

    def __init__(self) -> None:
        self._guard = allocate_lock()
        self.held = False
        self.queue: deque[Ticket] = deque()

    def place(self, pod: m.PodSandbox | None = None, urgent: bool = False) -> Ticket | None:
        """Take a place in the queue; None if it is our turn already.

        `urgent`: before all that wait, but for those of the same pod, and others that are urgent.
        """
        with self._guard:
            if not self.held:
                self.held = True
                return None
            # Read here: a field of a message costs as much as the lock, and most have nothing to wait for.
            ticket = Ticket("" if pod is None else pod.id, urgent)
            queue = self.queue
            at = len(queue)
            if urgent:
                while at and not (queue[at - 1].urgent or queue[at - 1].pod == ticket.pod):
                    at -= 1
            queue.insert(at, ticket)
            return ticket

    def wait(self, ticket: Ticket | None, deadline: float | None = None) -> None:
        """Wait for the turn of a place. DeadlineExceeded: the place is given up, nothing is held."""
        if ticket is None:
            return
        try:
            if ticket.wait(-1.0 if deadline is None else max(0.0, deadline - monotonic())):
                return
        except BaseException:  # KeyboardInterrupt: a place that no thread holds would hold up all behind it
            if not self._give_up(ticket):
                ticket.wait()
                self.release()
            raise
        if self._give_up(ticket):
            raise DeadlineExceeded("a plugin that is busy with earlier events")
        # Our turn came between the end of the wait and now: it is ours, and the caller's deadline shows at the call.
        ticket.wait()

    def _give_up(self, ticket: Ticket) -> bool:
        """Leave the queue; False if the turn has come in the meantime."""
        with self._guard:
            if ticket not in self.queue:
                return False
            self.queue.remove(ticket)
            return True

    def leave(self, ticket: Ticket | None) -> None:
        """Give up a place without waiting for its turn, or the lock if the turn has come."""
        if ticket is None or not self._give_up(ticket):
            self.release()

    def acquire(self, deadline: float | None = None) -> None:
        """Take a place and wait for it."""
        self.wait(self.place(), deadline)

    def release(self) -> None:
        """Let the next one in."""
        with self._guard:
            if not self.queue:
                self.held = False
                return
            ticket = self.queue.popleft()
        ticket.call()

    @property
    def waiting(self) -> int:
        """The number of those that wait for their turn."""
        return len(self.queue)
