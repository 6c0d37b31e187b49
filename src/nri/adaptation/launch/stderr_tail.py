"""The last lines that a plugin wrote to stderr, which an operator needs when it dies. Bounded, without I/O."""

from __future__ import annotations

from collections import deque

from nri.text import lines as lines_of

#: At most this many lines are stored.
MAX_LINES = 20
#: At most this many bytes are stored.
MAX_BYTES = 8192
#: A line is cut to this many bytes.
MAX_LINE_BYTES = 1024


class StderrTail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MAX_LINES)
        self._partial = b""

    def add(self, data: bytes) -> None:
        """Add the next piece of the stream."""
        *lines, partial = (self._partial + data).rsplit(b"\n", MAX_LINES + 1)
        self._lines.extend(_cut_line(line) for line in lines[-MAX_LINES:])
        self._partial = partial[: MAX_LINE_BYTES + 1]  # one more byte shows that the line is too long

    @property
    def text(self) -> str:
        """The stored lines, made printable (`nri.text.plain`)."""
        lines = [*self._lines, *([_cut_line(self._partial)] if self._partial else [])]
        text = b"\n".join(lines)[-MAX_BYTES:]
        return lines_of(text.decode(errors="replace").strip())


def _cut_line(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE_BYTES else line[: MAX_LINE_BYTES - 3] + b"..."
