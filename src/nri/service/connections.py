"""Limit the connections that are served at once, so that no client can keep the others out.

When all places are taken, a new connection gets the place of one that is still sending its request: the oldest of the
address with most places. So a process that holds connections open loses them to clients that ask, such as a kubelet's
probe. A connection whose request is being answered keeps its place; a new one waits briefly for it. The bytes of all
requests together are limited in the same way.
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

    __slots__ = ("address", "answered", "body_bytes", "socket")

    def __init__(self, sock: socket.socket, address: str = "") -> None:
        self.socket, self.address = sock, address
        self.answered = False
        self.body_bytes = 0


class Connections:
    """The connections that have a place. Any thread may call.

    Args:
        most: places.
        max_body_bytes: what the bodies of all requests may have together.
    """

    def __init__(self, most: int, max_body_bytes: int = 0) -> None:
        self._most, self._max_body_bytes = most, max_body_bytes
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

    def charge(self, connection: Connection, size: int) -> bool:
        """Count received bytes of a body; return whether the connection may continue.

        Over the limit, the connection that began to send its body first is closed.
        """
        with self._changed:
            connection.body_bytes += size
            while sum(other.body_bytes for other in self._present) > self._max_body_bytes:
                sending = [other for other in self._present if other.body_bytes and not other.answered]
                if not sending:
                    break
                self._close(sending[0])
            return connection in self._present

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
        self._close(max(idle, key=lambda each: places[each.address]))  # of several the first, which came first
        return True

    def _close(self, connection: Connection) -> None:
        """Take a connection's place and wake its thread, which closes it."""
        del self._present[connection]
        with contextlib.suppress(OSError):
            # The plain socket's method: that of an SSLSocket drops the TLS state under the thread that reads.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
