"""A connected stream socket whose every read and write has a deadline. Knows no frames: those are `mux` and `ttrpc`.

Why not `socket.settimeout`: it makes the interpreter poll before every call, a second system call on the hot path. Here
the kernel's own SO_RCVTIMEO and SO_SNDTIMEO are set, and set again only when the wanted wait gets shorter or longer.
Why `_socket`: importing `socket` costs a plugin's start 12 ms, and nothing here needs it.

Why a read may poll for a moment before it sleeps: where both sides of a connection answer within some microseconds,
most of the time goes into putting a core to sleep and waking it again. So a read whose predecessors were short looks
again and again for at most `BUSY_POLL_S`, and one that did so in vain puts the next ones off, longer each time. A
connection that is idle, and a peer that takes its time, cost nothing; nor is there any polling with one core only.

Deadlines are absolute, in seconds of `time.monotonic()`; None waits for ever and is for idle loops only, which another
thread or a signal handler ends with `shut()`. One thread reads at a time, and one writes: the callers see to that.
"""

from __future__ import annotations

import _socket
from posix import environ, sched_getaffinity
from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Socket(Protocol):
        """What is used of a socket object: those of `socket` and of `_socket` both have it."""

        def fileno(self) -> int: ...
        def send(self, data: bytes | memoryview, flags: int = ..., /) -> int: ...
        def recv(self, size: int, flags: int = ..., /) -> bytes: ...
        def close(self) -> None: ...
        def shutdown(self, how: int, /) -> None: ...
        def setblocking(self, flag: bool, /) -> None: ...
        def setsockopt(self, level: int, option: int, value: bytes, /) -> None: ...


__all__ = ["SentInPart", "Stream", "connect_unix"]

# A wait within this much of what is set already does not need a system call.
_SLACK_S = 0.002
# So many short waits in a row, and the next one polls; polling in vain asks for twice as many, up to a limit.
_FEW, _MANY = 2, 256
# Found in this part of the time, polling has paid, and is forgiven earlier failures. A peer that mostly takes longer
# needs the cores itself.
_QUICKLY = 0.6

# What has arrived by the deadline may still be taken so much later, in seconds; a peer that never stops sending does
# not keep its reader beyond.
_GRACE_S = 0.05
# What is set when a wait has no end. Far away from every real wait, so that one comparison tells them apart.
_FOREVER = -1e9
_NOW = _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT


def _busy_poll_s() -> float:
    """`NRI_BUSY_POLL_US`: whole microseconds, 0 for no polling; 300 if it is not set or not a number up to 1000."""
    text = environ.get(b"NRI_BUSY_POLL_US", b"")
    return int(text) * 1e-6 if text.isdigit() and int(text) <= 1000 else 0.0003


#: How long a read looks for data before it sleeps, in seconds, if the last ones took no longer.
BUSY_POLL_S = _busy_poll_s()


def _pack_timeval(seconds: float) -> bytes:
    """`struct timeval` for the kernel: two native longs."""
    whole = int(seconds)
    micros = int((seconds - whole) * 1e6)
    if not whole and not micros and seconds > 0:
        micros = 1  # zero would mean: for ever
    return whole.to_bytes(8, "little") + micros.to_bytes(8, "little")


def connect_unix(path: str) -> _socket.socket:
    """Connect to a unix stream socket; OSError as the kernel says it. It waits only while the backlog is full."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _pack_timeval(5.0))
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


class SentInPart(DeadlineExceeded):
    """A write missed its deadline half-way: the rest goes out before the next write, or with `flush`."""


class Stream:
    """Bytes in and out of one connected stream socket, with deadlines. The base of transports.

    A write that misses its deadline half-way leaves the peer in the middle of a frame. The rest is then kept and goes
    out before the next write, so that one late reader costs one message and not the connection.
    """

    __slots__ = (
        "_busy_poll_s", "_credit", "_debt", "_poll", "_receive_armed_s", "_send_armed_s", "_sock", "_unsent",
    )  # fmt: skip

    def __init__(self, sock: Socket, *, busy_poll_s: float = BUSY_POLL_S) -> None:
        """`busy_poll_s`: how long a read may poll before it sleeps, in seconds; 0 for not at all."""
        sock.setblocking(True)
        self._busy_poll_s = busy_poll_s if len(sched_getaffinity(0)) > 1 else 0.0
        self._credit, self._debt = -_FEW, _FEW  # a read polls when the credit is not negative
        self._poll: Any = None
        self._sock = sock
        self._receive_armed_s = self._send_armed_s = -2e9  # nothing yet
        self._unsent: bytes = b""

    def fileno(self) -> int:
        """The descriptor; -1 once closed."""
        return self._sock.fileno()

    def read(self, size: int, deadline: float | None) -> bytes:
        """Read up to `size` bytes, at least one. ConnectionClosed at the end, DeadlineExceeded with nothing read."""
        began = monotonic()
        wait_s = _FOREVER
        if deadline is not None:
            wait_s = deadline - began
            if wait_s <= 0:
                if wait_s < -_GRACE_S:
                    raise DeadlineExceeded("data")
                return self.read_now(size, "data")
        if not -_SLACK_S < wait_s - self._receive_armed_s < _SLACK_S:
            self._arm(_socket.SO_RCVTIMEO, wait_s)
            self._receive_armed_s = wait_s
        if self._credit >= 0:
            self._look(began)
        try:
            data = self._sock.recv(size)
        except BlockingIOError:
            raise DeadlineExceeded("data") from None
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        if not data:
            raise ConnectionClosed
        if self._credit < 0:
            self._count(monotonic() - began)
        return data

    def _look(self, began: float) -> None:
        """Poll until there is something to read. In vain: not again before as many short waits as `_debt` says."""
        poll = self._poll
        if poll is None:
            import select

            descriptors = select.poll()
            descriptors.register(self._sock.fileno(), select.POLLIN)
            poll = self._poll = descriptors.poll
        until = began + self._busy_poll_s
        while not poll(0):
            if monotonic() > until:
                self._credit = -self._debt
                self._debt = min(self._debt * 2, _MANY)
                return
        if self._debt > _FEW and monotonic() - began < self._busy_poll_s * _QUICKLY:
            self._debt //= 2

    def _count(self, waited_s: float) -> None:
        """Take note of a wait without polling: would polling have paid?"""
        if waited_s < self._busy_poll_s:
            self._credit += 1
        elif self._credit > -_FEW:
            self._credit = -_FEW

    def read_now(self, size: int, what: str = "data") -> bytes:
        """Read what is there already; DeadlineExceeded if nothing is."""
        try:
            data = self._sock.recv(size, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise DeadlineExceeded(what) from None
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        if not data:
            raise ConnectionClosed
        return data

    def write(self, data: bytes, deadline: float | None) -> None:
        """Write all of `data`. DeadlineExceeded: nothing of it was written, the peer does not read; or SentInPart."""
        if self._unsent:
            self.flush(deadline)
        try:
            sent = self._sock.send(data, _NOW)  # nearly always all of it, and then no deadline is needed
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        if sent != len(data):
            self._write_rest(data, sent, deadline)

    def _write_rest(self, data: bytes, sent: int, deadline: float | None) -> None:
        if sent == 0:
            sent = self._send_until(data, deadline)
            if sent == 0:
                raise DeadlineExceeded("the peer to read")
        self._unsent = data[sent:]
        try:
            self.flush(deadline)
        except DeadlineExceeded as error:
            raise SentInPart(error.what) from None

    def flush(self, deadline: float | None) -> None:
        """Write what earlier writes have left. DeadlineExceeded: some of it is left still."""
        while self._unsent:
            sent = self._send_until(self._unsent, deadline)
            if sent == 0:
                raise DeadlineExceeded("the peer to read")
            self._unsent = self._unsent[sent:]

    def _send_now(self, data: bytes, flags: int = _NOW) -> int:
        """Write what the kernel takes; returns how many bytes that was."""
        try:
            return self._sock.send(data, flags)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None

    def _send_until(self, data: bytes, deadline: float | None) -> int:
        """Write what the kernel takes before the deadline; returns how many bytes that was."""
        wait_s = _FOREVER
        if deadline is not None:
            wait_s = deadline - monotonic()
            if wait_s <= 0:
                return self._send_now(data)
        if not -_SLACK_S < wait_s - self._send_armed_s < _SLACK_S:
            self._arm(_socket.SO_SNDTIMEO, wait_s)
            self._send_armed_s = wait_s
        return self._send_now(data, _socket.MSG_NOSIGNAL)

    def _arm(self, option: int, wait_s: float) -> None:
        try:
            self._sock.setsockopt(_socket.SOL_SOCKET, option, _pack_timeval(max(wait_s, 0.0)))
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None

    def shut(self) -> None:
        """End both directions now: a thread that waits in `read` gets ConnectionClosed. Safe in a signal handler."""
        try:
            self._sock.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # already gone, which is what was asked for

    def shut_reading(self) -> None:
        """End reading only: the reply to the request at hand still goes out. Safe in a signal handler."""
        try:
            self._sock.shutdown(_socket.SHUT_RD)
        except OSError:
            pass  # already gone, which is what was asked for

    def close(self) -> None:
        """End both directions and give the descriptor back. Only when no other thread is inside a call."""
        self.shut()
        self._sock.close()
        self._unsent = b""
