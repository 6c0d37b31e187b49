"""The pause before the next attempt: exponential with full jitter, reset after a good run.

The ceiling doubles from `first_s` to `cap_s`. The delay is random between zero and the ceiling, so that a thousand
nodes that fail together do not reconnect together. Callers report the start and end of runs. Backoff is used between
two runs of a launched plugin and between two connections of a plugin.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The ceiling of the first delay, in seconds.
FIRST_S = 1.0
#: The highest ceiling, in seconds.
CAP_S = 30.0
#: A run of at least this many seconds resets the count of failures.
GOOD_RUN_S = 60.0
#: This many short runs in a row are a crash loop.
CRASH_LOOP_FAILURES = 5


def _random_fraction() -> float:
    """A random number, 0 <= x < 1. Importing `random` would slow the start of every plugin by 2 ms."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Backoff:
    """The delays between runs of a program or connection. Not thread-safe.

    Args:
        first_s: the ceiling of the first delay, in seconds.
        cap_s: the highest ceiling, in seconds.
        good_run_s: the duration in seconds of a run that resets the count of failures.
        crash_loop_failures: the number of consecutive short runs that count as a crash loop.
        clock: returns monotonic seconds.
        uniform: returns a random number, 0 <= x < 1.
    """

    __slots__ = (
        "_clock",
        "_random_fraction",
        "_started",
        "cap_s",
        "crash_loop_failures",
        "failures",
        "first_s",
        "good_run_s",
    )  # fmt: skip

    def __init__(
        self,
        first_s: float = FIRST_S,
        cap_s: float = CAP_S,
        good_run_s: float = GOOD_RUN_S,
        crash_loop_failures: int = CRASH_LOOP_FAILURES,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = _random_fraction,
    ) -> None:
        self.first_s = first_s
        self.cap_s = cap_s
        self.good_run_s = good_run_s
        self.crash_loop_failures = crash_loop_failures
        self._clock = clock
        self._random_fraction = uniform
        self._started: float | None = None
        #: The number of consecutive short runs.
        self.failures = 0

    def started(self) -> None:
        """Record the start of a run."""
        self._started = self._clock()

    def ended(self) -> float:
        """Record the end of a run, or its failed start. Returns the seconds to wait before the next run."""
        if self._started is not None and self._clock() - self._started >= self.good_run_s:
            self.failures = 0
        self._started = None
        delay_s = self._random_fraction() * self.ceiling_s
        self.failures += 1
        return delay_s

    def reset(self) -> None:
        """Forget all failures, after success or a change (for example, of the configuration)."""
        self.failures = 0
        self._started = None

    @property
    def ceiling_s(self) -> float:
        """The upper bound of the next delay, in seconds."""
        # The exponent is limited: 2.0 ** 1100 is an OverflowError, and a crash loop reaches it in a night.
        return float(min(self.cap_s, self.first_s * 2.0 ** min(self.failures, 60)))

    @property
    def crash_loop(self) -> bool:
        """Whether the runs keep failing soon after each start."""
        return self.failures >= self.crash_loop_failures
