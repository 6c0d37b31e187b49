"""A lock that is passed on in the order of asking, and whose place in the queue can be taken before waiting for it.

A bare `threading.Lock` starves callers: the thread that has just let go takes it again before the others wake. Taking a
place (`place`) and waiting for it (`wait`) are apart, because the pipeline takes its place at the next plugin before it
leaves the one at hand: that keeps all events in one order at every plugin. Knows nothing of plugins. Next:
`nri.adaptation.pipeline`.
"""

from __future__ import annotations

from _thread import LockType, allocate_lock
from collections import deque
from time import monotonic

from nri.errors import DeadlineExceeded

__all__ = ["FifoLock"]


class FifoLock:
    """First come, first served. Not reentrant; any thread may release it.

    ticket = lock.place()            # never waits
    lock.wait(ticket, deadline)      # waits for its turn
    ...
    lock.release()
    """

    __slots__ = ("_guard", "_held", "_queue")

    def __init__(self) -> None:
        self._guard = allocate_lock()
        self._held = False
        self._queue: deque[LockType] = deque()

    def place(self) -> LockType | None:
        """Take a place in the queue; None if it is our turn already."""
        with self._guard:
            if not self._held:
                self._held = True
                return None
            ticket = allocate_lock()
            ticket.acquire()
            self._queue.append(ticket)
            return ticket

    def wait(self, ticket: LockType | None, deadline: float | None = None) -> None:
        """Wait for the turn of a place. DeadlineExceeded: the place is given up, nothing is held."""
        if ticket is None:
            return
        try:
            if ticket.acquire(timeout=-1 if deadline is None else max(0.0, deadline - monotonic())):
                return
        except BaseException:  # KeyboardInterrupt: nobody may wait for ever behind a place that nobody holds
            if not self._give_up(ticket):
                self.release()
            raise
        if self._give_up(ticket):
            raise DeadlineExceeded("a plugin that is busy with earlier events")
        # Our turn came between the end of the wait and now: it is ours, and the caller's deadline shows at the call.

    def _give_up(self, ticket: LockType) -> bool:
        """Leave the queue; False if the turn has come in the meantime."""
        with self._guard:
            if ticket not in self._queue:
                return False
            self._queue.remove(ticket)
            return True

    def leave(self, ticket: LockType | None) -> None:
        """Give up a place without waiting for its turn, or the lock if the turn has come."""
        if ticket is None or not self._give_up(ticket):
            self.release()

    def acquire(self, deadline: float | None = None) -> None:
        """Take a place and wait for it."""
        self.wait(self.place(), deadline)

    def release(self) -> None:
        """Let the next one in."""
        with self._guard:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._held = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._queue)
