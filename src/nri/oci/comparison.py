"""Two specs compared, for people: what is new, gone, or other, by names instead of places in a list.

Lists of things that have a name are compared by it: a mount by its destination, a variable by its name. Specs are
compared in canonical form, which is as the spec's own Go types would write them: with what is always there, and without
what is empty. Fields that the table does not know stay as they are. Next: `nri.oci.fields`, the table.
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

__all__ = ["Change", "canonical", "difference"]


#: Below so many levels nothing is known of a spec, and values are compared as a whole.
_DEEPEST = 20
#: A value in a line is cut to this length; `old` and `new` have it whole.
_LONGEST = 200


class Change(NamedTuple):
    """One difference. `str` is a line: ``+`` for new, ``-`` for gone, ``~`` for other, ``=`` for another order.

    Attributes:
        path: where, with names: ``mounts[/data].options``.
        kind: ``added``, ``removed``, ``changed`` or ``moved``.
        old: the value before; None where it was not there.
        new: the value after; None where it is not there.
    """

    path: str
    kind: str
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        if self.kind == "added":
            return f"+ {self.path}: {_short(self.new)}"
        if self.kind == "removed":
            return f"- {self.path}: {_short(self.old)}"
        if self.kind == "moved":
            return f"= {self.path}: {_short(self.old)} -> {_short(self.new)}"
        return f"~ {self.path}: {_short(self.old)} -> {_short(self.new)}"


def difference(old: Spec, new: Spec) -> list[Change]:
    """Everything in which two specs differ, in the order of the fields; an empty list if they mean the same."""
    return list(_objects("", canonical(old), canonical(new)))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _by(key: str) -> Callable[[Any], str]:
    return lambda each: str(each.get(key, "")) if isinstance(each, dict) else str(each)


def _variable(entry: Any) -> str:
    return str(entry).partition("=")[0]


#: Lists whose entries have a name, by the path without names.
_NAMES: dict[str, Callable[[Any], str]] = {
    "process.env": _variable,
    "process.rlimits": _by("type"),
    "mounts": _by("destination"),
    "linux.namespaces": _by("type"),
    "linux.devices": _by("path"),
    "linux.resources.hugepageLimits": _by("pageSize"),
    **dict.fromkeys(
        [f"process.capabilities.{kind}" for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")]
        + ["linux.maskedPaths", "linux.readonlyPaths"],
        str,
    ),
}
#: Of those, the ones whose order says something.
_ORDERED = frozenset({"mounts"})


def _join(path: str, key: str) -> str:
    plain = key if key and all(letter.isalnum() or letter in "_-" for letter in key) else f'"{key}"'
    return f"{path}.{plain}" if path else plain


def _any(path: str, plain: str, old: Any, new: Any) -> Iterator[Change]:
    """Compare two values. `plain` is the path without names, which says how lists are compared."""
    if old is new or (old == new and type(old) is type(new)):
        return
    if isinstance(old, dict) and isinstance(new, dict) and plain.count(".") < _DEEPEST:
        yield from _objects(path, old, new, plain)
    elif isinstance(old, list) and isinstance(new, list) and plain in _NAMES:
        yield from _named(path, plain, old, new)
    elif isinstance(old, list) and isinstance(new, list) and plain.startswith(("hooks.", "linux.resources.devices")):
        yield from _sequence(path, old, new)
    else:
        yield Change(path, "changed", old, new)


def _objects(path: str, old: dict[str, Any], new: dict[str, Any], plain: str = "") -> Iterator[Change]:
    for key in (*old, *(key for key in new if key not in old)):
        here, place = _join(path, key), f"{plain}.{key}" if plain else key
        if place in _NAMES:  # an absent one is empty, so that its entries have a line each
            yield from _any(here, place, old.get(key, []), new.get(key, []))
        elif key not in new:
            yield Change(here, "removed", old[key])
        elif key not in old:
            yield Change(here, "added", None, new[key])
        else:
            yield from _any(here, place, old[key], new[key])


def _named(path: str, plain: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    name = _NAMES[plain]
    before, after = _index(old, name), _index(new, name)
    for key, value in before.items():
        here = f"{path}[{key}]"
        if key not in after:
            yield Change(here, "removed", value)
        else:
            yield from _any(here, f"{plain}[]", value, after[key])
    for key, value in after.items():
        if key not in before:
            yield Change(f"{path}[{key}]", "added", None, value)
    if plain in _ORDERED:
        kept = [key for key in before if key in after]
        now = [key for key in after if key in before]
        if kept != now:
            yield Change(path, "moved", kept, now)


def _index(entries: list[Any], name: Callable[[Any], str]) -> dict[str, Any]:
    """Entries by their name; one that comes again gets a number, so that none is lost."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for entry in entries:
        key = name(entry)
        counts[key] = counts.get(key, 0) + 1
        found[key if counts[key] == 1 else f"{key} #{counts[key]}"] = entry
    return found


def _sequence(path: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    """Lists without names: what both begin and end with is the same, the rest has gone and come."""
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
    """A copy of a spec, or of an object of the table, in canonical form. null counts as absent."""
    known = fields_of(kind)
    made = {key: value for key, value in spec.items() if key not in known}
    for key, field in known.items():
        value = spec.get(key)
        if value is None:
            if field.absent:
                continue
            value = {} if field.kind in OBJECTS else _zero(field.kind)
        value = _value(field, value)
        if field.absent != "?" or value not in ("", 0, False, [], {}):
            made[key] = value
    # In Go the names of a system call are always there, and null where there are none.
    if kind == "Syscall":
        made.setdefault("names", [])
    return made


def _zero(kind: str) -> Any:
    return "" if kind == "text" else False if kind == "bool" else 0


def _value(field: Field, value: Any) -> Any:
    if field.many == "[" and isinstance(value, list):
        return [_object(field.kind, each) for each in value]
    if field.many == "{" and isinstance(value, dict):
        return {key: _object(field.kind, each) for key, each in value.items()}
    return value if field.many else _object(field.kind, value)


def _object(kind: str, value: Any) -> Any:
    return canonical(value, kind) if kind in OBJECTS and isinstance(value, dict) else value
