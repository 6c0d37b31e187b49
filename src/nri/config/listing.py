"""All settings as rows of key, value and origin, and the meaning of each key.

The meanings are in the docstrings of the configuration's classes, below ``Attributes:``, so that commands,
documentation and code cannot differ.
"""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from nri.config.duration import DURATION, format_duration
from nri.config.key_path import path_text
from nri.config.typed import DICTS, LISTS, MISSING, Between, OneOf, default_of, fields_of, is_plain, is_union

#: The origin of a value that no source sets.
DEFAULT = "default"
#: The names of types in documentation. Every other type is a "string".
_WORDS = {
    bool: "boolean", int: "integer", float: "number", Path: "path", bytes: "base64 string",
    dt.datetime: "date and time", dt.date: "date", dt.time: "time of day", Any: "anything", object: "anything",
}  # fmt: skip


class Row(NamedTuple):
    """A setting that is in effect, and the source that set it."""

    key: str
    value: Any
    origin: str


class Key(NamedTuple):
    """A key of configuration files: its type, its default in the file's syntax, and its meaning.

    `default` is "" for a key without a default.
    """

    key: str
    kind: str
    default: str
    meaning: str
    needed: bool = False

    @property
    def shape(self) -> str:
        """The key's type and default in words."""
        return self.kind + (", required" if self.needed else f", default {self.default}" if self.default else "")


def rows(config: Any, origins: Mapping[str, str]) -> list[Row]:
    """Return every setting, in the order of the classes. Values are plain JSON values."""
    return [Row(key, value, origins.get(key, DEFAULT)) for key, value in _walk(config, ())]


def keys(cls: type) -> list[Key]:
    """Return every key of a configuration.

    ``a[].b`` is the key ``b`` of each element of the list ``a``. ``a.NAME.b`` is the key ``b`` of each value of the map
    ``a``.
    """
    return list(_keys(cls, "", None, ()))


def _walk(value: Any, path: tuple[str | int, ...], annotation: Any = None) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        kinds = fields_of(type(value))
        for attribute in fields(value):
            yield from _walk(getattr(value, attribute.name), (*path, attribute.name), kinds[attribute.name])
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _walk(inner, (*path, name))
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for number, inner in enumerate(value):
            yield from _walk(inner, (*path, number))
    else:
        yield path_text(path), _plain_value(value, annotation)


def _plain_value(value: Any, annotation: Any) -> Any:
    """A value in the syntax of files."""
    if _is_duration(annotation):
        return format_duration(value)
    if isinstance(value, (tuple, list, set, frozenset)):
        return [_plain_value(one, None) for one in value]
    if isinstance(value, Mapping):
        return {str(_plain_value(name, None)): _plain_value(one, None) for name, one in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def _is_duration(annotation: Any) -> bool:
    return DURATION in getattr(annotation, "__metadata__", ())


def _keys(cls: type, prefix: str, instance: Any, above: tuple[type, ...]) -> Iterator[Key]:
    """The keys of a class, with the values of `instance` as defaults if it is not None."""
    meanings = _meanings(cls)
    for name, annotation in fields_of(cls).items():
        default = default_of(cls, name) if instance is None else getattr(instance, name)
        meaning, (suffix, table) = meanings.get(name, ""), _inner_class(annotation)
        if table is not None and table not in (*above, cls):
            inner = default if isinstance(default, table) else None
            for key in _keys(table, f"{prefix}{name}{suffix}.", inner, (*above, cls)):
                yield key if suffix or not meaning else key._replace(meaning=f"{meaning.rstrip('.')}: {key.meaning}")
        else:
            needed = default is MISSING and type(None) not in get_args(annotation)
            yield Key(f"{prefix}{name}", _kind(annotation), _default_text(default, annotation), meaning, needed)


def _inner_class(annotation: Any) -> tuple[str, type | None]:
    """Return the suffix of a key in the paths of its inner keys, and the dataclass that has the inner keys.

    The suffix is ``[]`` for a list, ``.NAME`` for a map. The class is None if the key has no inner keys.
    """
    alternatives = [alternative for alternative in get_args(annotation) if alternative is not type(None)]
    if is_union(annotation) and len(alternatives) == 1:
        annotation = alternatives[0]
    origin, args = get_origin(annotation), get_args(annotation)
    suffix, table = "", annotation
    if origin in LISTS and (len(args) == 1 or args[1:] == (...,)):
        suffix, table = "[]", args[0]
    elif origin in DICTS:
        suffix, table = ".NAME", args[1]
    return (suffix, table) if is_plain(table) else ("", None)


def _kind(annotation: Any) -> str:
    annotation = getattr(annotation, "__supertype__", annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotation_text(args[0], args[1:])
    if is_union(annotation):
        return " or ".join(dict.fromkeys(_kind(member) for member in args if member is not type(None)))
    if origin is Literal:
        return _one_of(args)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _one_of([member.value for member in annotation])
    if origin in LISTS:
        kinds = ", ".join(dict.fromkeys(_plural(member) for member in args if member is not ...))
        return f"list of {kinds.removeprefix('one of ')}"
    if origin in DICTS:
        return "map" if args[1] is Any else f"map of {_plural(args[1])}"
    bare = {**dict.fromkeys(LISTS, "list"), **dict.fromkeys(DICTS, "map")}
    return "map" if is_plain(annotation) else (bare | _WORDS).get(annotation, "string")


def _plural(annotation: Any) -> str:
    return re.sub(r"^(string|boolean|integer|number|map|list|path|duration)\b", r"\1s", _kind(annotation))


def _annotation_text(annotation: Any, markers: tuple[Any, ...]) -> str:
    for marker in markers:
        if marker == DURATION:
            return "duration"
        if isinstance(marker, OneOf):
            return _one_of(marker.choices())
        if isinstance(marker, Between):
            return f"{_kind(annotation)} {marker}"
    return _kind(annotation)


def _one_of(choices: Iterable[Any]) -> str:
    return f"one of {', '.join(str(choice) for choice in choices if choice != '')}"


def _default_text(value: Any, annotation: Any) -> str:
    """A default in the syntax that YAML, TOML and JSON share. Returns "" without a default."""
    if value is MISSING or value is None:
        return ""
    plain = _plain_value(value, annotation)
    return "" if plain in ("", [], {}) else json.dumps(plain, ensure_ascii=False)


def _meanings(cls: type) -> dict[str, str]:
    """The meaning of each attribute from the docstrings of a class and its bases.

    A line may explain several attributes: ``a, b: ...``.
    """
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for line in re.sub(r"\n {8,}", " ", listed).splitlines():
            names, colon, text = line.strip().partition(": ")
            if colon:
                meanings |= {name.strip(): text.replace("``", '"') for name in names.split(",")}
    return meanings
