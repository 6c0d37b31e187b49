"""A cache of parsed annotations: a pod may have 256 KiB of them, that are parsed for each of up to 256 containers.

Only long strings are cached, up to a limit, because a parsed string takes many times its size. Results are shared: do
not modify them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

#: The minimum length of a cached string in characters; parsing a shorter string takes no longer than a lookup.
LONG: Final = 1024
_MAX_CHARACTERS: Final = 1 << 20


class Memo:
    """A cache of parsed strings and of parse errors. Thread-safe.

    Args:
        max_characters: the maximum total number of characters of cached strings.
    """

    def __init__(self, max_characters: int = _MAX_CHARACTERS) -> None:
        self._max_characters, self._size = max_characters, 0
        self._entries: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, parser_name: str, text: str, parse: Callable[[str], Any]) -> Any:
        """Return `parse(text)`, cached under `parser_name`. Raises ValueError if `parse` does."""
        if not LONG <= len(text) <= self._max_characters:
            return parse(text)
        with self._lock:
            entry = self._entries.get((parser_name, text))
            if entry is not None:
                self._entries.move_to_end((parser_name, text))
        if entry is None:
            entry = self._parse(parser_name, text, parse)
        value, error = entry
        if error:
            raise ValueError(error)
        return value

    def _parse(self, parser_name: str, text: str, parse: Callable[[str], Any]) -> tuple[Any, str]:
        try:
            entry = (parse(text), "")
        except ValueError as error:
            entry = (None, str(error) or type(error).__name__)
        with self._lock:
            if (parser_name, text) not in self._entries:
                self._size += len(text)
            self._entries[parser_name, text] = entry
            while self._size > self._max_characters:
                (_, dropped_text), _ = self._entries.popitem(last=False)
                self._size -= len(dropped_text)
        return entry
