"""The circuit breaker of one plugin: after several misses in a row it leaves the plugin out for a while.

A miss is a request without an answer: the timeout passed or the connection was lost. An error that a handler returned
is an answer. A request that had less than its timeout is a partial miss; partial misses add up until there is an
answer. Callers pass the time in (monotonic seconds), and the plugin's own lock protects the state.

    closed --misses in a row--> open --retry_s passed--> half-open --answer--> closed
                                 ^------------miss------------'
"""

from __future__ import annotations

from enum import Enum

from nri.adaptation.time_budget import WHOLE_MISS_SHARE


class BreakerState(Enum):
    """Whether the plugin is called."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """The circuit breaker of a plugin.

    Args:
        misses: the number of misses in a row that open the breaker; 0 switches it off.
        retry_s: how long the breaker stays open before it lets a request through, in seconds.
    """

    __slots__ = ("_partial_miss", "_state", "missed", "misses", "retry_at", "retry_s", "silence_s")

    def __init__(self, misses: int = 5, retry_s: float = 30.0) -> None:
        self.misses = misses
        self.retry_s = retry_s
        self._state = BreakerState.CLOSED
        #: Misses in a row.
        self.missed = 0
        self._partial_miss = 0.0
        #: How long requests have waited without an answer, in total, in seconds. Never reset, because events compute
        #: differences.
        self.silence_s = 0.0
        #: When an open breaker lets a request through, in monotonic seconds.
        self.retry_at = 0.0

    @property
    def state(self) -> BreakerState:
        """The state of the breaker.

        Time alone changes nothing: an open breaker becomes half-open at the next `admit`.
        """
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
        """Record that the plugin answered, even with an error. Returns False if the breaker is open and stays open.

        It stays open if the request was sent before the breaker opened.
        """
        if self._state is BreakerState.OPEN:
            return False
        self._close()
        return True

    def _close(self) -> None:
        self._state = BreakerState.CLOSED
        self.missed = 0
        self._partial_miss = 0.0

    def miss(self, now: float, share: float = 1.0) -> bool:
        """Record that the plugin did not answer. Returns True if this opened the breaker, which the caller logs.

        Args:
            share: the share of its timeout that the request had.
        """
        trial = self._state is BreakerState.HALF_OPEN
        self._partial_miss += share
        if self._partial_miss >= WHOLE_MISS_SHARE:
            self._partial_miss = max(0.0, self._partial_miss - 1.0)
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
        """Record that the runtime ended the call, for example at its own deadline. The call does not count."""
        if self._state is BreakerState.HALF_OPEN:
            self._state = BreakerState.OPEN  # retry_at lies in the past: the next request is the trial

    def reconnected(self) -> None:
        """Record that a new connection of the plugin is synchronized: it starts without misses."""
        self._close()

    def configure(self, misses: int, retry_s: float) -> None:
        """Set new limits. A breaker that is switched off closes. A new `retry_s` applies from the next opening."""
        self.misses = misses
        self.retry_s = retry_s
        if not misses:
            self._close()
