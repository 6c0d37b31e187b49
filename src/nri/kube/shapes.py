"""JSON against a shape, by the rules of Go's decoder, because what people wrote for Koordinator was read by that.

A key that the shape does not have is passed over, a key may be written in any case, null is as good as absent, and a
value of another type is an error that names its place. A key that is passed over can be reported, with the one that was
meant: `Unread`. Shapes: `int`, `str`, `bool`, `QUANTITY`, `INT_OR_TEXT`, a `Word` of some, a
`Record` of named keys, `Table` and `Items`. Next: `nri.agent.koordinator.pod_annotations`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple, NoReturn

from nri.config.syntax import TooDeep, parse_json
from nri.kube import quantity
from nri.text import cut, plain

__all__ = ["INT32", "INT_OR_TEXT", "QUANTITY", "Items", "Record", "Table", "Unread", "Word", "decode", "fit", "meant"]

#: A whole number of 32 bits.
INT32: Final = "a whole number of 32 bits"
#: A Kubernetes quantity, as a text or a number; read as a Fraction.
QUANTITY: Final = "a quantity"
#: A whole number or a text, as Kubernetes' IntOrString; read as it is.
INT_OR_TEXT: Final = "a whole number or a text"

_MOST_SHOWN, _MOST_TEXT = 80, 200
_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}
_INT64 = 1 << 63


class Record(NamedTuple):
    """An object of known keys; a key that is absent or null is left out of what is read."""

    keys: dict[str, Any]


class Table(NamedTuple):
    """An object of any keys, whose values have one shape."""

    values: Any


class Items(NamedTuple):
    """A list of one shape; null in it is the empty value of the shape."""

    shape: Any


class Word(NamedTuple):
    """A text that has a meaning only if it is one of these; any is read, and another one is as good as none."""

    words: tuple[str, ...]


class Unread(NamedTuple):
    """A key without effect: its place in the document, and why."""

    key: str
    why: str

    @classmethod
    def of(cls, key: str, near: str) -> Unread:
        """A key that nothing reads, and the nearest that is read, "" for none; the key is a text of others."""
        return cls(plain(key, _MOST_TEXT), "nothing reads it" + (f"; did you mean {near}?" if near else ""))

    @classmethod
    def of_word(cls, key: str, value: str, words: tuple[str, ...]) -> Unread:
        """A value that is none of the words that its key may have."""
        near = meant(value, words)
        why = f"{cut(json.dumps(value), _MOST_SHOWN)} means nothing: it may be {', '.join(words)}"
        return cls(plain(key, _MOST_TEXT), why + (f"; did you mean {near}?" if near else ""))

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def meant(key: str, known: Collection[str], alike: float = 0.6) -> str:
    """Return the name that is nearest to a key, "" if none is near."""
    folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(key.casefold()[:_MOST_TEXT], folded, 1, alike)
    return folded[near[0]] if near else ""


def decode(text: str, shape: Any) -> Any:
    """Read JSON text as a value of a shape. ValueError says what is wrong with it, in one line."""
    try:
        value = parse_json(text, parse_constant=_no_constant)
    except TooDeep:
        raise
    except ValueError as error:
        raise ValueError(f"{cut(json.dumps(text), _MOST_SHOWN)} is not JSON: {error}") from None
    return _empty(shape) if value is None else fit(value, shape, "")


def fit(value: Any, shape: Any, where: str) -> Any:
    """Return the value as its shape has it. `where` is its place, for the error."""
    if isinstance(shape, Record):
        return _record(value, shape, where)
    if isinstance(shape, Table):
        if not isinstance(value, dict):
            _wrong(value, "an object", where)
        return {
            key: _empty(shape.values) if each is None else fit(each, shape.values, f"{where}.{cut(key, _MOST_SHOWN)}")
            for key, each in value.items()
        }
    if isinstance(shape, Items):
        if not isinstance(value, list):
            _wrong(value, "a list", where)
        return [
            _empty(shape.shape) if each is None else fit(each, shape.shape, f"{where}[{place}]")
            for place, each in enumerate(value)
        ]
    return _scalar(value, str if isinstance(shape, Word) else shape, where)


def _record(value: Any, shape: Record, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong(value, "an object", where)
    folded = {key.casefold(): key for key in shape.keys}
    found: dict[str, Any] = {}
    for key, each in value.items():
        known = key if key in shape.keys else folded.get(key.casefold())
        if known is not None and each is not None:
            found[known] = fit(each, shape.keys[known], f"{where}.{known}")
    return found


def _scalar(value: Any, shape: Any, where: str) -> Any:
    if shape is QUANTITY:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            _wrong(value, QUANTITY, where)
        try:
            return quantity.capped(value)
        except ValueError as error:
            raise ValueError(f"{_place(where)}{error}") from None
    if shape is INT_OR_TEXT:
        if isinstance(value, str):
            return value
        shape = int
    if shape is INT32:
        if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
            _wrong(value, INT32, where)
        return value
    if type(value) is not shape or (shape is int and not -_INT64 <= value < _INT64):
        _wrong(value, _WORDS[shape], where)
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


def _wrong(value: Any, wanted: str, where: str) -> NoReturn:
    raise ValueError(f"{_place(where)}{cut(json.dumps(value), _MOST_SHOWN)} is not {wanted}")


def _place(where: str) -> str:
    return f"{where.lstrip('.')}: " if where else ""
