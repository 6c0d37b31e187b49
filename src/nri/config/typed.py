"""Check plain values against an annotated class, report every problem with its path, and build the instance.

A class needs only annotations; class attributes are its defaults. With `_any_case = True` keys may be in any letter
case, as in Go's JSON. Supported types are strings, numbers (within bounds:
`Between`), booleans, dates, bytes as base64, nested classes, dataclasses, list, set, dict, tuple, unions, Literal,
Enum, `nri.config.Duration`, pathlib.Path, and any class with a `parse(text)`. Values are never coerced: "3" is not 3. A
library for this would add a third to the start of a plugin, and its messages would have to be translated.

`check` returns a `Partial` with the values of one source. `nri.config.layers` merges partials before it builds the
instance, so that a required key may be in any source.
"""

from __future__ import annotations

import binascii
import collections.abc
import copy
import datetime as dt
import enum
import functools
import pathlib
import re
import types
import typing
from typing import Any

from nri.config.complaint import MAX_PROBLEMS, Problem, WrongValue, scalar_text, shorten, suggest
from nri.config.duration import DURATION, parse_duration
from nri.config.key_path import Path, uncapital
from nri.text import nearest

LISTS: dict[Any, Any] = {list: list, set: set, frozenset: frozenset, tuple: tuple}
LISTS |= dict.fromkeys((collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection), list)
DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
#: The names of types in messages.
_WORDS: dict[Any, str] = {
    str: "a string", int: "a whole number", float: "a number", bool: "true or false", type(None): "nothing",
    dt.datetime: "a date and time", dt.date: "a date", dt.time: "a time of day",
    bytes: "base64 text", pathlib.Path: "a string",
}  # fmt: skip
_WORDS |= dict.fromkeys(LISTS, "a list") | dict.fromkeys(DICTS, "a mapping of keys to values")
#: Parsers of types that are strings in formats without such a type.
_FROM_TEXT: dict[Any, Any] = {
    bytes: functools.partial(binascii.a2b_base64, strict_mode=True),
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    pathlib.Path: pathlib.Path,
}
#: If a similar choice is suggested, other choices are listed only up to this number.
_MAX_NAMED_CHOICES = 8


class Between(typing.NamedTuple):
    """The inclusive bounds of a number: ``Annotated[int, Between(0, 99)]``. None means no bound."""

    low: float | None = None
    high: float | None = None

    def admits(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"at most {self.high}" if self.low is None else f"at least {self.low}"
        return f"from {self.low} to {self.high}"


class OneOf(typing.NamedTuple):
    """A set of allowed strings that is known when a value is read: ``Annotated[str, OneOf(function)]``."""

    choices: collections.abc.Callable[[], collections.abc.Iterable[str]]


class Partial:
    """Checked values by field name for an object of `cls`, from one source, or from several after `update`.

    `accepted` is false if a value at any depth was refused. Then no object is built.
    """

    __slots__ = ("accepted", "cls", "values")

    def __init__(self, cls: type, values: dict[str, Any], *, accepted: bool = True) -> None:
        self.cls = cls
        self.values = values
        self.accepted = accepted

    def copy(self) -> Partial:
        """A copy with the same values that can be updated independently. Lists and dicts are shared."""
        values = {name: value.copy() if isinstance(value, Partial) else value for name, value in self.values.items()}
        return Partial(self.cls, values, accepted=self.accepted)

    def update(self, later: Partial) -> None:
        """Override values by a later source, key by key. Lists and dicts are replaced entirely."""
        self.accepted = self.accepted and later.accepted
        for name, value in later.values.items():
            earlier = self.values.get(name)
            if isinstance(earlier, Partial) and isinstance(value, Partial) and earlier.cls is value.cls:
                earlier.update(value)
            else:
                self.values[name] = value


def check(cls: type, tree: object, path: Path, problems: list[Problem]) -> Partial:
    """Check each key of `tree` against the annotations of `cls`. Problems are appended, not raised."""
    annotations, before = fields_of(cls), len(problems)
    partial = Partial(cls, {})
    if not isinstance(tree, dict):
        problems.append(Problem(path, f"expected a mapping of keys to values, not {shorten(tree)}"))
        partial.accepted = False
        return partial
    folded = {name.casefold(): name for name in annotations} if getattr(cls, "_any_case", False) else {}
    for key, value in tree.items():
        name = key if key in annotations else folded.get(str(key).casefold())
        if name is not None:
            partial.values[name] = _field(annotations[name], value, (*path, key), problems)
        else:
            hint = suggest(str(key), annotations) if len(problems) < MAX_PROBLEMS else ""
            problems.append(Problem((*path, str(key)), "unknown key", hint))
    partial.accepted = len(problems) == before
    return partial


def build(partial: Partial, path: Path, problems: list[Problem]) -> Any:
    """Build the instance from values, else defaults, else nested classes with defaults.

    Returns None if a value is missing or was refused, so that the checks of a class only get accepted values.
    """
    if not (partial.accepted or partial.values):
        return None  # the value is not a mapping, so that missing keys are not reported
    cls, values, before = partial.cls, {}, len(problems)
    for name, annotation in fields_of(cls).items():
        if name in partial.values:
            checked = partial.values[name]
            values[name] = build(checked, (*path, name), problems) if isinstance(checked, Partial) else checked
        elif (default := default_of(cls, name)) is not MISSING:
            values[name] = default
        elif is_plain(annotation):
            values[name] = build(Partial(annotation, {}), (*path, name), problems)
        elif type(None) in typing.get_args(annotation):
            values[name] = None
        else:
            problems.append(Problem((*path, name), "missing, and the key has no default", "add the key"))
    if len(problems) > before or not partial.accepted:
        return None
    try:
        return _instance(cls, values)
    except WrongValue as error:
        problems.append(Problem((*path, *error.path), error.reason, error.suggestion))
        return None
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None


def fields_of(cls: type) -> dict[str, Any]:
    """Names and resolved annotations of a class's keys. Private names and ClassVars are not keys."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(f"{cls.__module__}.{cls.__qualname__}: an annotation cannot be resolved: {error}") from None
    return {
        name: hint
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not typing.ClassVar
    }


def is_plain(annotation: object) -> typing.TypeGuard[type]:
    """Whether an annotation is a class of keys that this module builds."""
    if not isinstance(annotation, type) or hasattr(annotation, "parse"):
        return False
    return not issubclass(annotation, (enum.Enum, tuple, dict)) and any(
        vars(base).get("__annotations__") for base in annotation.__mro__
    )


#: The result of `default_of` for a field without a default.
MISSING = object()


def default_of(cls: type, name: str) -> Any:
    """A copy of the default, so that instances never share a list. Returns MISSING without a default."""
    field = getattr(cls, "__dataclass_fields__", {}).get(name)
    if field is not None:
        import dataclasses

        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        return MISSING if field.default is dataclasses.MISSING else copy.deepcopy(field.default)
    return copy.deepcopy(getattr(cls, name)) if hasattr(cls, name) else MISSING


def _instance(cls: type, values: dict[str, Any]) -> Any:
    """Make an instance. Attributes of plain classes are set, dataclasses are called; both run __post_init__."""
    if hasattr(cls, "__dataclass_fields__"):
        return cls(**values)
    instance = cls()
    for name, value in values.items():
        setattr(instance, name, value)
    if hasattr(instance, "__post_init__"):
        instance.__post_init__()
    return instance


def _field(annotation: Any, value: object, path: Path, problems: list[Problem]) -> Any:
    """A field's value. Nested classes stay partial, so that a later source can add keys."""
    alternatives = [other for other in typing.get_args(annotation) if other is not type(None)]
    if is_union(annotation) and len(alternatives) == 1 and is_plain(alternatives[0]) and value is not None:
        annotation = alternatives[0]
    if is_plain(annotation):
        return check(annotation, {} if value is None else value, path, problems)
    return _value(annotation, value, path, problems)


def _value(annotation: Any, value: Any, path: Path, problems: list[Problem]) -> Any:
    """A finished value of any annotation."""
    annotation = getattr(annotation, "__supertype__", annotation)  # NewType
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated_value(args[0], args[1:], value, path, problems)
    if is_union(annotation):
        return _union_value(args, value, path, problems)
    if origin is typing.Literal:
        return _choice({scalar_text(arg): arg for arg in args}, value, path, problems)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _choice({scalar_text(member.value): member for member in annotation}, value, path, problems)
    if is_plain(annotation):
        return build(check(annotation, value, path, problems), path, problems)
    if origin is tuple and args[-1] is not Ellipsis and isinstance(value, list):
        return _fixed_list(args, value, path, problems)
    if origin in LISTS and isinstance(value, list):
        return LISTS[origin]([_value(args[0], item, (*path, place), problems) for place, item in enumerate(value)])
    if origin in DICTS and isinstance(value, dict):
        return {
            _value(args[0], key, (*path, str(key)), problems): _value(args[1], item, (*path, str(key)), problems)
            for key, item in value.items()
        }
    return _leaf(annotation, value, path, problems)


def _leaf(annotation: Any, value: Any, path: Path, problems: list[Problem]) -> Any:
    """A value without annotated values in it: a scalar, or a list or dict of any values."""
    if annotation is Any or annotation is object:
        return value
    parse = getattr(annotation, "parse", None) or _FROM_TEXT.get(annotation)
    if parse is not None and isinstance(value, str):
        try:
            return parse(value)
        except ValueError as error:
            has_parser = annotation not in _FROM_TEXT
            problems.append(Problem(path, uncapital(str(error))) if has_parser else _mismatch(annotation, value, path))
            return None
    if annotation is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            problems.append(Problem(path, "contains a number that is too large"))
            return None
    kind = type(None) if annotation is None else annotation
    if type(value) is kind or (kind in DICTS and isinstance(value, dict)):
        return value
    if kind in LISTS and isinstance(value, list):
        return LISTS[kind](value)
    problems.append(_mismatch(typing.get_origin(kind) or kind, value, path))
    return None


def _mismatch(kind: Any, value: Any, path: Path) -> Problem:
    """The problem of a value with another type, with a fix for the usual cause."""
    if kind not in _WORDS and not hasattr(kind, "parse"):
        raise TypeError(f"configuration has no values of {kind}; annotate the key with another type")
    suggestion = ""
    if kind is str and isinstance(value, (int, float)):
        suggestion = f'write it in quotes: "{scalar_text(value)}"'
    elif kind in (int, float) and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        suggestion = f"write it without quotes: {value}"
    elif kind is bool:
        suggestion = "write true or false"
    return Problem(path, f"expected {_WORDS.get(kind, 'a string')}, not {shorten(value)}", suggestion)


def _annotated_value(
    kind: Any, markers: collections.abc.Sequence[Any], value: Any, path: Path, problems: list[Problem]
) -> Any:
    """A duration, an allowed string, a number within bounds, or a value with unknown markers."""
    if DURATION in markers:
        return _duration(value, path, problems)
    for marker in markers:
        if isinstance(marker, OneOf):
            return _choice({text: text for text in marker.choices()}, value, path, problems)
    before = len(problems)
    checked = _value(kind, value, path, problems)
    for bounds in markers:
        if isinstance(bounds, Between) and len(problems) == before and not bounds.admits(checked):
            problems.append(Problem(path, f"expected {_WORDS[kind]} {bounds}, not {shorten(value)}"))
    return checked


def _fixed_list(
    kinds: collections.abc.Sequence[Any], value: list[Any], path: Path, problems: list[Problem]
) -> tuple[Any, ...] | None:
    """Check a list with a fixed number of values, each with its own type."""
    if len(value) != len(kinds):
        problems.append(Problem(path, f"expected a list of {len(kinds)} values, not {shorten(value)}"))
        return None
    return tuple(
        _value(kind, item, (*path, place), problems)
        for place, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _duration(value: object, path: Path, problems: list[Problem]) -> float | None:
    """Seconds, from a number or a duration in Go's format."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            problems.append(Problem(path, "contains a number that is too large"))
            return None
    try:
        return parse_duration(value if isinstance(value, str) else scalar_text(value))
    except ValueError as error:
        reason, _, suggestion = str(error).partition("; ")
        problems.append(Problem(path, reason, suggestion))
        return None


def _union_value(alternatives: tuple[Any, ...], value: object, path: Path, problems: list[Problem]) -> Any:
    """The first alternative that accepts the value. If only one alternative fits, its problems are reported."""
    if value is None and type(None) in alternatives:
        return None
    tried: list[list[Problem]] = []
    for alternative in alternatives:
        if alternative is type(None):
            continue
        problems_of_one: list[Problem] = []
        result = _value(alternative, value, path, problems_of_one)
        if not problems_of_one:
            return result
        tried.append(problems_of_one)
    deeper = [
        problems_of_one
        for problems_of_one in tried
        if any(len(problem.path) > len(path) for problem in problems_of_one)
    ]
    if len(deeper) == 1 or len(tried) == 1:
        problems.extend((deeper or tried)[0])
    else:
        expected = [
            problems_of_one[0].reason.removeprefix("expected ").partition(", not ")[0] for problems_of_one in tried
        ]
        problems.append(Problem(path, f"expected {' or '.join(expected)}, not {shorten(value)}"))
    return None


def _choice(choices: dict[str, Any], value: object, path: Path, problems: list[Problem]) -> Any:
    """An allowed choice, by its value. The most similar choice is suggested."""
    shown = scalar_text(value)
    if shown in choices and type(value) is type(getattr(choices[shown], "value", choices[shown])):
        return choices[shown]
    suggestion = nearest(shown, choices)
    hint = f'did you mean "{suggestion}"?' if suggestion else ""
    expected = (
        f"{len(choices)} words"
        if hint and len(choices) > _MAX_NAMED_CHOICES
        else ", ".join(choice or '""' for choice in choices)
    )
    problems.append(Problem(path, f"expected one of {expected}, not {shorten(value)}", hint))
    return None


def is_union(annotation: object) -> bool:
    """Whether an annotation is a union of types."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
