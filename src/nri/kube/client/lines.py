"""A stream of bytes cut into lines, none of them longer than a bound. Pure.

Next: `nri.kube.client.follow`, which reads a watch by it.
"""

from __future__ import annotations

__all__ = ["Lines", "TooLong"]


class TooLong(ValueError):
    """A line is longer than its bound."""


class Lines:
    """Cut what comes in pieces into lines; the cost is linear in what comes, however small the pieces are."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that have ended, without their ends and without empty ones. Raises TooLong."""
        *ended, rest = data.split(b"\n")
        if not ended:
            self._keep(rest)
            return []
        self._keep(ended[0])
        lines = [b"".join(self._parts), *ended[1:]]
        self._parts, self._size = [], 0
        self._keep(rest)
        if any(len(line) > self._longest for line in lines):
            raise TooLong(f"an event is longer than {self._longest} bytes")
        return [stripped for line in lines if (stripped := line.strip())]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            raise TooLong(f"an event is longer than {self._longest} bytes")
        if part:
            self._parts.append(part)
