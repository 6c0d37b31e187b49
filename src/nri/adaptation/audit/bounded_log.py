"""Lines of a log that others can cause as often as they like: some of each kind a minute, the rest told as a number.

A connection that is refused 840 times a second must not fill the disk, and still be seen. Kinds are words of our own
code, so there are few.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from typing import Final

__all__ = ["MOST", "WINDOW_S", "BoundedLog"]

#: How many lines of a kind are logged in so many seconds.
MOST: Final = 10
WINDOW_S: Final = 60.0


class BoundedLog:
    """A bound on the lines that go to `log`. Thread-safe."""

    __slots__ = ("_guard", "_kinds", "_log")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._guard = threading.Lock()
        # Kind -> when its window began, lines in it, how many were left out, and the level.
        self._kinds: dict[str, tuple[float, int, int, int]] = {}

    def line(self, kind: str, level: int, text: str, *args: object) -> None:
        """Log a line, or count it if there were enough of its kind in the last minute."""
        now = monotonic()
        with self._guard:
            began, lines, more, _ = self._kinds.get(kind, (now, 0, 0, level))
            if now - began >= WINDOW_S:
                began, lines, untold, more = now, 0, more, 0
            else:
                untold = 0
            told = lines < MOST
            self._kinds[kind] = (began, lines + 1, more, level) if told else (began, lines, more + 1, level)
        self._tell(kind, level, untold)
        if told:
            self._log.log(level, text, *args)

    def flush(self) -> None:
        """Tell what was left out in windows that are over. To be called now and then."""
        now = monotonic()
        over = []
        with self._guard:
            for kind, (began, _, more, level) in list(self._kinds.items()):
                if now - began >= WINDOW_S:
                    del self._kinds[kind]
                    over.append((kind, level, more))
        for kind, level, more in over:
            self._tell(kind, level, more)

    def _tell(self, kind: str, level: int, more: int) -> None:
        if more:
            self._log.log(level, "%s: %d more in the last minute", kind, more)
