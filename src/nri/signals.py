"""Signals: the moment at which they get in before a wait that has no end, and the stop that they ask for.

The interpreter runs a signal's handler between two of its own instructions. Compiled modules (`docs/howto/fast.md`)
have none: a SIGTERM that comes while they work would wait until the next read returns, which may be never. This module
is never compiled, so a call of `check_signals` is such a moment.
"""

import os
import signal
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Stop", "check_signals", "wake_fd"]

# The pipe into which the interpreter writes a byte for each signal that comes, and the thread that listens to them: one
# for the process, as there is one set of handlers. A signal that comes in the instant before a wait does not interrupt
# it; but its byte is there, so that a wait for this pipe need not look up now and then.
_pipe: "tuple[int, int] | None" = None
_listener = 0


def check_signals() -> None:
    """Run the handlers of signals that have come, if this is the main thread."""


def wake_fd() -> int:
    """The descriptor that can be read once a signal has come; -1 in a thread that has not called `Stop.listen`.

    A waiting thread reads what is there, and then calls `check_signals`.
    """
    return _pipe[0] if _pipe is not None and _listener == get_ident() else -1


def _wake_pipe() -> tuple[int, int]:
    global _pipe  # noqa: PLW0603 - the interpreter has one such descriptor
    if _pipe is None:
        _pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(_pipe[1], False)
    return _pipe


class Stop:
    """Whether a program is to end, and by which signal. The first one that comes counts.

    Args:
        on_stop: called in the signal's handler, in the main thread between two of its instructions.
        second_ends: a second signal ends the process at once, with exit code 1.

    Attributes:
        signal: number of the first signal that came, or 0.
    """

    __slots__ = ("_listens", "_on_stop", "_second_ends", "_wake", "signal")

    def __init__(self, on_stop: "Callable[[], None] | None" = None, *, second_ends: bool = False) -> None:
        self.signal = 0
        self._on_stop, self._second_ends = on_stop, second_ends
        self._listens = False
        self._wake = allocate_lock()
        self._wake.acquire()

    def __bool__(self) -> bool:
        return self.signal != 0

    def listen(self, *more: int) -> None:
        """Take SIGTERM, SIGINT and `more` from now on. Only in the main thread, as Python wants it."""
        global _listener  # noqa: PLW0603 - see `_pipe`
        signal.set_wakeup_fd(_wake_pipe()[1], warn_on_full_buffer=False)
        _listener = get_ident()
        self._listens = True
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
            if _pipe is not None:
                os.write(_pipe[1], b"\0")
        except (RuntimeError, BlockingIOError):
            pass  # it was stopped before, or by another thread just now; a full pipe wakes as well

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until stopped. For one thread."""
        self._wake.acquire(timeout=seconds)

    def wait_for_signal(self) -> int:
        """Wait until stopped, however long; return the signal's number. For one thread."""
        woken = _wake_pipe()[0]
        while not self:
            os.read(woken, 64)
        return self.signal

    def end_process_in(self, seconds: float, report: "Callable[[str], object]") -> None:
        """End the process with `exit_code` this many seconds from now, unless it has ended by then.

        The end of a process waits for all threads that are not daemons, and one of them may wait for another program.
        `report` gets the names of these threads first. Nothing happens in a process that does not `listen`.
        """
        if not self._listens:
            return
        import threading  # noqa: PLC0415  most programs need none of it

        def end() -> None:
            try:
                names = (thread.name for thread in threading.enumerate() if not thread.daemon)
                report(", ".join(sorted(names)))
            finally:
                os._exit(self.exit_code)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()

    @property
    def exit_code(self) -> int:
        """Exit code of a program that was stopped: 130 after SIGINT, as shells have it, else 0."""
        return 130 if self.signal == signal.SIGINT else 0
