"""Raise an exception at SIGINT, SIGTERM and SIGHUP, for verbs that have to clean up what they created."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """A signal stopped the verb. The exit code is 128 plus the number of the signal, as in shells.

    Attributes:
        signal, number: the name of the signal, for example SIGTERM, and its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal, self.number = signal.Signals(number).name, number


class SignalStop:
    """Raise `Stopped` in the main thread at the first signal; further signals do not interrupt the cleanup.

    A process may get several signals: `timeout` sends SIGTERM to the process and to its group. Ignored signals stay
    ignored, for example SIGHUP under nohup.
    """

    def __init__(self) -> None:
        self._number = 0
        self._is_held = self._is_over = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self._handlers = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
        for number in self._handlers:
            signal.signal(number, self._record_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay the exception to the end of the block, so that the cleanup knows what the block created."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self._number:
                raise Stopped(self._number)

    def finish(self) -> None:
        """Ignore signals from now on, so that they do not interrupt the cleanup."""
        self._is_over = True

    def _record_signal(self, number: int, _: object) -> None:
        if not self._number and not self._is_over:
            self._number = number
            if not self._is_held:
                raise Stopped(number)
