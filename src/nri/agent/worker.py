"""A thread that runs a function on request and at least once per interval.

Requests during a run are merged into one more run. An exception ends the run, never the thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from nri.text import plain

__all__ = ["TIMER", "Component", "Worker"]

#: The reason of a run that was started by the clock.
TIMER = "timer"
#: Characters of an error that are kept for health; texts of pods may be in it.
_MAX_TEXT = 300
_log = logging.getLogger("nri.agent")


class Component(Protocol):
    """A part of the agent with its own thread: a timer, a source, a transport."""

    def start(self) -> None:
        """Begin; a second call does nothing. It never waits for a peer that is not there."""
        ...

    def stop(self) -> None:
        """End, and wait until it has; a second call does nothing."""
        ...

    def health(self) -> tuple[bool, str]:
        """Whether it does its work now, and in one line how it is."""
        ...


class Worker:
    """A thread that calls `work` with the reasons of each run.

    Args:
        name: of the thread.
        work: the function; gets the reasons passed to `poke`, and `timer`.
        interval_s: the longest pause between two runs, in seconds.
        now: monotonic seconds.

    Attributes:
        interval_s: that pause; a new value applies to the next run.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[frozenset[str]], None],
        interval_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._work, self.interval_s, self._now = name, work, interval_s, now
        self._changed = threading.Condition()
        self._reasons: set[str] = set()
        self._due = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.rounds = 0
        self.error = ""

    def start(self) -> None:
        """Begin; the first round is at once. Starting it twice is starting it once."""
        with self._changed:
            if self._thread is not None:
                return
            self._stopping, self._due = False, self._now()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def poke(self, *reasons: str) -> None:
        """Ask for a round. Any thread may; it never waits."""
        with self._changed:
            self._reasons.update(reasons)
            self._changed.notify_all()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End the thread; return whether it has ended in time. Not from the thread itself."""
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
            except Exception as error:  # noqa: BLE001  a round must not take the thread with it
                last_error, self.error = self.error, plain(f"{type(error).__name__}: {error}", _MAX_TEXT)
                if self.error != last_error:  # a repeated error would fill the log
                    _log.exception("%s: a round has failed", self._name)
            else:
                self.error = ""
            self.rounds += 1

    def _wait(self) -> frozenset[str] | None:
        """Wait for the next run; return its reasons, None at the end."""
        with self._changed:
            while not self._stopping:
                remaining_s = self._due - self._now()
                if remaining_s <= 0:
                    self._due = self._now() + self.interval_s
                    self._reasons.add(TIMER)
                if self._reasons:
                    reasons, self._reasons = frozenset(self._reasons), set()
                    return reasons
                self._changed.wait(remaining_s)
        return None
