"""Limit the connections that are served at the same time, so that no client can block the others.

Each served connection has a slot. When all slots are in use, a new connection reslot_counts a connection that is still
sending its request: the oldest connection of the address with the most slots, if that address has at least as many
slots as the address of the new connection. A connection keeps its slot while its request is being answered. The
total size of all request bodies is limited in the same way.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

#: The maximum time in seconds that a new connection waits while all other connections are being answered.
WAIT_S: Final = 1.0


class Connection:
    """A socket and the address of its client. A client of a unix socket has the address ""."""

    __slots__ = ("address", "answered", "body_bytes", "socket")

    def __init__(self, sock: socket.socket, address: str = "") -> None:
        self.socket, self.address = sock, address
        self.answered = False
        self.body_bytes = 0


class Connections:
    """The connections that have a slot. Thread-safe.

    Args:
        max_connections: the number of slots.
        max_body_bytes: the limit for the bodies of all requests together; one address may use two thirds of the limit.

    Attributes:
        waiting: connections that wait for their turn, in order of arrival.
        on_room: called when a slot may have become free.
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
        """The number of connections that have a slot."""
        return len(self._present)

    def enter(self, waiting: Iterable[Connection]) -> Connection | None:
        """Give a slot to the first waiting connection of the address with the fewest slots, and return that connection.

        Returns None if no connection waits or no slot can be freed.
        """
        with self._lock:
            slot_counts = Counter(other.address for other in self._present)
            connection = min(waiting, key=lambda other: slot_counts[other.address], default=None)
            if connection is None or not self._has_room(connection, slot_counts):
                return None
            self._present[connection] = None
            return connection

    def start_answer(self, connection: Connection) -> bool:
        """Record that a connection is being answered, so that it keeps its slot. Returns False if the slot was lost."""
        with self._lock:
            connection.answered = connection in self._present
            return connection.answered

    def charge(self, connection: Connection, size: int) -> bool:
        """Count received bytes of a body, and return whether the connection may continue.

        Above the limit, the oldest connection of the address with the most bytes is closed.
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

    def finish_answer(self, connection: Connection) -> None:
        """Record that the answer is ready, so that a slow reader can lose its slot."""
        with self._lock:
            connection.answered = False
        self.on_room()

    @contextlib.contextmanager
    def turn(self, connection: Connection) -> Iterator[None]:
        """Run the block for one connection at a time. The address with the fewest waiting connections is next."""
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
        """Free a connection's slot, if the connection still has a slot."""
        with self._lock:
            self._present.pop(connection, None)
        self.on_room()

    def _has_room(self, connection: Connection, slot_counts: Counter[str]) -> bool:
        """Return whether the connection can get a slot. If necessary, close another connection."""
        if len(self._present) < self._max_connections:
            return True
        address_slots = slot_counts[connection.address]
        idle = [other for other in self._present if not other.answered and slot_counts[other.address] >= address_slots]
        if not idle:
            return False
        self._close(
            max(idle, key=lambda other: slot_counts[other.address])
        )  # `max` returns the first, which is the oldest
        return True

    def _close(self, connection: Connection) -> None:
        """Free a connection's slot and wake its thread, which closes the connection."""
        del self._present[connection]
        with contextlib.suppress(OSError):
            # Not the method of SSLSocket, which would drop the TLS state while another thread reads.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)
