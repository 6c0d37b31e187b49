"""A cache of parsed texts: a pod's author may write 256 KiB of annotation for 256 containers.

Only long texts are cached, up to a bound, because a parsed text takes many times its size. Results are shared; do not
change them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LONG", "Memo"]

#: Characters of a text that is remembered; a shorter one is read as quickly.
LONG: Final = 1024
_MAX_CHARACTERS: Final = 1 << 20


class Memo:
    """A cache of parsed texts and parse errors. Thread-safe.

    Args:
        max_bytes: total characters of cached texts.
    """

    def __init__(self, max_bytes: int = _MAX_CHARACTERS) -> None:
        self._most, self._size = max_bytes, 0
        self._known: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, reader: str, text: str, read: Callable[[str], Any]) -> Any:
        """Return `read(text)`, cached under `reader`. Raises the ValueError of `read`."""
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
