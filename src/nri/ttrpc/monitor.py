"""A thread that watches idle connections, so that requests and hang-ups between calls are noticed at once.

A caller reads its own response (`nri.ttrpc.endpoint`), so a connection is watched only while no thread reads it. A
single thread waits in epoll for all idle connections: a thousand connections cost one thread.

**Watching.** A caller that will read its response calls `busy` before it writes its request, and `release` once it has
the response. Each is a cheap system call: the first removes the connection from epoll and the second puts it back, so
the response does not wake this thread. A watch is one-shot: after an event, the connection is not watched again until a
thread has read it. A single rule is enough: a thread that gives up the role of the reader lets the connection be
watched again. A surplus watch does no harm, because `poll` yields to a thread that reads.

**Calls in quick succession** save these two system calls as well. A connection whose last two calls ended within
`CLOSE_S` of each other rests: it stays unwatched for the next caller. This thread checks from time to time whether a
call came, first after `CHECK_INTERVAL_S`, then each time after twice as long, up to `MAX_CHECK_INTERVAL_S`. If no call
came, the connection is watched again. The price: a request of the peer right after a burst of calls waits for the next
check or call, about `CHECK_INTERVAL_S` after a short burst and up to `MAX_CHECK_INTERVAL_S` after a long burst.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.link import Link

log = logging.getLogger("nri.ttrpc")

_WATCH: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
# Without one-shot, epoll would report a hang-up again and again; hang-ups cannot be switched off.
_OFF: Final = select.EPOLLONESHOT

#: Calls are in quick succession if they end within this time of each other, in seconds.
CLOSE_S = 0.001
#: The first interval between checks of resting connections, in seconds.
CHECK_INTERVAL_S = 0.02
#: The longest interval between checks of resting connections, in seconds.
MAX_CHECK_INTERVAL_S = 0.16


class IdleWatcher:
    """The entry of an endpoint in the monitor. Reading threads report to it when the endpoint has to be watched.

    Attributes:
        armed: whether the connection is watched: a thread that reads it must call `busy` first.
        resting: whether the connection is left to the next caller, and checked from time to time.
        used: when the connection was last read, in monotonic seconds.
        close_s: calls are in quick succession if they end within this time of each other, in seconds.
    """

    __slots__ = ("_link", "_monitor", "armed", "close_s", "resting", "used")

    def __init__(self, monitor: Monitor, link: Link) -> None:
        self._monitor = monitor
        self._link = link
        self.armed = True
        self.resting = False
        self.used = 0.0
        self.close_s = CLOSE_S

    def busy(self) -> None:
        """Stop watching, because a thread reads."""
        if self.armed:
            self.armed = False
            self._monitor.modify(self._link, _OFF)

    def idle(self) -> None:
        """Watch at once, because no thread reads any more."""
        self.armed = True
        self._monitor.modify(self._link, _WATCH)

    def release(self, now: float) -> None:
        """Watch after a caller's read, or rest if calls are in quick succession."""
        close = now - self.used < self.close_s
        self.used = now
        if not close:
            self.armed = True
            self._monitor.modify(self._link, _WATCH)
        elif not self.resting:
            self.resting = True
            self._monitor.add_resting(self)

    def settled(self, now: float) -> bool:
        """End the rest if no caller came, and watch.

        Returns whether the rest is over; the connection may have ended.
        """
        link = self._link
        if link.closed is None:
            if now - self.used < CHECK_INTERVAL_S / 2 or not link.reader.acquire(False):
                return False
            self.resting = False
            self.idle()
            link.stop_reading(None)
        return True


class Monitor:
    """Polls endpoints when bytes arrive on them. Create it once, add endpoints, stop it at the end."""

    def __init__(self, name: str = "ttrpc-monitor") -> None:
        self.epoll = select.epoll()
        self._endpoints: dict[int, Endpoint] = {}
        self._lock = threading.Lock()
        self._resting: list[IdleWatcher] = []
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.epoll.register(self._wake_read, select.EPOLLIN)
        self._stopping = False
        self._watcher = threading.Thread(target=self._run, name=name, daemon=True)
        self._watcher.start()

    def add(self, endpoint: Endpoint) -> None:
        """Watch an endpoint whenever no thread reads it."""
        fd = endpoint.fileno()
        with self._lock:
            if self._stopping:
                return
            self._endpoints[fd] = endpoint
            endpoint.link.watch = IdleWatcher(self, endpoint.link)
            self.epoll.register(fd, _WATCH)

    def remove(self, endpoint: Endpoint) -> None:
        """Remove an endpoint. Call it before its descriptor is closed."""
        fd = endpoint.fileno()
        with self._lock:
            if self._endpoints.pop(fd, None) is None or self._stopping:
                return
            try:
                self.epoll.unregister(fd)
            except (OSError, ValueError):
                pass  # closed already, which unregisters it

    def modify(self, link: Link, events: int) -> None:
        """Watch a connection for these events. For its `IdleWatcher`."""
        try:
            self.epoll.modify(link.fileno(), events)
        except (OSError, ValueError):
            pass  # the endpoint was removed or closed in the meantime

    def add_resting(self, watch: IdleWatcher) -> None:
        """Check from time to time whether a connection is still in use. For its `IdleWatcher`."""
        with self._lock:
            if self._stopping:
                return
            self._resting.append(watch)
            if len(self._resting) == 1:
                os.write(self._wake_write, b"r")

    def _run(self) -> None:
        timeout_s: float | None = None
        while True:
            try:
                ready = self.epoll.poll(timeout_s)
            except (OSError, ValueError):
                return  # closed by stop()
            for fd, _ in ready:
                if fd == self._wake_read:
                    if self._stopping:
                        return
                    os.read(self._wake_read, 64)
                    continue
                endpoint = self._endpoints.get(fd)
                if endpoint is not None:
                    self.poll(endpoint)
            timeout_s = self._check_resting(timeout_s)

    def _check_resting(self, last_s: float | None) -> float | None:
        """Check the resting connections. Returns the seconds until the next check, or None if no check is required."""
        if not self._resting:
            return None
        if last_s is None:  # they began to rest just now
            return CHECK_INTERVAL_S
        now = monotonic()
        with self._lock:
            watches, self._resting = self._resting, []
        resting = [watch for watch in watches if not watch.settled(now)]
        with self._lock:
            self._resting += resting
            return min(last_s * 2, MAX_CHECK_INTERVAL_S) if self._resting else None

    @staticmethod
    def poll(endpoint: Endpoint) -> None:
        """Read an endpoint, which is watched again afterwards. Its errors do not affect other endpoints."""
        try:
            endpoint.poll()
        except Exception:
            log.exception("failed to read a connection; it is closed")
            endpoint.close("closed (it could not be read)")

    def stop(self) -> None:
        """End the thread. Endpoints are not closed."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
        os.write(self._wake_write, b"x")
        if self._watcher is not threading.current_thread():
            self._watcher.join(5.0)
        self.epoll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
