"""Which containers of a balloon are tried again when memory was given or taken: those that have none of their own.

One job: :class:`Waiting`. Containers that ask for the same stand in one line, so that of all in it only the first is
tried while memory is as it was. Pure. Next: `balloon`, which has one, and `policy`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from nri.placement.zones import Request

__all__ = ["BEFORE_ALL", "Turn", "Waiting"]

#: A container's place in its balloon: the number of its pod, its own in the pod, and its id.
Turn = tuple[float, int, str]
BEFORE_ALL: Turn = (-1, 0, "")


class Waiting:
    """Containers in lines by their request; in the line None those that have memory, but get it anew each time."""

    def __init__(self) -> None:
        self._lines: dict[Request | None, list[Turn]] = {}
        self._of: dict[str, tuple[Request | None, Turn]] = {}

    def put(self, turn: Turn, request: Request | None) -> None:
        """Let a container wait; if it does already, from now on so."""
        self.drop(turn[2])
        insort(self._lines.setdefault(request, []), turn)
        self._of[turn[2]] = request, turn

    def drop(self, name: str) -> None:
        """Let a container wait no more, if it does."""
        if name in self._of:
            request, turn = self._of.pop(name)
            line = self._lines[request]
            del line[bisect_left(line, turn)]
            if not line:
                del self._lines[request]

    def move(self, turn: Turn) -> None:
        """Give a container another turn, if it waits."""
        if turn[2] in self._of:
            self.put(turn, self._of[turn[2]][0])

    def next(self, begin: Turn, end: Turn | None, hopeless: Callable[[Request | None], bool]) -> Turn | None:
        """The first after one turn and before another whose line has hope; None if there is none."""
        found = end
        for request, line in self._lines.items():
            place = bisect_right(line, begin)
            if place < len(line) and (found is None or line[place] < found) and not hopeless(request):
                found = line[place]
        return None if found is end else found

    def short(self) -> bool:
        """Whether one of them has no memory."""
        return any(request is not None for request in self._lines)

    def copy(self) -> Waiting:
        """The same, to be restored."""
        made = Waiting()
        made._lines, made._of = {request: list(line) for request, line in self._lines.items()}, dict(self._of)
        return made
