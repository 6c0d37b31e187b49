"""A connected stream socket whose every read and write has a deadline.

`socket.settimeout` is not used, because it makes the interpreter poll before every call, even if data has arrived.
SO_RCVTIMEO is not used for deadlines, because a signal restarts its time, so that a process with many signals would
wait forever. Instead a write is tried first, and a read with a deadline waits in `poll`. `_socket` is used because
importing `socket` would slow a plugin's start by 12 ms.

**Busy polling.** If both sides of a connection answer within microseconds, most of the time is spent on putting a core
to sleep and waking it. So after short waits a read polls repeatedly for at most `BUSY_POLL_S`. After unsuccessful
polling the next reads do not poll, longer each time. An idle connection and a slow peer cost nothing, and a machine
with one core never polls.

Deadlines are absolute, in seconds of `time.monotonic()`. None waits forever, for idle loops that another thread or a
signal handler ends with `shut()`. Callers ensure that only one thread reads at a time, and only one thread writes.
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

# After this many consecutive short waits a read polls. Unsuccessful polling doubles the number, up to the limit.
_SHORT_WAITS, _MAX_SHORT_WAITS = 2, 256
# If data arrives within this share of the time, polling was worth it, and the number of short waits is halved. A peer
# that mostly takes longer needs the cores itself.
_QUICK_SHARE: Final = 0.6

# Time after the deadline in which arrived bytes may still be read, in seconds. It is limited in case a peer never stops
# sending.
_GRACE_S: Final = 0.05
_NOW: Final = _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT
# The longest wait in one `poll`, in milliseconds: a signal just before it does not interrupt it.
_MAX_POLL_MS: Final = 1000
_CONNECT_TIMEOUT_S = 5


def busy_poll_from_environment() -> float:
    """Read `NRI_BUSY_POLL_US`: microseconds, 0 for no polling; 300 if it is unset or not a number up to 1000."""
    text = environ.get(b"NRI_BUSY_POLL_US", b"")
    return int(text) * 1e-6 if text.isdigit() and int(text) <= 1000 else 0.0003


#: Time that a read polls for data before it sleeps, in seconds, if the last waits were short.
BUSY_POLL_S = busy_poll_from_environment()


def connect_unix(path: str) -> _socket.socket:
    """Connect to a unix stream socket. Waits only while the backlog is full. Raises OSError if it fails."""
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
    """Wait for data or the end of the connection. Returns False at the deadline."""
    timeout_ms = _MAX_POLL_MS if wake_fd < 0 else -1
    while True:
        if deadline is not None:
            remaining_s = deadline - monotonic()
            if remaining_s <= 0:
                return False
            if remaining_s < 1.0 or wake_fd >= 0:
                timeout_ms = int(remaining_s * 1e3) + 1
        ready = poll(timeout_ms)
        if ready and (wake_fd < 0 or len(ready) > 1 or ready[0][0] != wake_fd):
            return True
        if ready:
            read(wake_fd, 64)
        check_signals()


class SentInPart(DeadlineExceeded):
    """A write reached its deadline half-way. The rest is written before the next write, or by `flush`."""


class Stream:
    """A connected stream socket with deadlines, the base class of transports.

    A write that reaches its deadline half-way leaves the peer in the middle of a frame. The rest is stored and written
    before the next write, so that a late reader loses one message and not the connection.
    """

    __slots__ = ("_busy_poll_s", "_credit", "_debt", "_poll", "_sock", "_wake_fd", "fileno", "unsent")

    def __init__(self, sock: Socket, *, busy_poll_s: float = BUSY_POLL_S, wake_fd: int = -1) -> None:
        """Use a connected socket.

        Args:
            busy_poll_s: the time that a read may poll before it sleeps, in seconds; 0 disables polling.
            wake_fd: `nri.signals.wake_fd()` if only the thread that handles signals reads. A read without a deadline
                then notices every signal at once. -1 for other threads.
        """
        sock.setblocking(True)
        self._wake_fd = wake_fd
        self._busy_poll_s = busy_poll_s if len(sched_getaffinity(0)) > 1 else 0.0
        self._credit, self._debt = -_SHORT_WAITS, _SHORT_WAITS  # a read polls when the credit is not negative
        self._poll: Any = None
        self._sock = sock
        #: The rest of a write that reached its deadline half-way.
        self.unsent: bytes = b""
        #: Returns the descriptor, or -1 after `close`.
        self.fileno: Callable[[], int] = sock.fileno

    def read(self, size: int, deadline: float | None) -> bytes:
        """Read 1 to `size` bytes. Raises ConnectionClosed at the end, and DeadlineExceeded if nothing arrives."""
        began = monotonic()
        # `recv` would wake the thread a second time, when the peer has read the last reply; `poll` does not.
        flags = 0 if deadline is None and self._wake_fd < 0 else _socket.MSG_DONTWAIT
        if deadline is not None and deadline <= began - _GRACE_S:
            raise DeadlineExceeded("data")
        if self._credit >= 0 and self._busy_poll(began):
            if self._wake_fd >= 0:
                check_signals()  # poll may have returned for a signal
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
            self._record_wait(monotonic() - began)
        return data

    def _read_on(self, size: int, deadline: float | None) -> bytes:
        """Continue a read after a poll or a first wait without data."""
        while _wait(self._poll or self._polling(), deadline, self._wake_fd):
            try:
                return self._sock.recv(size, _socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        raise DeadlineExceeded("data")

    def _polling(self) -> Any:
        """The poll object for our descriptor, stored for later reads, because there is one reader at a time."""
        poll = self._poll = _poll_for(self._sock, reading=True, wake_fd=self._wake_fd)
        return poll

    def _busy_poll(self, began: float) -> bool:
        """Poll until there is something to read. If there is nothing, the next `_debt` short waits do not poll."""
        poll = self._poll or self._polling()
        until = began + self._busy_poll_s
        while not poll(0):
            if monotonic() > until:
                self._credit = -self._debt
                self._debt = min(self._debt * 2, _MAX_SHORT_WAITS)
                return False
        if self._debt > _SHORT_WAITS and monotonic() - began < self._busy_poll_s * _QUICK_SHARE:
            self._debt //= 2
        return True

    def _record_wait(self, waited_s: float) -> None:
        """Record a wait without polling, and whether polling would have been worth it."""
        if waited_s < self._busy_poll_s:
            self._credit += 1
        elif self._credit > -_SHORT_WAITS:
            self._credit = -_SHORT_WAITS

    def read_now(self, size: int, what: str = "data") -> bytes:
        """Read arrived bytes. Raises DeadlineExceeded if there are no bytes."""
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
        """Write all of `data`. Raises DeadlineExceeded if nothing was written, SentInPart if only a part was."""
        if self.unsent:
            self.flush(deadline)
        try:
            sent = self._sock.send(data, _NOW)  # the usual case writes everything, without a deadline
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None
        if sent != len(data):
            self._write_rest(data, sent, deadline)

    def _write_rest(self, data: bytes, sent: int, deadline: float | None) -> None:
        """Write the rest of `data`. At the deadline or a signal, the unwritten rest becomes `unsent`."""
        size = len(data)
        view = memoryview(data)
        try:
            while sent < size:
                written = self._send_until(view[sent:], deadline)
                if written == 0:
                    raise (SentInPart if sent else DeadlineExceeded)("the peer to read")
                sent += written
        finally:
            if 0 < sent < size:
                self.unsent = data[sent:]

    def flush(self, deadline: float | None) -> None:
        """Write the rest of earlier writes. Raises DeadlineExceeded if a part remains."""
        while self.unsent:
            sent = self._send_until(self.unsent, deadline)
            if sent == 0:
                raise DeadlineExceeded("the peer to read")
            self.unsent = self.unsent[sent:]

    def _send_now(self, data: bytes | memoryview) -> int:
        """Write the bytes that the kernel accepts at once. Returns the number of bytes."""
        try:
            return self._sock.send(data, _NOW)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionClosed(f"closed ({error.strerror or error})") from None

    def _send_until(self, data: bytes | memoryview, deadline: float | None) -> int:
        """Write the bytes that the kernel accepts before the deadline. Returns the number of bytes."""
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
        """End both directions: a thread that waits in `read` gets ConnectionClosed. Safe in a signal handler."""
        try:
            self._sock.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # already ended

    def shut_reading(self) -> None:
        """End reading. The reply to the current request can still be written. Safe in a signal handler."""
        try:
            self._sock.shutdown(_socket.SHUT_RD)
        except OSError:
            pass  # already ended

    def close(self) -> None:
        """End both directions and close the descriptor. Call it only when no other thread is in a call."""
        self.shut()
        self._sock.close()
        self.unsent = b""
