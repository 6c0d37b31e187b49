"""Apply an entry to the merged adjustment, or to the resources of an update.

The functions run after every claim has been granted, so they cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nri.adaptation.merge.entries import Entry
from nri.api.fields import Kind, Row
from nri.api.removal import mark
from nri.rules import Rules

#: Up to this many elements of a list are deleted one by one: each deletion moves all elements behind it.
_MAX_SINGLE_DELETIONS: Final = 8


_SIMPLE, _MAP, _KEYED = Kind.SIMPLE, Kind.MAP, Kind.KEYED


def collect(adjust: Any, entry: Entry, rules: Rules) -> None:
    """Merge an entry into the adjustment."""
    row = entry.row
    kind, parent = row.kind, row.parent(adjust)
    if kind is _SIMPLE:
        put_simple(parent, row, entry.value)
        if row.path.startswith("linux.rdt.") and not rules.rdt_removal_kept:
            parent.remove = False
    elif kind is _MAP:
        _collect_map(getattr(parent, row.name), entry, rules)
    elif kind is _KEYED:
        _collect_keyed(getattr(parent, row.name), entry, rules)
    elif kind is Kind.ARGS:
        parent.args[:] = entry.value if entry.value[0] else entry.value[1:]
    elif kind is Kind.RESET:
        parent.Clear()
        parent.remove = True
    else:
        getattr(parent, row.name).MergeFrom(entry.value)


def put_resources(holder: Any, entries: Iterable[Entry], *, replaces: bool = True) -> None:
    """Merge resources of updates into an update or a container: both have resources under the same path.

    All entries for one holder come in the same call, even from several updates, so each list is searched once.
    `replaces` drops the elements of a list whose keys are set again. Without it they stay, as in the Go library.
    """
    keyed: dict[int, tuple[Row, dict[str, Any]]] = {}
    for entry in entries:
        row = entry.row
        if row.kind is _SIMPLE:
            put_simple(row.parent(holder), row, entry.value)
        elif row.kind is _MAP:
            put_map(getattr(row.parent(holder), row.name), entry.sets)
        elif row.kind is _KEYED and not replaces:
            getattr(row.parent(holder), row.name).extend(entry.sets.values())
        elif row.kind is _KEYED:
            sets = keyed.setdefault(row.rank, (row, {}))[1]
            for key, value in entry.sets.items():
                sets.pop(key, None)  # so that a key that is set again comes last
                sets[key] = value
    for row, sets in keyed.values():
        target = getattr(row.parent(holder), row.name)
        drop(target, row.key, set(sets))
        target.extend(sets.values())


def put_simple(parent: Any, row: Row, value: Any) -> None:
    """Replace a simple field."""
    if row.is_text:
        setattr(parent, row.name, value)
    else:
        getattr(parent, row.name).CopyFrom(value)


def put_map(target: Any, values: dict[str, Any]) -> None:
    """Set entries of a map whose values are strings or messages."""
    for key, value in values.items():
        if isinstance(value, str):
            target[key] = value
        else:
            target[key].CopyFrom(value)


def drop(elements: Any, key: str, unwanted: set[str]) -> None:
    """Drop the elements of a list whose `key` is unwanted."""
    places = [index for index, element in enumerate(elements) if getattr(element, key) in unwanted]
    if len(places) <= _MAX_SINGLE_DELETIONS:
        for index in reversed(places):
            del elements[index]
        return
    dropped = set(places)
    remaining = [element for index, element in enumerate(elements) if index not in dropped]
    del elements[:]
    elements.extend(remaining)


def _collect_map(target: Any, entry: Entry, rules: Rules) -> None:
    if rules.last_word_wins:
        for key in entry.removed:
            target.pop(key, None)
        for key in entry.sets:
            target.pop(mark(key), None)
        marks = entry.unpaired
    else:
        marks = list(entry.removed)
    put_map(target, entry.sets)
    for key in marks:
        _put_mark(target, mark(key))


def _put_mark(target: Any, key: str) -> None:
    target.pop(key, None)
    try:
        target[key] = ""
    except (TypeError, ValueError):  # a map of messages: the mark is an empty message
        target.get_or_create(key)


def _collect_keyed(target: Any, entry: Entry, rules: Rules) -> None:
    row = entry.row
    if row.removal_claims and not rules.removal_frees_key:
        target.MergeFrom(entry.value)
        return
    unwanted = {*entry.removed, *entry.sets}
    if rules.last_word_wins and row.removable:
        unwanted.update([mark(key) for key in unwanted])
    drop(target, row.key, unwanted)
    target.extend(entry.sets.values())
    if row.marks_kept or rules.removals_reach_reply:
        target.extend(entry.removed[key] for key in entry.unpaired)
