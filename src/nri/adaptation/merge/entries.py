"""What a reply asks for, row by row: finding the rows that it touches and splitting removals from settings.

Rules of this file: nothing is claimed or changed here, the plugin's message least of all; entries come in the
table's order. Next: `nri.adaptation.merge.claims`, which claims entries, and `nri.adaptation.merge.effects`, which
applies them.
"""

from __future__ import annotations

from typing import Any, cast

from nri.adaptation.merge.fields import Kind, Node, Row
from nri.api.removal import split

__all__ = ["Entry", "read"]

_NOTHING: dict[str, Any] = {}


class Entry:
    """One row of the table as one reply sets it.

    Attributes:
        row: the field.
        value: the value as received: a message, text, list or map.
        order: KEYED and MAP: every key, and whether it is removed, in the reply's order (a map's: alphabetical).
        sets: KEYED and MAP: key -> the last value that the reply gives it.
        removed: KEYED and MAP: key -> the last removal of it.
    """

    __slots__ = ("order", "removed", "row", "sets", "value")

    def __init__(self, row: Row, value: Any) -> None:
        self.row = row
        self.value = value
        self.order: list[tuple[str, bool]] = []
        self.sets = self.removed = _NOTHING
        if row.kind is Kind.KEYED:
            name = row.key
            self._split([(getattr(element, name), element) for element in value])
        elif row.kind is Kind.MAP:
            self._split([(key, value[key]) for key in sorted(value)])

    def _split(self, items: list[tuple[str, Any]]) -> None:
        if not self.row.removable or not any(key[:1] == "-" for key, _ in items):
            self.order = [(key, False) for key, _ in items]
            self.sets = dict(items)
            return
        self.sets, self.removed = {}, {}
        for marked, element in items:
            key, removed = split(marked)
            (self.removed if removed else self.sets)[key] = element
            self.order.append((key, removed))

    @property
    def unpaired(self) -> list[str]:
        """Keys that are removed and not set again."""
        return [key for key in self.removed if key not in self.sets]

    def __repr__(self) -> str:
        return f"Entry({self.row.path})"


def read(message: Any, tree: Node) -> list[Entry]:
    """Find the rows that a message sets, in the table's order."""
    entries: list[Entry] = []
    _collect(message, tree, entries)
    if len(entries) > 1:
        entries.sort(key=_rank)
    return entries


def _collect(message: Any, tree: Node, entries: list[Entry]) -> None:
    for field, value in message.ListFields():
        node = tree[field.number]
        if type(node) is dict:
            _collect(value, node, entries)
        else:
            entries.append(Entry(cast(Row, node), value))


def _rank(entry: Entry) -> int:
    return entry.row.rank
