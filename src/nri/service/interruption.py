"""A signal as an exception, for verbs that have to clean up: SIGINT, SIGTERM and SIGHUP while a block lasts.

Without it SIGTERM and SIGHUP end the process at once, and what it has created stays behind.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["SignalStop", "Stopped"]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """A signal has stopped the verb; the exit code is that of a process which the signal has ended, as of shells.

    Attributes:
        signal, number: its name, such as SIGTERM, and number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal, self.number = signal.Signals(number).name, number


class SignalStop:
    """Raise `Stopped` in the main thread at the first signal; later ones do not interrupt the clean-up.

    Senders often send more than one: `timeout` sends SIGTERM to the process and to its group. A signal that is ignored,
    as SIGHUP under nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._number = 0
        self._held = self._is_over = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self._handlers = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
        for number in self._handlers:
            signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the block finish first, also with an error: what it creates is known only after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._number:
                raise Stopped(self._number)

    def finish(self) -> None:
        """Let no signal interrupt what follows: the clean-up."""
        self._is_over = True

    def _take(self, number: int, _: object) -> None:
        if not self._number and not self._is_over:
            self._number = number
            if not self._held:
                raise Stopped(number)
