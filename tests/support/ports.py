"""Ports for servers whose listening address is an option."""

from __future__ import annotations

import socket
import weakref


class HeldPort:
    """A port of loopback that is nobody else's until it is closed, also while its server does not run.

    It is any free port if `number` is 0.

    It is bound here, and nobody listens: the kernel gives it to no other, and a server in Go, or any that reuses
    addresses, can listen there.
    """

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket()
        weakref.finalize(self, self._socket.close)  # a test that fails before `close` leaves nothing to a later one
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", number))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Let others have it."""
        self._socket.close()
