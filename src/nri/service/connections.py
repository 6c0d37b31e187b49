"""Limit the connections that are served at once, so that no client can block the others.

When all places are in use, a new connection replaces one that is still sending its request: the oldest one of the
address with most places, if that address has at least as many places as the new connection's. A connection whose
request is being answered keeps its place. The total size of all request bodies is limited in the same way.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

__all__ = ["Connection", "Connections"]

#: How long a new connection waits while all others are being answered, in seconds.
WAIT_S: Final = 1.0


class Connection:
    """A socket, and the address that it is connected from; "" for a unix socket."""

    __slots__ = ("address", "answered", "body_bytes", "socket")

    def __init__(self, sock: socket.socket, address: str = "") -> None:
        self.socket, self.address = sock, address
        self.answered = False
        self.body_bytes = 0


class Connections:
    """The connections that have a place. Thread-safe.

    Args:
        max_connections: the number of places.
        max_body_bytes: the limit for the bodies of all requests together; one address may use two thirds of it.

    Attributes:
        waiting: connections that wait for their turn, in order of arrival.
        on_room: called when a place or a turn may have become free.
    """

    def __init__(self, max_connections: int, max_body_bytes: int = 0) -> None:
        self._max_connections, self._max_body_bytes = max_connections, max_body_bytes
        self._present: dict[Connection, None] = {}
        self._lock = threading.Lock()
        self._turns = threading.Condition()
        self.waiting: list[Connection] = []
        self._is_taken = False
        self.on_room: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """The number of connections that have a place."""
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
        """Record that a connection is being answered, so that it keeps its place; returns whether it still has one."""
        with self._lock:
            connection.answered = connection in self._present
            return connection.answered

    def charge(self, connection: Connection, size: int) -> bool:
        """Count received bytes of a body; returns whether the connection may continue.

        Over the limit, the oldest connection of the address with most bytes is closed.
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
        """Record that the answer is ready, so that a slow reader can lose its place."""
        with self._lock:
            connection.answered = False
        self.on_room()

    @contextlib.contextmanager
    def turn(self, connection: Connection) -> Iterator[None]:
        """Run the block for one connection at a time; next is a connection of the address with fewest waiting ones."""
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
        """Free a connection's place, if it still has one."""
        with self._lock:
            self._present.pop(connection, None)
        self.on_room()

    def _has_room(self, connection: Connection, places: Counter[str]) -> bool:
        """Whether the connection can get a place, if necessary by closing another connection."""
        if len(self._present) < self._max_connections:
            return True
        address_places = places[connection.address]
        idle = [other for other in self._present if not other.answered and places[other.address] >= address_places]
        if not idle:
            return False
        self._close(max(idle, key=lambda other: places[other.address]))  # `max` returns the first, which is the oldest
        return True

    def _close(self, connection: Connection) -> None:
        """Free a connection's place and wake its thread, which closes the connection."""
        del self._present[connection]
        with contextlib.suppress(OSError):
            # Not the method of SSLSocket, which would drop the TLS state while another thread reads.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
