"""The client's connection and what else a session waits for: one thread, many descriptors, every wait with an end.

Only :meth:`Poller.wait` blocks. Bytes to be sent are kept until the socket takes them, and what fills the link checks
:attr:`Link.waiting` first.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

CHUNK = 32768
_LINGER_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a client: the time that it may take, in seconds, and what is kept for it, in bytes.

    Attributes:
        token_s: for coming with its token.
        request_s: for the request, and its answer.
        creation_s: for opening the streams that a request asks for.
        idle_s: without any traffic at all.
        output_bytes: of output that the client has not taken; then none is read from the program.
        answers_bytes: of answers that the client has not taken, pings' for example; then the client is not read.
        input_bytes: that one program or connection has not taken; then the client is not read.
    """

    token_s: float = 60.0
    request_s: float = 10.0
    creation_s: float = 30.0
    idle_s: float = 4 * 3600.0
    output_bytes: int = 256 << 10
    answers_bytes: int = 1 << 20
    input_bytes: int = 1 << 20


class Stopped(Exception):
    """The server stops."""


class Poller:
    """Waits for descriptors, and for the end of the server, which is `stop` becoming readable."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self._poll = select.poll()
        self._poll.register(stop, select.POLLIN)
        self._asked: dict[int, int] = {}

    def wait(self, asked: Mapping[int, int], timeout_s: float) -> dict[int, int]:
        """The events that came, by descriptor; none after the timeout. Raises Stopped."""
        for descriptor in self._asked.keys() - asked.keys():
            self._poll.unregister(descriptor)
        for descriptor, mask in asked.items():
            if self._asked.get(descriptor) != mask:
                self._poll.register(descriptor, mask)
        self._asked = dict(asked)
        ready = dict(self._poll.poll(max(timeout_s, 0) * 1000))
        if self._stop in ready:
            raise Stopped
        return ready


class Link:
    """A client's socket.

    Attributes:
        lost: the client has gone; nothing can be sent or received any more.
        heard: when the last byte went or came, in monotonic seconds.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._out = bytearray()
        connection.setblocking(False)
        self.lost = False
        self.heard = time.monotonic()

    def fileno(self) -> int:
        """The socket, for :class:`Poller`."""
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """The number of bytes that wait to be sent."""
        return len(self._out)

    def mask(self, *, read: bool) -> int:
        """The events to wait for at the socket; a client that goes is noticed also while it is not read."""
        return (select.POLLIN if read else select.POLLRDHUP) | (select.POLLOUT if self._out else 0)

    def hear(self, ready: Mapping[int, int], *, read: bool) -> bytes:
        """Read what has come, after a wait for :meth:`mask`."""
        events = ready.get(self.fileno(), 0) & ~select.POLLOUT
        if events and not read:
            self.lost = True
        return self.read() if events and read else b""

    def read(self) -> bytes:
        """Read what has come; nothing if that is nothing, or the end, then :attr:`lost` is set."""
        try:
            data = self._socket.recv(2 * CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.lost = self.lost or not data
        self.heard = time.monotonic()
        return data

    def send(self, data: bytes) -> None:
        """Send bytes, now or as soon as they go."""
        self._out += data
        if not self._out or self.lost:
            return
        try:
            sent = self._socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self.lost = True
            self._out.clear()
            return
        del self._out[:sent]
        self.heard = time.monotonic()

    def finish(self, poller: Poller, idle_s: float) -> None:
        """Send what waits, end our half, and hear the client out for a moment: else it may lose what it was sent.

        `idle_s` is how long it may take nothing before it is left.
        """
        ended = False
        while not self.lost:
            if not self._out and not ended:
                ended = True
                self.heard, idle_s = time.monotonic(), _LINGER_S
                try:
                    self._socket.shutdown(socket.SHUT_WR)
                except OSError:
                    return
            heard = self.heard
            left = heard + idle_s - time.monotonic()
            if left <= 0:
                return
            ready = poller.wait({self.fileno(): self.mask(read=True)}, left).get(self.fileno(), 0)
            if ready & ~select.POLLOUT:
                self.read()
                self.heard = heard  # what it says now is of no interest any more
            self.send(b"")


def read_some(descriptor: int, size: int) -> bytes | None:
    """Read what a pipe or terminal has; None if nothing now. Empty at its end, which for a terminal is an error."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None
    except OSError:
        return b""
