"""A cache of parsed annotations: a pod may have 256 KiB of annotations that 256 containers read.

Only long strings are cached, up to a limit, because a parsed string takes many times its size. Results are shared: do
not modify them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LONG", "Memo"]

#: The minimum length of a cached string in characters; parsing a shorter string takes no longer than a lookup.
LONG: Final = 1024
_MAX_CHARACTERS: Final = 1 << 20


class Memo:
    """A cache of parsed strings and of parse errors. Thread-safe.

    Args:
        max_bytes: the maximum total number of characters of cached strings.
    """

    def __init__(self, max_bytes: int = _MAX_CHARACTERS) -> None:
        self._most, self._size = max_bytes, 0
        self._known: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, reader: str, text: str, read: Callable[[str], Any]) -> Any:
        """Return `read(text)`, cached under `reader`. Raises ValueError if `read` does."""
        if not LONG <= len(text) <= self._most:
            return read(text)
        with self._lock:
            entry = self._known.get((reader, text))
            if entry is not None:
                self._known.move_to_end((reader, text))
        if entry is None:
            entry = self._read(reader, text, read)
        value, error = entry
        if error:
            raise ValueError(error)
        return value

    def _read(self, reader: str, text: str, read: Callable[[str], Any]) -> tuple[Any, str]:
        try:
            entry = (read(text), "")
        except ValueError as error:
            entry = (None, str(error) or type(error).__name__)
        with self._lock:
            if (reader, text) not in self._known:
                self._size += len(text)
            self._known[reader, text] = entry
            while self._size > self._most:
                (_, dropped_text), _ = self._known.popitem(last=False)
                self._size -= len(dropped_text)
        return entry
