"""A log with a limited rate of lines: some lines of each kind per minute, then only the number of further lines.

A connection that is refused 840 times a second must be visible, but must not fill the disk. The kinds are strings in
the code, so there are few.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from typing import Final

#: At most this many lines of a kind are logged in `WINDOW_S` seconds.
MAX_LINES: Final = 10
WINDOW_S: Final = 60.0


class BoundedLog:
    """Limits the rate of lines to `log`. Thread-safe."""

    __slots__ = ("_guard", "_kinds", "_log")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._guard = threading.Lock()
        # For each kind: start of its window, lines in it, suppressed lines, and level.
        self._kinds: dict[str, tuple[float, int, int, int]] = {}

    def line(self, kind: str, level: int, text: str, *args: object) -> None:
        """Log a line, or count it if `MAX_LINES` of its kind were logged in the last minute."""
        now = monotonic()
        with self._guard:
            began, lines, more, _ = self._kinds.get(kind, (now, 0, 0, level))
            if now - began >= WINDOW_S:
                began, lines, suppressed, more = now, 0, more, 0
            else:
                suppressed = 0
            is_logged = lines < MAX_LINES
            self._kinds[kind] = (began, lines + 1, more, level) if is_logged else (began, lines, more + 1, level)
        self._log_suppressed(kind, level, suppressed)
        if is_logged:
            self._log.log(level, text, *args)

    def flush(self) -> None:
        """Log the number of suppressed lines of windows that have ended. Call it from time to time."""
        now = monotonic()
        expired = []
        with self._guard:
            for kind, (began, _, more, level) in list(self._kinds.items()):
                if now - began >= WINDOW_S:
                    del self._kinds[kind]
                    expired.append((kind, level, more))
        for kind, level, more in expired:
            self._log_suppressed(kind, level, more)

    def _log_suppressed(self, kind: str, level: int, more: int) -> None:
        if more:
            self._log.log(level, "%s: %d more in the last minute", kind, more)
