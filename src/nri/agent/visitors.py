"""Visitors: the connections that are served at once, a bounded number, of which no address can keep the others out.

Rules: who comes when all places are taken gets the place of one who is not being answered: of the address that has most
places, the one that came first. So who holds connections open loses them to who asks, such as a kubelet that probes.
One that is being answered keeps its place, and is waited for, briefly. Next: `nri.agent.serve`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from typing import Final

__all__ = ["Visitor", "Visitors"]

#: How long somebody waits for a place while all are being answered, in seconds.
_WAIT_S: Final = 1.0


class Visitor:
    """A connection, and the address that it comes from; "" for a unix socket."""

    __slots__ = ("address", "answered", "connection")

    def __init__(self, connection: socket.socket, address: str = "") -> None:
        self.connection, self.address = connection, address
        self.answered = False


class Visitors:
    """The visitors that have a place. Any thread may call.

    Args:
        most: places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._present: dict[Visitor, None] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """The number of those that have a place."""
        return len(self._present)

    def enter(self, visitor: Visitor) -> bool:
        """Give a visitor a place; return whether there was one."""
        with self._changed:
            if not self._changed.wait_for(self._room, _WAIT_S):
                return False
            self._present[visitor] = None
            return True

    def answer(self, visitor: Visitor) -> bool:
        """Note that a visitor is being answered, and keeps its place until it is; return whether it still has one."""
        with self._changed:
            visitor.answered = visitor in self._present
            return visitor.answered

    def wait(self, visitor: Visitor) -> None:
        """Note that the answer is there, and the visitor only has to take it."""
        with self._changed:
            visitor.answered = False
            self._changed.notify_all()

    def leave(self, visitor: Visitor) -> None:
        """Take a visitor's place back, if it still has it."""
        with self._changed:
            self._present.pop(visitor, None)
            self._changed.notify_all()

    def _room(self) -> bool:
        """Whether there is a place, if need be one that is taken from another."""
        if len(self._present) < self._most:
            return True
        idle = [each for each in self._present if not each.answered]
        if not idle:
            return False
        places = Counter(each.address for each in self._present)
        gone = max(idle, key=lambda each: places[each.address])  # of several the first, which came first
        del self._present[gone]
        with contextlib.suppress(OSError):
            gone.connection.shutdown(socket.SHUT_RDWR)  # its thread wakes, and closes it
        return True
