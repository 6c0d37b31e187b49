"""The last lines that a plugin wrote to stderr, which are what an operator needs when it dies. Bounded, and no I/O."""

from __future__ import annotations

from collections import deque

from nri.text import lines as lines_of

__all__ = ["LAST_LINES", "LastWords"]

#: Lines and bytes that are kept, and the bytes of one line.
LAST_LINES = 20
LAST_BYTES = 8192
LINE_BYTES = 1024


class LastWords:
    """The end of a stream of lines."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._partial = b""

    def add(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        *lines, rest = (self._partial + data).rsplit(b"\n", LAST_LINES + 1)
        self._lines.extend(_short(line) for line in lines[-LAST_LINES:])
        self._partial = rest[: LINE_BYTES + 1]  # one more, which shows that the line is too long

    @property
    def text(self) -> str:
        """The lines that are kept, each of them plain (`nri.text`)."""
        lines = [*self._lines, *([_short(self._partial)] if self._partial else [])]
        text = b"\n".join(lines)[-LAST_BYTES:]
        return lines_of(text.decode(errors="replace").strip())


def _short(line: bytes) -> bytes:
    return line if len(line) <= LINE_BYTES else line[: LINE_BYTES - 3] + b"..."
