"""The deadlines of one pull."""

from __future__ import annotations

import time

from nri.engine.support.errors import CommandTimeout

COPYING, UNPACKING = "copying", "unpacking"
#: A pull that moves less than _SLOW_BYTES in _SLOW_S is slow: it uses hardly any bandwidth of the node's disk.
_SLOW_BYTES, _SLOW_S = 1 << 20, 5.0


class PullTimer:
    """The deadlines of a pull, which cover its requests, its copy and the unpacking of all its layers.

    A step without progress for `stall_s` seconds is cancelled, and so is a pull that takes longer than `total_s`.
    """

    def __init__(self, name: str, stall_s: float, total_s: float) -> None:
        self._name, self._stall_s, self._total_s = name, stall_s, total_s
        self.start()

    @property
    def is_slow(self) -> bool:
        """Whether the pull mostly waits, for its registry or for another pull."""
        return self._step != UNPACKING and time.monotonic() - self._fast_at > _SLOW_S

    def start(self) -> None:
        """Count from now, because the pull has waited for other pulls before."""
        self._began_at = time.monotonic()
        self.start_step("waiting")

    def start_step(self, step: str) -> None:
        """Count progress from the beginning of a step: COPYING or UNPACKING."""
        self._step, self._done, self._fast_from = step, -1, 0
        self._progress_at = self._fast_at = time.monotonic()

    def remaining_s(self) -> float:
        """Return the seconds until the pull's deadline. Raises CommandTimeout after it."""
        if (remaining_s := self._began_at + self._total_s - time.monotonic()) <= 0:
            raise CommandTimeout(f"pulling {self._name}", self._total_s)
        return remaining_s

    def check(self, done_bytes: int) -> None:
        """Note the progress of the step. Raises CommandTimeout if there is none, or if the pull takes too long."""
        self.remaining_s()
        now = time.monotonic()
        if done_bytes != self._done:
            self._done, self._progress_at = done_bytes, now
        elif now - self._progress_at > self._stall_s:
            raise CommandTimeout(f"pulling {self._name}: {self._step} without progress", self._stall_s)
        if done_bytes - self._fast_from >= _SLOW_BYTES:
            self._fast_from, self._fast_at = done_bytes, now
