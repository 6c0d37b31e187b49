"""The queue of a balloon's containers that are pinned again when memory was allocated or released."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from nri.placement.zones import Request

#: The position of a container in its balloon: the rank of its pod, its index in the pod, and its id.
Turn = tuple[float, int, str]
BEFORE_ALL: Turn = (-1, 0, "")


class RetryQueue:
    """Containers by their request; of equal requests only the first is tried until memory changes.

    Containers with the request None have memory, but it does not begin at the nodes of their CPUs.
    """

    def __init__(self) -> None:
        self._lines: dict[Request | None, list[Turn]] = {}
        self._entries: dict[str, tuple[Request | None, Turn]] = {}

    def put(self, turn: Turn, request: Request | None) -> None:
        """Add a container, or replace its entry."""
        self.drop(turn[2])
        insort(self._lines.setdefault(request, []), turn)
        self._entries[turn[2]] = request, turn

    def drop(self, name: str) -> None:
        """Remove a container, if it is in the queue."""
        if name in self._entries:
            request, turn = self._entries.pop(name)
            line = self._lines[request]
            del line[bisect_left(line, turn)]
            if not line:
                del self._lines[request]

    def move(self, turn: Turn) -> None:
        """Give a container another turn, if it is in the queue."""
        if turn[2] in self._entries:
            self.put(turn, self._entries[turn[2]][0])

    def next(self, begin: Turn, end: Turn | None, hopeless: Callable[[Request | None], bool]) -> Turn | None:
        """The first turn between `begin` and `end` whose request may succeed. Returns None without such a turn."""
        first = end
        for request, line in self._lines.items():
            place = bisect_right(line, begin)
            if place < len(line) and (first is None or line[place] < first) and not hopeless(request):
                first = line[place]
        return None if first is end else first

    def short(self) -> bool:
        """Whether a container in the queue has no memory."""
        return any(request is not None for request in self._lines)

    def copy(self) -> RetryQueue:
        """An independent copy."""
        queue = RetryQueue()
        queue._lines = {request: list(line) for request, line in self._lines.items()}
        queue._entries = dict(self._entries)
        return queue
