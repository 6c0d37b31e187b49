"""Entries of a request by their path in the container: found, dropped and added, all of them in linear time.

One job: `ByPath`. Rules: pure; the order stays, and what is added comes last. A plugin may set thousands of entries, so
none of them is looked for by going through the others. Next: `nri.proxy.adjust.mounts`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ByPath"]


class ByPath:
    """A repeated field whose entries have a `container_path`; `done` puts the changes into it."""

    def __init__(self, field: Any) -> None:
        self._field = field
        self._entries: dict[int, Any] = {}
        self._places: dict[str, list[int]] = {}
        self._next = 0
        for entry in field:
            self.add(entry)

    def __contains__(self, path: str) -> bool:
        return path in self._places

    def add(self, entry: Any) -> None:
        """Add an entry as the last one."""
        self._entries[self._next] = entry
        self._places.setdefault(entry.container_path, []).append(self._next)
        self._next += 1

    def drop(self, path: str) -> None:
        """Drop all entries of a path."""
        for place in self._places.pop(path, ()):
            del self._entries[place]

    def done(self) -> None:
        """Make the field what the entries are now."""
        entries = list(self._entries.values())
        del self._field[:]
        self._field.extend(entries)
