"""The signals that stop a program, and a wait that they cut short.

One job: remember the first of SIGTERM and SIGINT, have the present session end, and wake the wait. Next:
`nri.stub.program.process` decides what a stop means, `nri.stub.program.reconnect` waits.
"""

from __future__ import annotations

import signal
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LOOK_UP_S", "Stop"]

#: How often what waits without an end looks whether a signal has come, in seconds: one that comes in the instant before
#: a wait does not interrupt it. Kubernetes kills ten seconds or more after SIGTERM.
LOOK_UP_S = 4


class Stop:
    """Whether the program is to end, and by which signal.

    Args:
        on_stop: called in the signal's handler, in the main thread between two of its instructions.

    Attributes:
        signal: number of the first signal that came, or 0.
    """

    __slots__ = ("_on_stop", "_wake", "signal")

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self.signal = 0
        self._on_stop = on_stop
        self._wake = allocate_lock()
        self._wake.acquire()

    def __bool__(self) -> bool:
        return self.signal != 0

    def listen(self) -> None:
        """Take SIGTERM and SIGINT from now on. Only in the main thread, as Python wants it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.take)

    def take(self, number: int, _: object = None) -> None:
        """Stop, as this signal would; from any thread."""
        self.signal = self.signal or number
        self._on_stop()
        try:
            self._wake.release()
        except RuntimeError:
            pass  # it was stopped before, or by another thread just now

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until stopped."""
        self._wake.acquire(timeout=seconds)

    @property
    def exit_code(self) -> int:
        """Exit code of a program that was stopped: 130 after SIGINT, as shells have it, else 0."""
        return 130 if self.signal == signal.SIGINT else 0
