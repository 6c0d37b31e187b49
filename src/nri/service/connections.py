"""Limit the connections that are served at once, so that no client can keep the others out.

When all places are taken, a new connection gets the place of one that is still sending its request: the oldest of the
address with most places, if that address has no fewer than the address of the new connection. So a process that holds
connections open loses them to clients that ask, such as a kubelet's probe, and never takes the place of one. A
connection whose request is being answered keeps its place; new ones wait briefly for it, first those of the addresses
with fewest places. The bytes of all requests together are limited in the same way.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
        max_body_bytes: what the bodies of all requests may have together; those of one address may have two thirds.

    Attributes:
        waiting: connections that wait for their turn, in order of arrival.
        on_room: called when a connection may have room that had none before.
    """

    def __init__(self, most: int, max_body_bytes: int = 0) -> None:
        self._most, self._max_body_bytes = most, max_body_bytes
        self._present: dict[Connection, None] = {}
        self._lock = threading.Lock()
        self._turns = threading.Condition()
        self.waiting: list[Connection] = []
        self._is_taken = False
        self.on_room: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """The number of those that have a place."""
        return len(self._present)

    def enter(self, waiting: Iterable[Connection]) -> Connection | None:
        """Give a place to the first waiting connection of the address with fewest places; None without a place."""
        with self._lock:
            places = Counter(other.address for other in self._present)
            connection = min(waiting, key=lambda other: places[other.address], default=None)
            if connection is None or not self._has_room(connection, places):
                return None
            self._present[connection] = None
            return connection

    def answer(self, connection: Connection) -> bool:
        """Note that a connection is being answered, and keeps its place; return whether it still has one."""
        with self._lock:
            connection.answered = connection in self._present
            return connection.answered

    def charge(self, connection: Connection, size: int) -> bool:
        """Count received bytes of a body; return whether the connection may continue.

        Over the limit, a connection is closed: of the address with most bytes the one that began its body first.
        """
        with self._lock:
            connection.body_bytes += size
            while sending := [other for other in self._present if other.body_bytes and not other.answered]:
                sizes = Counter[str]()
                for other in self._present:
                    sizes[other.address] += other.body_bytes
                largest = max(sending, key=lambda other: sizes[other.address])
                limit = self._max_body_bytes
                if sizes.total() <= limit and sizes[largest.address] <= limit * 2 // 3:
                    break
                self._close(largest)
            return connection in self._present

    def wait(self, connection: Connection) -> None:
        """Note that the answer is there, and the connection only has to take it."""
        with self._lock:
            connection.answered = False
        self.on_room()

    @contextlib.contextmanager
    def turn(self, connection: Connection) -> Iterator[None]:
        """Wait until no other connection is in this block; next is the first one of the address with fewest waiting."""
        with self._turns:
            self.waiting.append(connection)
            self._turns.wait_for(lambda: not self._is_taken and self._next_waiting() is connection)
            self.waiting.remove(connection)
            self._is_taken = True
        try:
            yield
        finally:
            with self._turns:
                self._is_taken = False
                self._turns.notify_all()

    def _next_waiting(self) -> Connection:
        lengths = Counter(other.address for other in self.waiting)
        return min(self.waiting, key=lambda other: lengths[other.address])

    def leave(self, connection: Connection) -> None:
        """Take a connection's place back, if it still has it."""
        with self._lock:
            self._present.pop(connection, None)
        self.on_room()

    def _has_room(self, connection: Connection, places: Counter[str]) -> bool:
        """Whether there is a place, if need be one that is taken from another."""
        if len(self._present) < self._most:
            return True
        own = places[connection.address]
        idle = [other for other in self._present if not other.answered and places[other.address] >= own]
        if not idle:
            return False
        self._close(max(idle, key=lambda other: places[other.address]))  # of several the first, which came first
        return True

    def _close(self, connection: Connection) -> None:
        """Take a connection's place and wake its thread, which closes it."""
        del self._present[connection]
        with contextlib.suppress(OSError):
            # The plain socket's method: that of an SSLSocket drops the TLS state under the thread that reads.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
