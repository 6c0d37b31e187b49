"""Decode JSON by a shape like Go's decoder, with which Koordinator reads its annotations and documents.

Unknown keys are skipped, keys match in any case, null counts as absent, and a value of a wrong type is an error with
its path. Of a repeated key, the last value is used; repeated objects with known keys are merged. Skipped keys can be
reported with the most similar valid key: `Unread`. Shapes are `int`, `str`, `bool`, `QUANTITY`, `INT_OR_TEXT`, `INT32`,
a `Word` of fixed values, a `Record` of named keys, `Table` and `Items`.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, NoReturn

from nri.config.syntax import TooDeep, parse_json
from nri.kube import quantity
from nri.text import cut, nearest, plain

#: A whole number of 32 bits.
INT32: Final = "a whole number of 32 bits"
#: A Kubernetes quantity, as a string or a number; read as a Fraction.
QUANTITY: Final = "a quantity"
#: A whole number or a string, as Kubernetes' IntOrString; not converted.
INT_OR_TEXT: Final = "a whole number or a string"

_MAX_SHOWN, _MAX_TEXT = 80, 200
_TYPE_NAMES = {int: "a whole number", str: "a string", bool: "true or false"}
_INT64 = 1 << 63


class Record(NamedTuple):
    """An object with known keys. Absent and null keys are omitted, but a null quantity is 0."""

    keys: dict[str, Any]


class Table(NamedTuple):
    """An object with any keys and values of one shape."""

    values: Any


class Items(NamedTuple):
    """A list with elements of one shape. null is the shape's empty value."""

    shape: Any


class Word(NamedTuple):
    """A string with fixed values. Other strings are accepted, but have no effect."""

    words: tuple[str, ...]


class Unread(NamedTuple):
    """A key without effect: its path in the document, and the reason."""

    key: str
    why: str

    @classmethod
    def of(cls, key: str, suggestion: str) -> Unread:
        """Report an unread key, with the most similar valid key, or ""."""
        return cls(plain(key, _MAX_TEXT), "nothing reads it" + (f"; did you mean {suggestion}?" if suggestion else ""))

    @classmethod
    def of_word(cls, key: str, value: str, words: tuple[str, ...]) -> Unread:
        """Report a value that is not a fixed value of its key."""
        suggestion = nearest(value, words)
        why = f"{cut(json.dumps(value), _MAX_SHOWN)} has no effect: write one of {', '.join(words)}"
        return cls(plain(key, _MAX_TEXT), why + (f"; did you mean {suggestion}?" if suggestion else ""))

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def decode(text: str, shape: Any) -> Any:
    """Read JSON text as a value of a shape. Raises ValueError, with a one-line reason, if it does not fit."""
    try:
        value = parse_json(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except TooDeep:
        raise
    except ValueError as error:
        raise ValueError(f"{cut(json.dumps(text), _MAX_SHOWN)} is not JSON: {error}") from None
    return _empty(shape) if value is None else fit(value, shape, "")


def fit(value: Any, shape: Any, where: str) -> Any:
    """Convert a value to its shape. `where` is its path, for errors."""
    if isinstance(shape, Record):
        return _record(value, shape, where, {})
    if isinstance(shape, Table):
        if not isinstance(value, dict):
            _raise_wrong_type(value, "an object", where)
        return {
            key: _element(version, shape.values, f"{where}.{cut(key, _MAX_SHOWN)}")
            for key, part in value.items()
            for version in _versions(part)
        }
    if isinstance(shape, Items):
        if not isinstance(value, list):
            _raise_wrong_type(value, "a list", where)
        return [_element(part, shape.shape, f"{where}[{place}]") for place, part in enumerate(value)]
    return _scalar(value, str if isinstance(shape, Word) else shape, where)


class _DuplicateValues(list[Any]):
    """The values of a key that an object has more than once, in their order."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON's keys and values, in which a key may be repeated."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        repeated: dict[str, _DuplicateValues] = {key: _DuplicateValues() for key in fields}
        for key, value in pairs:
            repeated[key].append(value)
        fields = {key: values if len(values) > 1 else values[0] for key, values in repeated.items()}
    return fields


def _versions(value: Any) -> list[Any]:
    return value if isinstance(value, _DuplicateValues) else [value]


def _element(value: Any, shape: Any, where: str) -> Any:
    return _empty(shape) if value is None else fit(value, shape, where)


def _record(value: Any, shape: Record, where: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Add an object's keys to `fields`, and return `fields`. Earlier objects of a repeated key have filled it."""
    if not isinstance(value, dict):
        _raise_wrong_type(value, "an object", where)
    folded = {key.casefold(): key for key in shape.keys}
    for key, part in value.items():
        known_key = key if key in shape.keys else folded.get(key.casefold(), "")
        for version in _versions(part) if known_key in shape.keys else ():
            inner, path = shape.keys[known_key], f"{where}.{known_key}"
            if version is None and inner is QUANTITY:
                fields[known_key] = _empty(inner)
            elif version is None:
                fields.pop(known_key, None)
            elif isinstance(inner, Record):
                fields[known_key] = _record(version, inner, path, fields.get(known_key, {}))
            else:
                fields[known_key] = fit(version, inner, path)
    return fields


def _scalar(value: Any, shape: Any, where: str) -> Any:
    if shape is QUANTITY:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            _raise_wrong_type(value, QUANTITY, where)
        try:
            return quantity.capped(value)
        except ValueError as error:
            raise ValueError(f"{_place_prefix(where)}{error}") from None
    if shape is INT_OR_TEXT:
        if isinstance(value, str):
            return value
        shape = INT32
    if shape is INT32:
        if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
            _raise_wrong_type(value, INT32, where)
        return value
    if type(value) is not shape or (shape is int and not -_INT64 <= value < _INT64):
        _raise_wrong_type(value, _TYPE_NAMES[shape], where)
    return value


def _empty(shape: Any) -> Any:
    if isinstance(shape, (Record, Table)):
        return {}
    if isinstance(shape, Items):
        return []
    if isinstance(shape, Word):
        return ""
    return quantity.parse(0) if shape is QUANTITY else 0 if shape in (INT_OR_TEXT, INT32) else shape()


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _raise_wrong_type(value: Any, expected: str, where: str) -> NoReturn:
    raise ValueError(f"{_place_prefix(where)}{cut(json.dumps(value), _MAX_SHOWN)} is not {expected}")


def _place_prefix(where: str) -> str:
    return f"{where.lstrip('.')}: " if where else ""
