"""Signals: run handlers before a long wait, and stop a program on a signal.

The interpreter runs a signal's handler between two of its own instructions. Compiled modules (`docs/howto/fast.md`)
do not have such instructions: a SIGTERM during their work would wait until the next read returns, perhaps forever. This
module is never compiled, so that a call of `check_signals` runs the handlers.
"""

import os
import signal
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The pipe into which the interpreter writes a byte for each signal, and the thread that handles them: one for the
# process, as there is one set of handlers. A signal just before a wait does not interrupt the wait, but its byte does
# if the wait includes this pipe.
_pipe: "tuple[int, int] | None" = None
_listener = 0


def check_signals() -> None:
    """Run the handlers of pending signals, if this is the main thread."""


def wake_fd() -> int:
    """The descriptor that is readable after a signal. Returns -1 in a thread that has not called `Stop.listen`.

    A waiting thread reads its bytes, and then calls `check_signals`.
    """
    return _pipe[0] if _pipe is not None and _listener == get_ident() else -1


def _wake_pipe() -> tuple[int, int]:
    global _pipe  # noqa: PLW0603 - the interpreter has one such descriptor
    if _pipe is None:
        _pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(_pipe[1], False)
    return _pipe


class Stop:
    """Whether a program has to end, and the signal that requires it. Later signals are ignored.

    Args:
        on_stop: called in the signal's handler, in the main thread between two of its instructions.
        second_ends: whether a second signal ends the process at once, with exit code 1.

    Attributes:
        signal: the number of the first signal, or 0.
    """

    __slots__ = ("_is_listening", "_on_stop", "_pending", "_second_ends", "_wake", "signal")

    def __init__(self, on_stop: "Callable[[], None] | None" = None, *, second_ends: bool = False) -> None:
        self.signal = 0
        self._on_stop, self._second_ends = on_stop, second_ends
        self._is_listening = False
        self._pending: list[Callable[[], object]] = []
        self._wake = allocate_lock()
        self._wake.acquire()

    def __bool__(self) -> bool:
        return self.signal != 0

    def listen(self, *more: int) -> None:
        """Handle SIGTERM, SIGINT and `more`. Only in the main thread, as Python requires."""
        global _listener  # noqa: PLW0603 - see `_pipe`
        signal.set_wakeup_fd(_wake_pipe()[1], warn_on_full_buffer=False)
        _listener = get_ident()
        self._is_listening = True
        for number in (signal.SIGTERM, signal.SIGINT, *more):
            signal.signal(number, self.take)

    def call_after(self, number: int, action: "Callable[[], object]") -> None:
        """Call `action` after a signal of this number, in the thread of `wait_for_signal`. Call it after `listen`.

        Signals that arrive before the call of `action` cause one call, also signals that were blocked until now.
        """

        def note(*_: object) -> None:
            if action not in self._pending:
                self._pending.append(action)

        signal.signal(number, note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})

    def take(self, number: int, _: object = None) -> None:
        """Stop as if by this signal. Any thread may call it."""
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
            pass  # already stopped; a full pipe wakes the thread, too

    def wait(self, seconds: float) -> None:
        """Wait `seconds`, or until stopped. For one thread."""
        self._wake.acquire(timeout=seconds)

    def wait_for_signal(self) -> int:
        """Wait until stopped, and return the signal's number. For one thread."""
        woken = _wake_pipe()[0]
        while not self:
            if self._pending:
                self._pending.pop()()
            else:
                os.read(woken, 64)
        return self.signal

    def end_process_in(self, seconds: float, report: "Callable[[str], object]") -> None:
        """End the process with `exit_code` this many seconds from now, unless it has ended by then.

        The end of a process waits for all threads that are not daemons, which may wait for other programs.
        `report` gets the names of these threads first. Without `listen` this has no effect.
        """
        if not self._is_listening:
            return
        import threading  # noqa: PLC0415  most programs do not need it

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
        """Exit code of a stopped program: 130 after SIGINT, as in shells, else 0."""
        return 130 if self.signal == signal.SIGINT else 0
