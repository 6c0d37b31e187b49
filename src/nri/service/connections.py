"""The connections that are served at once: a bounded number, of which no address can keep the others out.

Rules: a connection that comes when all places are taken gets the place of one that is not being answered: of the
address that has most places, the one that came first. So a process that holds connections open loses them to those that
ask, such as a kubelet's probe. One that is being answered keeps its place, and is waited for, briefly. Next:
`nri.service.http`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from typing import Final

__all__ = ["Connection", "Connections"]

#: How long a connection waits for a place while all others are being answered, in seconds.
WAIT_S: Final = 1.0


class Connection:
    """A socket, and the address that it is connected from; "" for a unix socket."""

    __slots__ = ("address", "answered", "socket")

    def __init__(self, sock: socket.socket, address: str = "") -> None:
        self.socket, self.address = sock, address
        self.answered = False


class Connections:
    """The connections that have a place. Any thread may call.

    Args:
        most: places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._present: dict[Connection, None] = {}
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """The number of those that have a place."""
        return len(self._present)

    def enter(self, connection: Connection) -> bool:
        """Give a connection a place; return whether there was one."""
        with self._changed:
            if not self._changed.wait_for(self._room, WAIT_S):
                return False
            self._present[connection] = None
            return True

    def answer(self, connection: Connection) -> bool:
        """Note that a connection is being answered, and keeps its place; return whether it still has one."""
        with self._changed:
            connection.answered = connection in self._present
            return connection.answered

    def wait(self, connection: Connection) -> None:
        """Note that the answer is there, and the connection only has to take it."""
        with self._changed:
            connection.answered = False
            self._changed.notify_all()

    def leave(self, connection: Connection) -> None:
        """Take a connection's place back, if it still has it."""
        with self._changed:
            self._present.pop(connection, None)
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
            gone.socket.shutdown(socket.SHUT_RDWR)  # its thread wakes, and closes it
        return True
