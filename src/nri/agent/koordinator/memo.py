"""Long texts that were read are not read again for each container: a pod's author writes 256 KiB, and 256 containers.

Rules: only long texts are remembered, the newest ones, and never more of them than a bound, because what is read of
one takes many times its room. The result for a text is shared: do not change it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LONG", "Memo"]

#: Characters of a text that is remembered; a shorter one is read as quickly.
LONG: Final = 1024
_MOST: Final = 1 << 20


class Memo:
    """A memo of what was made of texts, or the error. Any thread may call.

    Args:
        most: characters of all texts that are remembered.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._size = most, 0
        self._known: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, reader: str, text: str, read: Callable[[str], Any]) -> Any:
        """Return what `read` makes of a text, which `reader` names. Raises its ValueError."""
        if not LONG <= len(text) <= self._most:
            return read(text)
        with self._lock:
            found = self._known.get((reader, text))
            if found is not None:
                self._known.move_to_end((reader, text))
        if found is None:
            found = self._read(reader, text, read)
        value, error = found
        if error:
            raise ValueError(error)
        return value

    def _read(self, reader: str, text: str, read: Callable[[str], Any]) -> tuple[Any, str]:
        try:
            found = (read(text), "")
        except ValueError as error:
            found = (None, str(error) or type(error).__name__)
        with self._lock:
            if (reader, text) not in self._known:
                self._size += len(text)
            self._known[reader, text] = found
            while self._size > self._most:
                (_, gone), _ = self._known.popitem(last=False)
                self._size -= len(gone)
        return found
