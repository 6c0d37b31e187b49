"""The objects of one kind that are kept in memory, and the names of those for which there is no room. Pure.

All together have a bound (`MAX_KEPT_BYTES`). Where it is reached the largest object is left out, so that an author of
large objects loses those and no others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from nri.kube.decoder import Decoded, TooCostly
from nri.kube.lists import Oversized
from nri.text import count, plain

__all__ = ["MAX_KEPT_BYTES", "Key", "ObjectCache"]

#: Memory of all objects of a kind. A node of 500 pods takes 4 to 8 MiB.
MAX_KEPT_BYTES: Final = 32 << 20
#: Names that are remembered, and shown, of objects that are left out.
_MAX_NAMES, _MAX_SHOWN = 1000, 5

#: Namespace and name, and where two objects may have the same, more.
Key = tuple[str, ...]


class ObjectCache:
    """Objects by key.

    Args:
        max_bytes: of memory for all.

    Attributes:
        objects: those that are kept.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self.objects: dict[Key, Any] = {}
        self._sizes: dict[Key, int] = {}
        self._total = 0
        self._by_size: list[tuple[int, Key]] = []  # the largest first; with entries that hold no longer
        self._left_out: dict[Key, str] = {}
        self._crowded_out: dict[Key, int] = {}
        self._unnamed = 0

    def take(
        self, item: bytes | Oversized, decode: Callable[[bytes], Decoded], key_of: Callable[[dict[str, Any]], Key]
    ) -> None:
        """Keep an object of a list, or note why it is left out. ValueError for what is not an object of that kind.

        Args:
            item: of `ListSplitter`.
            decode: of `make_decoder`.
            key_of: the key of an object; raises ValueError for one without.
        """
        if isinstance(item, Oversized):
            self.leave_out(item.key, item.reason)
            return
        try:
            value, size = decode(item)
        except TooCostly as error:
            self.leave_out(Oversized.of(item, len(item)).key, str(error))
            return
        self.put(key_of(value), value, size)

    def put(self, key: Key, value: Any, size: int) -> None:
        """Keep an object that takes `size` bytes, in place of the one with its key."""
        self.remove(key)
        self.objects[key], self._sizes[key] = value, size
        self._total += size
        heapq.heappush(self._by_size, (-size, key))
        while self._total > self._max_bytes:
            negative, largest = heapq.heappop(self._by_size)
            if self._sizes.get(largest) == -negative:
                self._forget(largest)
                self._note(largest, f"there is no room for its {-negative} bytes of memory", -negative)
        if len(self._by_size) > 2 * len(self._sizes) + _MAX_NAMES:
            self._by_size = [(-size, key) for key, size in self._sizes.items()]
            heapq.heapify(self._by_size)

    def leave_out(self, key: Key, reason: str) -> None:
        """Note that an object cannot be kept; what was known of it goes."""
        self.remove(key)
        self._note(key, reason)

    def remove(self, key: Key) -> bool:
        """Forget an object; return whether it was kept."""
        self._left_out.pop(key, None)
        self._crowded_out.pop(key, None)
        return key in self.objects and self._forget(key)

    @property
    def has_room_again(self) -> bool:
        """Whether an object that was left out for lack of room would take less than half of what is free now."""
        free = self._max_bytes - self._total
        return bool(self._crowded_out) and min(self._crowded_out.values()) <= free // 2

    @property
    def problem(self) -> str:
        """Say in one line which objects are left out and why; "" if none are."""
        number = len(self._left_out) + self._unnamed
        if not number:
            return ""
        first = [*self._left_out.items()][:_MAX_SHOWN]
        shown = [f"{plain('/'.join(filter(None, key[:2])), 200)}: {reason}" for key, reason in first]
        more = f"; and {number - len(shown)} more" if number > len(shown) else ""
        return f"{count(number, 'object')} left out: {'; '.join(shown)}{more}"

    def _forget(self, key: Key) -> bool:
        del self.objects[key]
        self._total -= self._sizes.pop(key)
        return True

    def _note(self, key: Key, reason: str, size: int = 0) -> None:
        if len(self._left_out) >= _MAX_NAMES:
            self._unnamed += 1
            return
        self._left_out[key] = reason
        if size:
            self._crowded_out[key] = size
