"""A cache of API objects of a kind with a limit for their memory.

Above the limit the largest object is omitted, so that an author of large objects does not affect other objects.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from nri.kube.decoder import DecodedObject, TooCostly
from nri.kube.lists import OversizedObject
from nri.text import count, plain

#: Limit for the memory of all objects of a kind. A node of 500 pods takes 4 to 8 MiB.
MAX_KEPT_BYTES: Final = 32 << 20
#: Keep at most this many names of omitted objects.
_MAX_NAMES = 1000
#: Show at most this many names of omitted objects.
_MAX_SHOWN = 5
#: Namespace and name, and further strings if these are not unique.
Key = tuple[str, ...]


class ObjectCache:
    """API objects by key.

    Args:
        max_bytes: limit for the memory of all objects.

    Attributes:
        objects: the cached objects.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self.objects: dict[Key, Any] = {}
        self._sizes: dict[Key, int] = {}
        self._total = 0
        self._by_size: list[tuple[int, Key]] = []  # the largest first, with outdated entries
        self._left_out: dict[Key, str] = {}
        self._crowded_out: dict[Key, int] = {}
        self._unnamed_count = 0

    def take(
        self,
        item: bytes | OversizedObject,
        decode: Callable[[bytes], DecodedObject],
        key_of: Callable[[dict[str, Any]], Key],
    ) -> None:
        """Add an object of a list, or record why it is omitted. Raises ValueError if the object is invalid.

        Args:
            item: an item from `ListSplitter`.
            decode: a function from `make_decoder`.
            key_of: returns the key of an object; raises ValueError if the object has no key.
        """
        if isinstance(item, OversizedObject):
            self.leave_out(item.key, item.reason)
            return
        try:
            value, size = decode(item)
        except TooCostly as error:
            self.leave_out(OversizedObject.of(item, len(item)).key, str(error))
            return
        self.put(key_of(value), value, size)

    def put(self, key: Key, value: Any, size: int) -> None:
        """Add an object of `size` bytes, or replace the object with its key."""
        self.remove(key)
        self.objects[key], self._sizes[key] = value, size
        self._total += size
        heapq.heappush(self._by_size, (-size, key))
        while self._total > self._max_bytes:
            negative, largest = heapq.heappop(self._by_size)
            if self._sizes.get(largest) == -negative:
                self._forget_object(largest)
                self._note_left_out(largest, f"its {-negative} bytes exceed the limit for all objects", -negative)
        if len(self._by_size) > 2 * len(self._sizes) + _MAX_NAMES:
            self._by_size = [(-size, key) for key, size in self._sizes.items()]
            heapq.heapify(self._by_size)

    def leave_out(self, key: Key, reason: str) -> None:
        """Record that an object cannot be cached, and remove its earlier version."""
        self.remove(key)
        self._note_left_out(key, reason)

    def remove(self, key: Key) -> bool:
        """Remove an object. Returns whether it was cached."""
        self._left_out.pop(key, None)
        self._crowded_out.pop(key, None)
        return key in self.objects and self._forget_object(key)

    @property
    def has_room_again(self) -> bool:
        """Whether an object that was omitted for lack of memory would now take less than half of the free memory."""
        free = self._max_bytes - self._total
        return bool(self._crowded_out) and min(self._crowded_out.values()) <= free // 2

    @property
    def problem(self) -> str:
        """A line about omitted objects, with reasons. Returns "" without such objects."""
        number = len(self._left_out) + self._unnamed_count
        if not number:
            return ""
        first = [*self._left_out.items()][:_MAX_SHOWN]
        shown = [f"{plain('/'.join(filter(None, key[:2])), 200)}: {reason}" for key, reason in first]
        more = f"; and {number - len(shown)} more" if number > len(shown) else ""
        return f"{count(number, 'object')} omitted: {'; '.join(shown)}{more}"

    def _forget_object(self, key: Key) -> bool:
        del self.objects[key]
        self._total -= self._sizes.pop(key)
        return True

    def _note_left_out(self, key: Key, reason: str, size: int = 0) -> None:
        if len(self._left_out) >= _MAX_NAMES:
            self._unnamed_count += 1
            return
        self._left_out[key] = reason
        if size:
            self._crowded_out[key] = size
