"""A spec as the spec's own Go types would write it: with what is always there, and without what is empty.

Two specs that mean the same have one canonical form, so this is what to compare. Fields that the table does not know
stay as they are. Next: `nri.oci.fields`, the table.
"""

from __future__ import annotations

from nri.oci.fields import OBJECTS, Field, fields_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.oci.draft import Spec

__all__ = ["canonical"]


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
