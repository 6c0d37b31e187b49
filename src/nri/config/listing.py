"""All settings as rows for people and programs: key, value, where it came from; and the meaning of each key.

Rules: pure. Settings are a frozen dataclass, its tables are dataclasses again, and what a key means is in their
docstrings below ``Attributes:``, so that command, documentation and code cannot differ. Next: `nri.config.layers`,
which tells where a value came from.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from nri.config.duration import DURATION, format_duration
from nri.config.place import show
from nri.config.typed import OneOf, fields_of

__all__ = ["DEFAULT", "Key", "Many", "Row", "keys", "rows"]

#: The origin of what no source gave.
DEFAULT = "default"
#: Classes of which there are several tables: by the key that holds them, a placeholder for each of them, and the class.
Many = Mapping[str, tuple[str, type]]


class Row(NamedTuple):
    """A setting in force."""

    key: str
    value: Any
    origin: str


class Key(NamedTuple):
    """A key that files may have: its type, default and meaning for people."""

    key: str
    kind: str
    default: str
    meaning: str


def rows(config: Any, origins: Mapping[str, str]) -> list[Row]:
    """Every setting, in the order of the classes. Values are plain: what JSON can say."""
    return [Row(key, value, origins.get(key, DEFAULT)) for key, value in _walk(config, ())]


def keys(config: Any, many: Many) -> list[Key]:
    """Every key that a file of such a configuration may have; `config` is one with all defaults."""
    return list(_keys(type(config), "", config, many))


def _walk(value: Any, path: tuple[str | int, ...], annotation: Any = None) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        kinds = fields_of(type(value))
        for each in fields(value):
            yield from _walk(getattr(value, each.name), (*path, each.name), kinds[each.name])
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _walk(inner, (*path, name))
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for number, inner in enumerate(value):
            yield from _walk(inner, (*path, number))
    else:
        yield show(path), _plain(value, annotation)


def _plain(value: Any, annotation: Any) -> Any:
    """A value as a file has it."""
    if _is_duration(annotation):
        return format_duration(value)
    if isinstance(value, (tuple, list)):
        return [_plain(one, None) for one in value]
    if isinstance(value, Mapping):
        return dict(value)
    return str(value) if isinstance(value, Path) else value


def _is_duration(annotation: Any) -> bool:
    return DURATION in getattr(annotation, "__metadata__", ())


def _keys(cls: type, prefix: str, defaults: Any, many: Many) -> Iterator[Key]:
    meanings = _meanings(cls)
    for name, kind in fields_of(cls).items():
        alternatives = [each for each in get_args(kind) if each is not type(None)]
        optional = type(None) in get_args(kind) and len(alternatives) == 1
        key, annotation = f"{prefix}{name}", alternatives[0] if optional else kind
        if key in many:
            key, inner = many[key]
            yield from _keys(inner, f"{key}.", None, many)
        elif isinstance(annotation, type) and is_dataclass(annotation):
            yield from _keys(annotation, f"{key}.", getattr(defaults, name), many)
        else:
            default = getattr(defaults, name) if defaults is not None else _own_default(cls, name)
            yield Key(key, _kind(annotation), _written(default, annotation), meanings.get(name, ""))


def _own_default(cls: type, name: str) -> Any:
    """The default of a field of a class that has no instance by itself."""
    return next(each.default for each in fields(cls) if each.name == name)


def _kind(annotation: Any) -> str:
    if _is_duration(annotation):
        return "duration"
    if choices := next((each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, OneOf)), None):
        return " or ".join(choices.choices())
    if get_origin(annotation) is Literal:
        return " or ".join(get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is Mapping:
        return f"table of {_kind(get_args(annotation)[1])} by name"
    return {bool: "true or false", int: "number", str: "text", Path: "path"}[annotation]


def _written(value: Any, annotation: Any) -> str:
    """A default for people; "" for none."""
    plain = _plain(value, annotation)
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, list):
        return ", ".join(map(str, plain))
    return str(plain) if isinstance(plain, (str, int)) else ""


def _meanings(cls: type) -> dict[str, str]:
    """The meaning of each attribute out of the docstrings of a class and its bases.

    One line may explain several: ``a, b: ...``.
    """
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        _, _, listed = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")
        for line in re.sub(r"\n {8,}", " ", listed).splitlines():
            names, colon, text = line.strip().partition(": ")
            if colon:
                found |= {name.strip(): text.replace("``", '"') for name in names.split(",")}
    return found
