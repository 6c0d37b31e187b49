"""A thread that calls a function on request, so that no source of rules waits for a runtime.

Requests before a run are merged. A failed run is repeated up to `_MAX_TRIES` times, with growing pauses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nri.backoff import Backoff

_log = logging.getLogger(__name__)
_MAX_TRIES = 5


class Refresher:
    """A thread that calls `run` after each request.

    Args:
        run: the function to call; returns whether all its work succeeded.
        name: the name of the thread.
        backoff: the pauses after failed runs.
    """

    def __init__(self, run: Callable[[], bool], name: str, backoff: Backoff | None = None) -> None:
        self._run, self._name = run, name
        self._backoff = backoff or Backoff()
        self._condition = threading.Condition()
        self._kubelet_request = self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to wait for requests. A second call has no effect."""
        with self._condition:
            if self._thread is None or self._stopped:
                self._stopped = False
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()

    def ask(self) -> None:
        """Request a run, and return immediately."""
        with self._condition:
            self._kubelet_request = True
            self._condition.notify_all()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop after the current run, and wait for its end. A second call has no effect."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _loop(self) -> None:
        tries = 0
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._kubelet_request or self._stopped)
                if self._stopped:
                    return
                self._kubelet_request = False
            try:
                succeeded = self._run()
            except Exception:  # noqa: BLE001 - the thread must continue
                _log.exception("%s: new decisions for running pods failed", self._name)
                succeeded = False
            if succeeded:
                tries = 0
                self._backoff.reset()
            elif (tries := tries + 1) < _MAX_TRIES:
                with self._condition:
                    self._condition.wait_for(lambda: self._stopped or self._kubelet_request, self._backoff.ended())
                    self._kubelet_request = True
            else:
                tries = 0
                _log.warning("%s: some values were not applied; the next attempt follows a change of rules", self._name)
