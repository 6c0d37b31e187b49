"""The queue of a balloon's containers to be pinned again after memory is allocated or released."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from nri.placement.zones import Request

#: The position of a container in its balloon: the rank of its pod, its index in the pod, and its id.
Turn = tuple[float, int, str]
BEFORE_ALL: Turn = (-1, 0, "")


class RetryQueue:
    """Containers by their request; of equal requests only the first is tried until memory is allocated or released.

    Containers with the request None have memory, but not on the nodes closest to their CPUs.
    """

    def __init__(self) -> None:
        self._turns_by_request: dict[Request | None, list[Turn]] = {}
        self._entries: dict[str, tuple[Request | None, Turn]] = {}

    def put(self, turn: Turn, request: Request | None) -> None:
        """Add a container, or replace its entry."""
        self.drop(turn[2])
        insort(self._turns_by_request.setdefault(request, []), turn)
        self._entries[turn[2]] = request, turn

    def drop(self, container_id: str) -> None:
        """Remove a container, if it is in the queue."""
        if container_id in self._entries:
            request, turn = self._entries.pop(container_id)
            turns = self._turns_by_request[request]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del self._turns_by_request[request]

    def move(self, turn: Turn) -> None:
        """Give a container another turn, if it is in the queue."""
        if turn[2] in self._entries:
            self.put(turn, self._entries[turn[2]][0])

    def next(self, begin: Turn, end: Turn | None, hopeless: Callable[[Request | None], bool]) -> Turn | None:
        """The first turn between `begin` and `end` whose request may succeed. Returns None without such a turn."""
        first = end
        for request, turns in self._turns_by_request.items():
            index = bisect_right(turns, begin)
            if index < len(turns) and (first is None or turns[index] < first) and not hopeless(request):
                first = turns[index]
        return None if first is end else first

    def has_unmet_request(self) -> bool:
        """Whether a container in the queue has no memory nodes allocated."""
        return any(request is not None for request in self._turns_by_request)

    def copy(self) -> RetryQueue:
        """An independent copy."""
        queue = RetryQueue()
        queue._turns_by_request = {request: list(turns) for request, turns in self._turns_by_request.items()}
        queue._entries = dict(self._entries)
        return queue
