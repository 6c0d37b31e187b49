"""The client's connection, and a poller that waits for it and other descriptors on one thread.

Only :meth:`Poller.wait` blocks. Bytes are kept until the socket takes them; senders check :attr:`Link.waiting` first.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

CHUNK_BYTES = 32768
#: How long a client may take to read its last bytes, in seconds.
_LINGER_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a client: times in seconds, and buffers in bytes.

    Attributes:
        token_s: until it uses its token.
        request_s: for the request and its answer.
        creation_s: until it has opened the requested streams.
        idle_s: without any traffic.
        output_bytes: output that the client has not taken; more is not read from the program.
        answers_bytes: answers that the client has not taken, to pings for example; then it is not read.
        input_bytes: input that a program or connection has not taken; then the client is not read.
    """

    token_s: float = 60.0
    request_s: float = 10.0
    creation_s: float = 30.0
    idle_s: float = 4 * 3600.0
    output_bytes: int = 256 << 10
    answers_bytes: int = 1 << 20
    input_bytes: int = 1 << 20


class Stopped(Exception):
    """The server is being stopped."""


class Poller:
    """Waits for descriptors. When the descriptor `stop` becomes readable, the server is being stopped."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self._poll = select.poll()
        self._poll.register(stop, select.POLLIN)
        self._masks: dict[int, int] = {}

    def wait(self, masks: Mapping[int, int], timeout_s: float) -> dict[int, int]:
        """Wait for events, and return them by descriptor. Returns {} after the timeout.

        Raises Stopped if the server is being stopped.
        """
        for descriptor in self._masks.keys() - masks.keys():
            self._poll.unregister(descriptor)
        for descriptor, mask in masks.items():
            if self._masks.get(descriptor) != mask:
                self._poll.register(descriptor, mask)
        self._masks = dict(masks)
        ready = dict(self._poll.poll(max(timeout_s, 0) * 1000))
        if self._stop in ready:
            raise Stopped
        return ready


class Link:
    """A client's socket.

    Attributes:
        lost: whether the client has gone, so nothing can be sent or received.
        last_traffic: when the last byte was sent or received (monotonic).
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._would_block = connection, _would_block(connection)
        self._output = bytearray()
        connection.setblocking(False)
        self.lost = False
        self.last_traffic = time.monotonic()

    def fileno(self) -> int:
        """The socket's descriptor, for :class:`Poller`."""
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """The number of bytes that are not sent yet."""
        return len(self._output)

    def mask(self, *, read: bool) -> int:
        """The events to wait for. A disconnect is reported even if the client is not read."""
        return (select.POLLIN if read else select.POLLRDHUP) | (select.POLLOUT if self._output else 0)

    def receive(self, ready: Mapping[int, int], *, read: bool) -> bytes:
        """Read the available bytes. Call it after waiting for the events of :meth:`mask`."""
        events = ready.get(self.fileno(), 0) & ~select.POLLOUT
        if events and not read:
            self.lost = True
        return self.read() if events and read else b""

    def read(self) -> bytes:
        """Read the available bytes. Returns b"" if there are none, or at the end, which sets :attr:`lost`."""
        try:
            data = self._socket.recv(2 * CHUNK_BYTES)  # more than a TLS record, so that TLS buffers no rest of one
        except self._would_block:
            return b""
        except OSError:
            data = b""
        self.lost = self.lost or not data
        self.last_traffic = time.monotonic()
        return data

    def send(self, data: bytes) -> None:
        """Send bytes, now or as soon as possible."""
        self._output += data
        if not self._output or self.lost:
            return
        try:
            sent = self._socket.send(self._output)
        except self._would_block:
            return
        except OSError:
            self.lost = True
            self._output.clear()
            return
        del self._output[:sent]
        self.last_traffic = time.monotonic()

    def finish(self, poller: Poller, idle_s: float) -> None:
        """Send the remaining bytes, shut down the writing side, and read for a moment, so that no bytes are lost.

        Give up if the client takes nothing for `idle_s` seconds.
        """
        ended = False
        while not self.lost:
            if not self._output and not ended:
                ended = True
                self.last_traffic, idle_s = time.monotonic(), _LINGER_S
                try:
                    self._end_tls()
                    socket.socket.shutdown(self._socket, socket.SHUT_WR)  # SSLSocket's method would end its reading
                except OSError:
                    return
            last_traffic = self.last_traffic
            remaining_s = last_traffic + idle_s - time.monotonic()
            if remaining_s <= 0:
                return
            ready = poller.wait({self.fileno(): self.mask(read=True)}, remaining_s).get(self.fileno(), 0)
            if ready & ~select.POLLOUT:
                self.read()
                self.last_traffic = last_traffic  # bytes that the client sends now do not count as traffic
            self.send(b"")

    def _end_tls(self) -> None:
        """Tell the client that no more data follows, without waiting for its answer."""
        if unwrap := getattr(self._socket, "unwrap", None):
            with suppress(*self._would_block):
                unwrap()


def _would_block(connection: socket.socket) -> tuple[type[OSError], ...]:
    """Return the errors of a socket that is not ready."""
    if type(connection) is socket.socket:
        return (BlockingIOError,)
    import ssl  # noqa: PLC0415  clients without TLS do not need it

    return BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError


def read_some(descriptor: int, size: int) -> bytes | None:
    """Read from a pipe or terminal. Returns None if it is empty, and b"" at its end (for a terminal, after EIO)."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None
    except OSError:
        return b""
