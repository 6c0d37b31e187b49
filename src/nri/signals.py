"""Signals: the moment at which they get in before a wait that has no end, and the stop that they ask for.

The interpreter runs a signal's handler between two of its own instructions. Compiled modules (`docs/howto/fast.md`)
have none: a SIGTERM that comes while they work would wait until the next read returns, which may be never. This module
is never compiled, so a call of `check_signals` is such a moment. Next: `nri.stream`, which calls it.
"""

import os
import signal
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LOOK_UP_S", "Stop", "check_signals"]

#: How often what waits without an end looks whether a signal has come, in seconds: one that comes in the instant before
#: a wait does not interrupt it. Kubernetes kills ten seconds or more after SIGTERM.
LOOK_UP_S = 4


def check_signals() -> None:
    """Run the handlers of signals that have come, if this is the main thread."""


class Stop:
    """Whether a program is to end, and by which signal. The first one that comes counts.

    Args:
        on_stop: called in the signal's handler, in the main thread between two of its instructions.
        second_ends: a second signal ends the process at once, with exit code 1.

    Attributes:
        signal: number of the first signal that came, or 0.
    """

    __slots__ = ("_on_stop", "_second_ends", "_wake", "signal")

    def __init__(self, on_stop: "Callable[[], None] | None" = None, *, second_ends: bool = False) -> None:
        self.signal = 0
        self._on_stop, self._second_ends = on_stop, second_ends
        self._wake = allocate_lock()
        self._wake.acquire()

    def __bool__(self) -> bool:
        return self.signal != 0

    def listen(self, *more: int) -> None:
        """Take SIGTERM, SIGINT and `more` from now on. Only in the main thread, as Python wants it."""
        for number in (signal.SIGTERM, signal.SIGINT, *more):
            signal.signal(number, self.take)

    def take(self, number: int, _: object = None) -> None:
        """Stop, as this signal would; from any thread."""
        if self.signal and self._second_ends:
            os._exit(1)
        self.signal = self.signal or number
        if self._on_stop is not None:
            self._on_stop()
        try:
            self._wake.release()
        except RuntimeError:
            pass  # it was stopped before, or by another thread just now

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until stopped. For one thread."""
        self._wake.acquire(timeout=seconds)

    def wait_for_signal(self) -> int:
        """Wait until stopped, however long; return the signal's number. For one thread."""
        while not self:
            self.wait(LOOK_UP_S)
        return self.signal

    @property
    def exit_code(self) -> int:
        """Exit code of a program that was stopped: 130 after SIGINT, as shells have it, else 0."""
        return 130 if self.signal == signal.SIGINT else 0
