"""The changes that an answer makes, field by field, with the values before and after.

They are used in reports of shadow plugins (`nri.adaptation.audit.shadow`) and the history of a container. Values are
JSON values: strings, numbers, lists, objects; None means "not set".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from nri.adaptation.merge.entries import Entry, read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE, ROWS, TREE, Kind, Row, Visibility


class Change(NamedTuple):
    """A value that changed.

    Attributes:
        container: the id of the container.
        field: the name in the API's `Field` enum (``Env``), else the dotted path.
        key: the entry within the field (the variable's name), or "".
        before: the old value; None if it was not set.
        after: the new value; None if it was removed.
    """

    container: str
    field: str
    key: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        """The change as a JSON object."""
        return self._asdict()

    def __str__(self) -> str:
        """The change as readable text: ``Env DEBUG: "0" -> "1"``."""
        what = f"{self.field} {self.key}" if self.key else self.field
        return f"{what}: {show(self.before)} -> {show(self.after)}"


class Spot(NamedTuple):
    """A field that an answer sets, and the key of an entry of the field, "" for the whole field."""

    row: Row
    key: str


def of_adjustment(adjust: m.ContainerAdjustment, container: m.Container) -> list[Change]:
    """The changes that only this adjustment would make in a container, without equal values."""
    return described_changes(container.id, read(adjust, TREE), container)


def of_update(update: m.ContainerUpdate, resources: m.LinuxResources | None = None) -> list[Change]:
    """The changes that an update would make. `resources` are the container's resources, None if unknown."""
    before = m.ContainerUpdate()
    if resources is not None:
        before.linux.resources.CopyFrom(resources)
    return described_changes(update.container_id, read(update.linux.resources, RESOURCES_TREE), before)


def described_changes(container: str, entries: Iterable[Entry], holder: Any, *, equal: bool = False) -> list[Change]:
    """The changes that only these entries of an answer would make in a container or update.

    `equal` includes entries that set the current value again.
    """
    changes_ = []
    values = Values(holder)
    for entry in entries:
        for key, after in _requested_values(entry, holder):
            before = values.at(Spot(entry.row, key))
            if equal or before != after:
                changes_.append(Change(container, entry.row.label, key, before, after))
    return changes_


def _requested_values(entry: Entry, holder: Any) -> Iterable[tuple[str, Any]]:
    """Key and requested value of every spot."""
    row = entry.row
    if row.kind in (Kind.KEYED, Kind.MAP):
        values = {key: plain(value) for key, value in entry.sets.items()}
        if row.path == "env":
            values = {key: value.value for key, value in entry.sets.items()}
        return {**dict.fromkeys(entry.unpaired), **values}.items()
    if row.kind is Kind.ARGS:
        return [("", list(entry.value) if entry.value[0] else list(entry.value[1:]))]
    if row.kind is Kind.RESET:
        return [("", True)]
    after = plain(entry.value)
    if row.kind is Kind.LIST:
        after = (value_at(holder, Spot(row, "")) or []) + after
    elif row.kind is Kind.ACCUMULATED:
        before = value_at(holder, Spot(row, "")) or {}
        after = {stage: before.get(stage, []) + after.get(stage, []) for stage in {**before, **after}}
    return [("", after)]


def spots(entries: Iterable[Entry]) -> list[Spot]:
    """The spots that an answer sets or removes."""
    places: dict[Spot, None] = {}
    for entry in entries:
        if entry.row.kind in (Kind.KEYED, Kind.MAP):
            places.update((Spot(entry.row, key), None) for key in [*entry.removed, *entry.sets])
        else:
            places[Spot(entry.row, "")] = None
    return list(places)


def changes(container: str, touched: Iterable[Spot], before: Any, after: Any) -> list[Change]:
    """The differences between two containers (or updates) at the given spots."""
    earlier, later = Values(before), Values(after)
    pairs = ((spot, earlier.at(spot), later.at(spot)) for spot in touched)
    return [Change(container, spot.row.label, spot.key, old, new) for spot, old, new in pairs if old != new]


class Values:
    """The values of a container or update, for many lookups: each list is searched once."""

    __slots__ = ("_holder", "_keyed")

    def __init__(self, holder: Any) -> None:
        self._holder = holder
        self._keyed: dict[int, dict[str, Any]] = {}

    def at(self, spot: Spot) -> Any:
        """The value at a spot. Returns None if it is not set, or if the field is unknown."""
        row, key = spot
        if row.shown is Visibility.NEVER or row.kind is Kind.RESET:
            return None
        if row.kind is Kind.KEYED:
            return self._element(row, key)
        parent = row.parent(self._holder)
        if row.kind is Kind.SIMPLE:
            return plain(getattr(parent, row.name)) if row.has(self._holder) else None
        value = getattr(parent, row.name)
        if row.kind is Kind.MAP:
            return plain(value[key]) if key in value else None
        return plain(value) or None

    def _element(self, row: Row, key: str) -> Any:
        """The last element with a key. Variables of a container are strings."""
        by_key = self._keyed.get(row.rank)
        if by_key is None:
            elements = getattr(row.parent(self._holder), row.name)
            by_key = self._keyed[row.rank] = dict(_key_and_value(element, row) for element in elements)
        element = by_key.get(key)
        return element if element is None or isinstance(element, str) else plain(element)


def set_values(container: m.Container, *, later_plugins_see_all: bool) -> Iterator[tuple[Spot, Any]]:
    """Yield the adjustable fields that are set in a container, with their values.

    Yields only the fields in which a container shows adjustments, which depends on a rule.
    """
    values = Values(container)
    for row in ROWS:
        if row.always_shown or (row.shown is Visibility.BY_RULE and later_plugins_see_all):
            keys: Iterable[str] = ("",)
            if row.kind in (Kind.KEYED, Kind.MAP):
                elements = getattr(row.parent(container), row.name)
                keys = (
                    elements
                    if row.kind is Kind.MAP
                    else dict.fromkeys(_key_and_value(item, row)[0] for item in elements)
                )
            for key in keys:
                value = values.at(Spot(row, key))
                if value is not None:
                    yield Spot(row, key), value


def _key_and_value(element: Any, row: Row) -> tuple[str, Any]:
    if isinstance(element, str):
        key, _, text = element.partition("=")
        return key, text
    return getattr(element, row.key), element


def value_at(holder: Any, spot: Spot) -> Any:
    """The value at a spot of a container or update. Returns None if it is not set, or if the field is unknown."""
    return Values(holder).at(spot)


def plain(value: Any) -> Any:
    """Convert a protobuf value to a JSON value. A message of one field becomes the value of that field."""
    if isinstance(value, (str, int, float, bytes)):
        return value.hex() if isinstance(value, bytes) else value
    if hasattr(value, "ListFields"):
        fields = value.DESCRIPTOR.fields
        if len(fields) == 1:
            return plain(getattr(value, fields[0].name))
        return {field.name: _member(field, inner) for field, inner in value.ListFields()}
    if hasattr(value, "keys"):
        return {key: plain(value[key]) for key in sorted(value)}
    return [plain(item) for item in value]


def _member(field: Any, value: Any) -> Any:
    """A field of a message. Enums are converted to their names."""
    if field.enum_type is None:
        return plain(value)
    names = field.enum_type.values_by_number
    if isinstance(value, int):
        return names[value].name if value in names else value
    return [names[number].name if number in names else number for number in value]


def show(value: Any) -> str:
    """Format a value for a line of text, cut to 80 characters."""
    if value is None:
        return "-"
    if isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {show(inner)}" for key, inner in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(map(show, value)) + "]"
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
