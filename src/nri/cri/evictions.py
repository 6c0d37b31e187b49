"""Containers that plugins want gone are ended, by whatever serves the CRI: one way for how many, and what is told.

Rules: a container is ended once, however often that is asked for; so many ends are under way at a time, because each
has a thread, and what is too much is left out, which is told once until there is room again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nri.errors import NriError
from nri.text import plain

__all__ = ["MOST", "Evictions"]

#: Evictions that are under way at a time.
MOST = 256


class Evictions:
    """Those of one server.

    Args:
        name: of the threads.
        log: is told what goes, and what cannot.
    """

    def __init__(self, name: str, log: logging.Logger) -> None:
        self._name, self._log = name, log
        self._threads: dict[str, threading.Thread] = {}
        self._full = False
        self._lock = threading.Lock()

    def begin(self, identity: str, reason: str, end: Callable[[], object]) -> None:
        """Have a container ended by `end`, which may raise NriError, and return."""
        with self._lock:
            if identity in self._threads:
                return
            if len(self._threads) >= MOST:
                if not self._full:
                    self._log.warning("container %s and others are not evicted: %d evictions are under way",
                                      identity, MOST)  # fmt: skip
                self._full = True
                return
            self._log.info("plugins want container %s gone: %s", identity, plain(reason))
            thread = threading.Thread(target=self._run, args=(identity, end), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no threads are left for now
                self._could_not(identity, error)
            else:
                self._threads[identity] = thread

    def wait(self) -> None:
        """Wait for those that are under way."""
        with self._lock:
            threads = list(self._threads.values())
        for each in threads:
            each.join()

    def _run(self, identity: str, end: Callable[[], object]) -> None:
        try:
            end()
        except Exception as error:  # noqa: BLE001  the end of a thread
            self._could_not(identity, error)
        finally:
            with self._lock:
                self._threads.pop(identity, None)
                self._full = False

    def _could_not(self, identity: str, error: Exception) -> None:
        trace = None if isinstance(error, (NriError, RuntimeError)) else error
        self._log.warning("container %s could not be evicted: %s", identity, error, exc_info=trace)
