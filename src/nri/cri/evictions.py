"""End containers that plugins want to evict, for servers of the CRI."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nri.errors import NriError
from nri.text import plain

#: Maximum number of evictions at a time, because each needs a thread. Further evictions are skipped, with one warning
#: until there are fewer again.
MAX_EVICTIONS = 256


class Evictions:
    """The evictions of a server.

    Args:
        name: the name of the threads.
        log: receives a line for each eviction and each failure.
    """

    def __init__(self, name: str, log: logging.Logger) -> None:
        self._name, self._log = name, log
        self._threads: dict[str, threading.Thread] = {}
        self._full = False
        self._lock = threading.Lock()

    def begin(self, identity: str, reason: str, end: Callable[[], object]) -> None:
        """Start a thread that calls `end` to end a container. No effect if the container's eviction is in progress.

        `end` may raise NriError, which is logged.
        """
        with self._lock:
            if identity in self._threads:
                return
            if len(self._threads) >= MAX_EVICTIONS:
                if not self._full:
                    self._log.warning("container %s and others are not evicted: %d evictions are in progress",
                                      identity, MAX_EVICTIONS)  # fmt: skip
                self._full = True
                return
            self._log.info("plugins evict container %s: %s", identity, plain(reason))
            thread = threading.Thread(target=self._run, args=(identity, end), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the process cannot start another thread now
                self._log_failure(identity, error)
            else:
                self._threads[identity] = thread

    def wait(self) -> None:
        """Wait for all evictions in progress."""
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    def _run(self, identity: str, end: Callable[[], object]) -> None:
        try:
            end()
        except Exception as error:  # noqa: BLE001  errors of a thread would be lost
            self._log_failure(identity, error)
        finally:
            with self._lock:
                self._threads.pop(identity, None)
                self._full = False

    def _log_failure(self, identity: str, error: Exception) -> None:
        unexpected_error = None if isinstance(error, (NriError, RuntimeError)) else error
        self._log.warning("container %s could not be evicted: %s", identity, error, exc_info=unexpected_error)
