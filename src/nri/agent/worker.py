"""A thread that runs a function on request and at least once in each interval.

Requests during a run are merged into one further run. An exception ends the run, but not the thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from nri.text import plain

#: The reason of a run after the interval.
TIMER = "timer"
#: The maximum number of characters of an error in the health report; an error may quote strings of pods.
_MAX_TEXT = 300
_log = logging.getLogger("nri.agent")


class Component(Protocol):
    """A part of the agent that can be started and stopped: a timer, a source or a transport."""

    def start(self) -> None:
        """Start without waiting for an absent peer. A second call has no effect."""
        ...

    def stop(self) -> None:
        """Stop, and wait until the part has stopped. A second call has no effect."""
        ...

    def health(self) -> tuple[bool, str]:
        """Return whether the part works now, and its state in one line."""
        ...


class Worker:
    """A thread that calls `work` with the reasons for each run.

    Args:
        name: the name of the thread.
        work: the function; it gets the reasons passed to `request_run`, and `TIMER` after an interval.
        interval_s: the longest pause between two runs, in seconds.
        now: returns monotonic seconds.

    Attributes:
        interval_s: the longest pause; a new value applies after the next run.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[frozenset[str]], None],
        interval_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._work, self.interval_s, self._clock = name, work, interval_s, now
        self._changed = threading.Condition()
        self._reasons: set[str] = set()
        self._due = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.rounds = 0
        self.error = ""

    def start(self) -> None:
        """Start the thread, which runs `work` immediately. A second call has no effect."""
        with self._changed:
            if self._thread is not None:
                return
            self._stopping, self._due = False, self._clock()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def request_run(self, *reasons: str) -> None:
        """Request a run without waiting for it. Every thread may call this."""
        with self._changed:
            self._reasons.update(reasons)
            self._changed.notify_all()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End the thread, and return whether it ended in time. The thread itself must not call this."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._stopping = True
            self._changed.notify_all()
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _run(self) -> None:
        while (reasons := self._wait()) is not None:
            try:
                self._work(reasons)
            except Exception as error:  # noqa: BLE001  an error must not end the thread
                last_error, self.error = self.error, plain(f"{type(error).__name__}: {error}", _MAX_TEXT)
                if self.error != last_error:  # a repeated error would fill the log
                    _log.exception("%s: a run failed", self._name)
            else:
                self.error = ""
            self.rounds += 1

    def _wait(self) -> frozenset[str] | None:
        """Wait for the next run and return its reasons; return None when the thread must end."""
        with self._changed:
            while not self._stopping:
                remaining_s = self._due - self._clock()
                if remaining_s <= 0:
                    self._due = self._clock() + self.interval_s
                    self._reasons.add(TIMER)
                if self._reasons:
                    reasons, self._reasons = frozenset(self._reasons), set()
                    return reasons
                self._changed.wait(remaining_s)
        return None
