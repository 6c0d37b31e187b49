"""A reply as entries: an entry for each row of the table that it sets, with removals separate from settings.

This module claims and changes nothing. Entries come in the table's order. It runs for every reply, so keys are split
only for entries that need it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from nri.api.fields import Kind, Node, Row
from nri.api.removal import split

_KEYED, _MAP = Kind.KEYED, Kind.MAP


class Entry:
    """A row of the table as a reply sets it.

    Attributes:
        row: the field.
        value: the received value: a message, string, list or map.
        keys: for KEYED and MAP: every received key, in the reply's order (for a map: alphabetical).
        marked: whether some keys request removal.
    """

    __slots__ = ("_removed", "_sets", "keys", "marked", "row", "value")

    def __init__(self, row: Row, value: Any) -> None:
        self.row = row
        self.value = value
        self.marked = False
        kind = row.kind
        if kind is _KEYED:
            name = row.key
            self.keys = keys = [getattr(element, name) for element in value]
        elif kind is _MAP:
            self.keys = keys = sorted(value)
        else:
            return
        self._sets: dict[str, Any] | None = None
        if row.removable:
            for key in keys:
                if key[:1] == "-":
                    self.marked = True

    def _split(self) -> dict[str, Any]:
        values = self.value if self.row.kind is _KEYED else [self.value[key] for key in self.keys]
        sets: dict[str, Any] = {}
        removed: dict[str, Any] = {}
        for key, value in zip(self.keys, values, strict=True):
            bare, mark = split(key) if self.marked else (key, False)
            (removed if mark else sets)[bare] = value
        self._sets, self._removed = sets, removed
        return sets

    @property
    def sets(self) -> dict[str, Any]:
        """For KEYED and MAP: the last value that the reply gives each key."""
        return self._split() if self._sets is None else self._sets

    @property
    def removed(self) -> dict[str, Any]:
        """For KEYED and MAP: the last removal of each key, by the key without its mark."""
        if not self.marked:
            return {}
        if self._sets is None:
            self._split()
        return self._removed

    @property
    def plain(self) -> bool:
        """For KEYED and MAP: whether every key is set, and only once."""
        return not self.marked and len(set(self.keys)) == len(self.keys)

    @property
    def unpaired(self) -> list[str]:
        """The keys that are removed and not set again."""
        return [key for key in self.removed if key not in self.sets] if self.marked else []

    def __repr__(self) -> str:
        return f"Entry({self.row.path})"


_rank = attrgetter("row.rank")


def read(message: Any, tree: Node) -> list[Entry]:
    """Return the entries of a message, in the table's order."""
    entries: list[Entry] = []
    _collect(message, tree, entries)
    before = -1
    for entry in entries:
        if entry.row.rank < before:
            entries.sort(key=_rank)  # fields are sorted by number, which is the table's order with few exceptions
            break
        before = entry.row.rank
    return entries


def _collect(message: Any, tree: Node, entries: list[Entry]) -> None:
    for field, value in message.ListFields():
        node = tree[field.number]
        if isinstance(node, Row):
            entries.append(Entry(node, value))
        else:
            _collect(value, node, entries)
