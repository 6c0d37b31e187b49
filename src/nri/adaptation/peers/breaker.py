"""The circuit breaker of one plugin: after so many misses in a row it is left out for a while, then tried again.

A miss is a request without an answer: our timeout passed or the connection was lost. An error that a handler returned
is an answer. A request that had less than its timeout is a part of a miss: parts add up until there is an answer. Time
is passed in (monotonic seconds) and nothing is locked: the plugin's own lock covers it.

    closed --misses in a row--> open --retry_s passed--> half-open --answer--> closed
                                 ^------------miss------------'
"""

from __future__ import annotations

from enum import Enum

from nri.adaptation.time_budget import WHOLE_MISS_SHARE

__all__ = ["Breaker", "BreakerState"]


class BreakerState(Enum):
    """Whether the plugin is called."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """One plugin's breaker.

    Args:
        misses: that many in a row open it; 0 switches it off.
        retry_s: how long it stays open before one request is let through, in seconds.
    """

    __slots__ = ("_part", "_state", "missed", "misses", "retry_at", "retry_s", "silence_s")

    def __init__(self, misses: int = 5, retry_s: float = 30.0) -> None:
        self.misses = misses
        self.retry_s = retry_s
        self._state = BreakerState.CLOSED
        #: Misses in a row.
        self.missed = 0
        self._part = 0.0
        #: How long requests have waited in vain, in all, in seconds; never reset, so that differences can be taken.
        self.silence_s = 0.0
        #: When an open breaker lets a request through, in monotonic seconds.
        self.retry_at = 0.0

    @property
    def state(self) -> BreakerState:
        """The state of the breaker. Open turns into half-open by the next `admit`, not by time alone."""
        return self._state

    def admit(self, now: float) -> bool:
        """Whether to call the plugin. True must be followed by `answered`, `miss` or `abandoned`."""
        if self._state is BreakerState.CLOSED:
            return True
        if self._state is BreakerState.HALF_OPEN or now < self.retry_at:
            return False
        self._state = BreakerState.HALF_OPEN
        return True

    def answered(self) -> bool:
        """The plugin answered, even if with an error. False if the breaker is open, and stays so.

        That is the answer to a request that was on its way before it opened.
        """
        if self._state is BreakerState.OPEN:
            return False
        self._close()
        return True

    def _close(self) -> None:
        self._state = BreakerState.CLOSED
        self.missed = 0
        self._part = 0.0

    def miss(self, now: float, share: float = 1.0) -> bool:
        """The plugin did not answer. True if this opened the breaker, which is worth a line in the log.

        Args:
            share: how much of its timeout the request had.
        """
        trial = self._state is BreakerState.HALF_OPEN
        self._part += share
        if self._part >= WHOLE_MISS_SHARE:
            self._part = max(0.0, self._part - 1.0)
            self.missed += 1
        elif not trial:
            return False
        if not (trial or (self.misses and self.missed >= self.misses)):
            return False
        opened = self._state is BreakerState.CLOSED
        self._state = BreakerState.OPEN
        self.retry_at = now + self.retry_s
        return opened

    def abandoned(self) -> None:
        """The call ended for a reason of the runtime, such as its own deadline: as if it was never made."""
        if self._state is BreakerState.HALF_OPEN:
            self._state = BreakerState.OPEN  # retry_at lies in the past: the next request is the trial

    def reconnected(self) -> None:
        """A new connection of the plugin is synchronized: it starts with a clean record."""
        self._close()

    def configure(self, misses: int, retry_s: float) -> None:
        """Take over new limits. A breaker that is switched off closes; a shorter wait counts from the next opening."""
        self.misses = misses
        self.retry_s = retry_s
        if not misses:
            self._close()
