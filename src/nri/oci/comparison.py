"""Compare two specs: report additions, removals and changes by name instead of by list index.

Specs are compared in canonical form, which is the output of the spec's Go types: with every mandatory field, and
without empty optional fields. Fields that are not in `oci.fields` stay unchanged.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from nri.oci.fields import OBJECTS, Field, fields_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from nri.oci.draft import Spec

#: Below this depth values are only compared for equality, because the spec has no known fields below it.
_MAX_DEPTH = 20
#: `str` of a change shortens values to this length; `old` and `new` have the full values.
_MAX_VALUE_LENGTH = 200


class Change(NamedTuple):
    """A difference. `str` is a line: ``+`` for added, ``-`` for removed, ``~`` for changed, ``=`` for reordered.

    Attributes:
        path: the path, with names: ``mounts[/data].options``.
        kind: ``added``, ``removed``, ``changed`` or ``moved``.
        old: the value before, or None if it was absent.
        new: the value after, or None if it is absent.
    """

    path: str
    kind: str
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        if self.kind == "added":
            return f"+ {self.path}: {_short_text(self.new)}"
        if self.kind == "removed":
            return f"- {self.path}: {_short_text(self.old)}"
        if self.kind == "moved":
            return f"= {self.path}: {_short_text(self.old)} -> {_short_text(self.new)}"
        return f"~ {self.path}: {_short_text(self.old)} -> {_short_text(self.new)}"


def difference(old: Spec, new: Spec) -> list[Change]:
    """All differences between two specs, in the order of the fields. Returns an empty list if they are equivalent."""
    return list(_objects("", canonical(old), canonical(new)))


def _short_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."


def _sort_key(key: str) -> Callable[[Any], str]:
    return lambda entry: str(entry.get(key, "")) if isinstance(entry, dict) else str(entry)


def _variable(entry: Any) -> str:
    return str(entry).partition("=")[0]


#: The functions that name the entries of a list, by the list's path. A mount's name is its destination, for example.
_NAMES: dict[str, Callable[[Any], str]] = {
    "process.env": _variable,
    "process.rlimits": _sort_key("type"),
    "mounts": _sort_key("destination"),
    "linux.namespaces": _sort_key("type"),
    "linux.devices": _sort_key("path"),
    "linux.resources.hugepageLimits": _sort_key("pageSize"),
    **dict.fromkeys(
        [f"process.capabilities.{kind}" for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")]
        + ["linux.maskedPaths", "linux.readonlyPaths"],
        str,
    ),
}
#: The lists in `_NAMES` in which the order matters.
_ORDERED = frozenset({"mounts"})


def _join(path: str, key: str) -> str:
    plain = key if key and all(letter.isalnum() or letter in "_-" for letter in key) else f'"{key}"'
    return f"{path}.{plain}" if path else plain


def _compare_values(path: str, plain: str, old: Any, new: Any) -> Iterator[Change]:
    """Compare two values. `plain` is the path without names, which selects how lists are compared."""
    if old is new or (old == new and type(old) is type(new)):
        return
    if isinstance(old, dict) and isinstance(new, dict) and plain.count(".") < _MAX_DEPTH:
        yield from _objects(path, old, new, plain)
    elif isinstance(old, list) and isinstance(new, list) and plain in _NAMES:
        yield from _compare_named(path, plain, old, new)
    elif isinstance(old, list) and isinstance(new, list) and plain.startswith(("hooks.", "linux.resources.devices")):
        yield from _sequence(path, old, new)
    else:
        yield Change(path, "changed", old, new)


def _objects(path: str, old: dict[str, Any], new: dict[str, Any], plain: str = "") -> Iterator[Change]:
    for key in (*old, *(key for key in new if key not in old)):
        key_path, plain_path = _join(path, key), f"{plain}.{key}" if plain else key
        if plain_path in _NAMES:  # treat an absent list as empty, to report each entry
            yield from _compare_values(key_path, plain_path, old.get(key, []), new.get(key, []))
        elif key not in new:
            yield Change(key_path, "removed", old[key])
        elif key not in old:
            yield Change(key_path, "added", None, new[key])
        else:
            yield from _compare_values(key_path, plain_path, old[key], new[key])


def _compare_named(path: str, plain: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    name = _NAMES[plain]
    before, after = _index(old, name), _index(new, name)
    for key, value in before.items():
        entry_path = f"{path}[{key}]"
        if key not in after:
            yield Change(entry_path, "removed", value)
        else:
            yield from _compare_values(entry_path, f"{plain}[]", value, after[key])
    for key, value in after.items():
        if key not in before:
            yield Change(f"{path}[{key}]", "added", None, value)
    if plain in _ORDERED:
        old_order = [key for key in before if key in after]
        new_order = [key for key in after if key in before]
        if old_order != new_order:
            yield Change(path, "moved", old_order, new_order)


def _index(entries: list[Any], name: Callable[[Any], str]) -> dict[str, Any]:
    """Entries by name. Repeated names get a number, so that no entry is lost."""
    index: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for entry in entries:
        key = name(entry)
        counts[key] = counts.get(key, 0) + 1
        index[key if counts[key] == 1 else f"{key} #{counts[key]}"] = entry
    return index


def _sequence(path: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    """Compare lists without names: skip the common start and end, and report the entries between as changes."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    for place in range(start, len(old) - end):
        yield Change(f"{path}[{place}]", "removed", old[place])
    for place in range(start, len(new) - end):
        yield Change(f"{path}[{place}]", "added", None, new[place])


def canonical(spec: Spec, kind: str = "Spec") -> Spec:
    """Return a copy of a spec, or of another object in `oci.fields`, in canonical form. null counts as absent."""
    fields = fields_of(kind)
    copy = {key: value for key, value in spec.items() if key not in fields}
    for key, field in fields.items():
        value = spec.get(key)
        if value is None:
            if field.absent:
                continue
            value = {} if field.kind in OBJECTS else _zero_value(field.kind)
        value = _value(field, value)
        if field.absent != "?" or value not in ("", 0, False, [], {}):
            copy[key] = value
    # Go always writes the names of a system call, as null for an empty list.
    if kind == "Syscall":
        copy.setdefault("names", [])
    return copy


def _zero_value(kind: str) -> Any:
    return "" if kind == "text" else False if kind == "bool" else 0


def _value(field: Field, value: Any) -> Any:
    if field.container == "[" and isinstance(value, list):
        return [_object(field.kind, entry) for entry in value]
    if field.container == "{" and isinstance(value, dict):
        return {key: _object(field.kind, entry) for key, entry in value.items()}
    return value if field.container else _object(field.kind, value)


def _object(kind: str, value: Any) -> Any:
    return canonical(value, kind) if kind in OBJECTS and isinstance(value, dict) else value
