"""One thread that watches idle connections, so that requests and hang-ups between calls are noticed at once.

epoll, one-shot: a connection is watched only while nobody reads it. A caller says `busy` before it reads and `idle`
after it (one cheap system call each); so a response never wakes this thread, and a thousand connections cost one
thread.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.ttrpc.endpoint import Endpoint

__all__ = ["Monitor"]

log = logging.getLogger("nri.ttrpc")

_WATCH = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT


class Monitor:
    """Polls endpoints when something arrives on them. Start once, add endpoints, stop at the end."""

    def __init__(self, name: str = "ttrpc-monitor") -> None:
        self._epoll = select.epoll()
        self._endpoints: dict[int, Endpoint] = {}
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._stopping = False
        self._watcher = threading.Thread(target=self._run, name=name, daemon=True)
        self._watcher.start()

    def add(self, endpoint: Endpoint) -> None:
        """Watch this endpoint from now on, whenever nobody reads it."""
        fd = endpoint.fileno()
        with self._lock:
            if self._stopping:
                return
            self._endpoints[fd] = endpoint
            endpoint.watch_idle(self._modifier(endpoint, 0), self._modifier(endpoint, _WATCH))
            self._epoll.register(fd, _WATCH)

    def remove(self, endpoint: Endpoint) -> None:
        """Forget this endpoint. To be called before its descriptor is given back."""
        fd = endpoint.fileno()
        with self._lock:
            if self._endpoints.pop(fd, None) is None or self._stopping:
                return
            try:
                self._epoll.unregister(fd)
            except (OSError, ValueError):
                pass  # closed already, which unregisters it

    def _modifier(self, endpoint: Endpoint, events: int) -> Callable[[], None]:
        """Watches an endpoint for these events from now on; called twice for every call, so it is made once."""
        modify, fileno = self._epoll.modify, endpoint.fileno

        def change() -> None:
            try:
                modify(fileno(), events)
            except (OSError, ValueError):
                pass  # removed or closed in the meantime: nothing to watch

        return change

    def _run(self) -> None:
        while True:
            try:
                ready = self._epoll.poll()
            except (OSError, ValueError):
                return  # closed by stop()
            for fd, _ in ready:
                if fd == self._wake_read:
                    return
                endpoint = self._endpoints.get(fd)
                if endpoint is not None:
                    self._poll(endpoint)

    @staticmethod
    def _poll(endpoint: Endpoint) -> None:
        """Whoever has read an endpoint has it watched again. Nothing that goes wrong with one costs the others."""
        try:
            endpoint.poll()
        except Exception:
            log.exception("a connection is closed: it could not be read")
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
        self._epoll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
