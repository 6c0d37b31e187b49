"""A connected stream socket whose every read and write has a deadline. Knows no frames: those are `mux` and `ttrpc`.

Why not `socket.settimeout`: it makes the interpreter poll before every call, also where the data is there. Why not
SO_RCVTIMEO: a signal, or a stop and a continue, begins its time again, so a process that gets many would wait for ever.
Here a write is tried first, and a read that has a deadline waits in `poll`, whose time goes on.
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
import sys
from posix import environ, read, sched_getaffinity
from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded
from nri.signals import check_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from nri.interfaces import Socket

__all__ = ["SentInPart", "Stream", "connect_unix"]

# So many short waits in a row, and the next one polls; polling in vain asks for twice as many, up to a limit.
_FEW, _MANY = 2, 256
# Found in this part of the time, polling has paid, and is forgiven earlier failures. A peer that mostly takes longer
# needs the cores itself.
_QUICKLY: Final = 0.6

# Bytes that have arrived by the deadline may still be taken so much later, in seconds; a peer that never stops sending
# does not keep its reader beyond.
_GRACE_S: Final = 0.05
_NOW: Final = _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT
# The longest wait in one `poll`, in milliseconds: a signal that came in the instant before does not interrupt it.
_LOOK_UP_MS: Final = 1000
_CONNECT_TIMEOUT_S = 5
# So long after the last message a read of the thread that listens to signals waits where those wake it for sure.
_BUSY_S: Final = 4


def busy_poll_from_environment() -> float:
    """Read `NRI_BUSY_POLL_US`: microseconds, 0 for no polling; 300 if it is not set or not a number up to 1000."""
    text = environ.get(b"NRI_BUSY_POLL_US", b"")
    return int(text) * 1e-6 if text.isdigit() and int(text) <= 1000 else 0.0003


#: How long a read looks for data before it sleeps, in seconds, if the last ones took no longer.
BUSY_POLL_S = busy_poll_from_environment()


def connect_unix(path: str) -> _socket.socket:
    """Connect to a unix stream socket; OSError as the kernel says it. It waits only while the backlog is full."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        patience = _CONNECT_TIMEOUT_S.to_bytes(8, sys.byteorder) + bytes(8)  # struct timeval: two native longs
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, patience)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _poll_for(sock: Socket, *, reading: bool, wake_fd: int = -1) -> Any:
    import select

    descriptors = select.poll()
    descriptors.register(sock.fileno(), select.POLLIN if reading else select.POLLOUT)
    if wake_fd >= 0:
        descriptors.register(wake_fd, select.POLLIN)
    return descriptors.poll


def _wait(poll: Any, deadline: float | None, wake_fd: int = -1) -> bool:
    """Wait until there is something, which may be the end; False at the deadline."""
    most_ms = _LOOK_UP_MS if wake_fd < 0 else -1
    while True:
        if deadline is not None:
            left_s = deadline - monotonic()
            if left_s <= 0:
                return False
            if left_s < 1.0 or wake_fd >= 0:
                most_ms = int(left_s * 1e3) + 1
        ready = poll(most_ms)
        if ready and (wake_fd < 0 or len(ready) > 1 or ready[0][0] != wake_fd):
            return True
        if ready:
            read(wake_fd, 64)
        check_signals()


class SentInPart(DeadlineExceeded):
    """A write missed its deadline half-way: the rest goes out before the next write, or with `flush`."""


class Stream:
    """Bytes in and out of one connected stream socket, with deadlines. The base of transports.

    A write that misses its deadline half-way leaves the peer in the middle of a frame. The rest is then kept and goes
    out before the next write, so that one late reader costs one message and not the connection.
    """

    __slots__ = ("_busy_poll_s", "_credit", "_debt", "_poll", "_sock", "_wake_fd", "fileno", "unsent")

    def __init__(self, sock: Socket, *, busy_poll_s: float = BUSY_POLL_S, wake_fd: int = -1) -> None:
        """Take a connected socket.

        Args:
            busy_poll_s: how long a read may poll before it sleeps, in seconds; 0 for not at all.
            wake_fd: `nri.signals.wake_fd()`, where the thread that listens to signals reads, and no other: a read
                without a deadline then never misses a signal, and needs not look up now and then. -1 for none.
        """
        sock.setblocking(True)
        if wake_fd >= 0:
            # A read begins in the kernel's own wait, which is one system call less, and goes on in `poll` after this.
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, _BUSY_S.to_bytes(8, sys.byteorder) + bytes(8))
        self._wake_fd = wake_fd
        self._busy_poll_s = busy_poll_s if len(sched_getaffinity(0)) > 1 else 0.0
        self._credit, self._debt = -_FEW, _FEW  # a read polls when the credit is not negative
        self._poll: Any = None
        self._sock = sock
        #: The rest of a write that missed its deadline half-way.
        self.unsent: bytes = b""
        #: Tells the descriptor; -1 once closed.
        self.fileno: Callable[[], int] = sock.fileno

    def read(self, size: int, deadline: float | None) -> bytes:
        """Read up to `size` bytes, at least one. ConnectionClosed at the end, DeadlineExceeded with nothing read."""
        began = monotonic()
        flags = 0
        if deadline is not None:
            flags = _socket.MSG_DONTWAIT
            if deadline <= began - _GRACE_S:
                raise DeadlineExceeded("data")
        if self._credit >= 0 and self._look(began):
            if self._wake_fd >= 0:
                check_signals()  # it may be a signal that was found
        else:
            check_signals()
            if flags:
                _wait(self._poll or self._polling(), deadline, self._wake_fd)
        try:
            data = self._sock.recv(size, flags)
        except BlockingIOError:
            data = self._read_on(size, deadline)
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        if not data:
            raise ConnectionClosed
        if self._credit < 0:
            self._count(monotonic() - began)
        return data

    def _read_on(self, size: int, deadline: float | None) -> bytes:
        """Read on after a look or a first wait that found nothing, or a signal alone."""
        while _wait(self._poll or self._polling(), deadline, self._wake_fd):
            try:
                return self._sock.recv(size, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        raise DeadlineExceeded("data")

    def _polling(self) -> Any:
        """The kernel's poll for our descriptor, kept for next time: there is one reader at a time."""
        poll = self._poll = _poll_for(self._sock, reading=True, wake_fd=self._wake_fd)
        return poll

    def _look(self, began: float) -> bool:
        """Poll until there is something to read. In vain: not again before as many short waits as `_debt` says."""
        poll = self._poll or self._polling()
        until = began + self._busy_poll_s
        while not poll(0):
            if monotonic() > until:
                self._credit = -self._debt
                self._debt = min(self._debt * 2, _MANY)
                return False
        if self._debt > _FEW and monotonic() - began < self._busy_poll_s * _QUICKLY:
            self._debt //= 2
        return True

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
        if self.unsent:
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
        """Write what is left of `data`; what cannot be written, because of the deadline or a signal, is `unsent`."""
        size = len(data)
        view = memoryview(data)
        try:
            while sent < size:
                taken = self._send_until(view[sent:], deadline)
                if taken == 0:
                    raise (SentInPart if sent else DeadlineExceeded)("the peer to read")
                sent += taken
        finally:
            if 0 < sent < size:
                self.unsent = data[sent:]

    def flush(self, deadline: float | None) -> None:
        """Write what earlier writes have left. DeadlineExceeded: some of it is left still."""
        while self.unsent:
            sent = self._send_until(self.unsent, deadline)
            if sent == 0:
                raise DeadlineExceeded("the peer to read")
            self.unsent = self.unsent[sent:]

    def _send_now(self, data: bytes | memoryview) -> int:
        """Write what the kernel takes; returns how many bytes that was."""
        try:
            return self._sock.send(data, _NOW)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None

    def _send_until(self, data: bytes | memoryview, deadline: float | None) -> int:
        """Write what the kernel takes before the deadline; returns how many bytes that was."""
        poll: Any = None
        while True:
            sent = self._send_now(data)
            if sent:
                return sent
            poll = poll or _poll_for(self._sock, reading=False)
            check_signals()
            if not _wait(poll, deadline):
                return self._send_now(data)

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
        self.unsent = b""
