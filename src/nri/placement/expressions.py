"""Expressions that select containers in nri-plugins' configuration and annotations: a key, an operator and values.

A key is `name`, `namespace`, `qosclass`, `id` or `labels/NAME`; after the prefix `pod/` it is a key of the pod.
Several joined keys begin with a colon, optionally followed by two separators, for keys and for values:
`:,-pod/name,name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from nri.api.selectors import check_pattern

Operator = Literal["Equals", "NotEqual", "In", "NotIn", "Exists", "NotExist", "AlwaysTrue", "Matches", "MatchesNot",
                   "MatchesAny", "MatchesNone"]  # fmt: skip
#: The number of values of an operator; other operators take any number.
_VALUE_COUNT = {"Equals": 1, "NotEqual": 1, "Matches": 1, "MatchesNot": 1, "Exists": 0, "NotExist": 0, "AlwaysTrue": 0}
_NEGATED = {
    "NotEqual": "Equals",
    "NotIn": "In",
    "NotExist": "Exists",
    "MatchesNot": "Matches",
    "MatchesNone": "MatchesAny",
}
_WILD = frozenset("*?[")
#: Maximum length of a key, or of all joined keys, because each key is looked up for each container.
_MAX_KEY_LENGTH = 1024
_SIMPLE = ("id", "uid", "name", "namespace", "qosclass")


class Subject(Protocol):
    """A container or pod with the values that expressions compare."""

    def values(self) -> Mapping[str, str]:
        """Values of the simple keys."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels by name."""
        ...


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition on a container. Raises ValueError if it is invalid.

    Attributes:
        operator: how the value of the key is compared.
        key: name, namespace, qosclass, id or labels/NAME of a container, or of its pod after the prefix pod/.
        values: the values to compare with.
    """

    operator: Operator
    key: str = ""
    values: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        number = _VALUE_COUNT.get(self.operator, len(self.values))
        if len(self.values) != number:
            raise ValueError(f"{self.operator} takes {number or 'no'} value{'' if number == 1 else 's'}")
        if self.operator.startswith("Matches"):
            for value in self.values:
                check_pattern(value)
        if self.operator != "AlwaysTrue":
            self.check_key()

    def check_key(self) -> None:
        """Raise ValueError for an invalid key. `AlwaysTrue` ignores its key."""
        if len(self.key) > _MAX_KEY_LENGTH:
            raise ValueError(f"the key has {len(self.key)} characters; at most {_MAX_KEY_LENGTH} are allowed")
        for key in _keys(self.key)[0]:
            _check(key)

    def holds(self, container: Subject, pod: Subject | None) -> bool:
        """Whether the condition is true for a container. If the key has no value, only negated operators are true."""
        if self.operator == "AlwaysTrue":
            return True
        value = value_of(self.key, container, pod)
        operator = _NEGATED.get(self.operator)
        if self.operator == "NotEqual":  # here `*` is not a wildcard
            return value is None or value != self.values[0]
        result = value is not None and _OPERATORS[operator or self.operator](value, self.values)
        return result != (operator is not None)


def matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether a value matches a shell pattern in `patterns`; `*` and `?` do not match a slash."""
    return any(
        fnmatchcase(text, pattern.replace("[^", "[!")) and text.count("/") == pattern.count("/")
        if _WILD.intersection(pattern)
        else text == pattern
        for pattern in patterns
    )


_OPERATORS: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "Equals": lambda value, values: values[0] in (value, "*"),
    "In": lambda value, values: value in values or "*" in values,
    "Exists": lambda _value, _values: True,
    "Matches": matches,
    "MatchesAny": matches,
}


def value_of(key: str, container: Subject, pod: Subject | None) -> str | None:
    """The value of a key, or the joined values of several keys. Returns None if no key has a value."""
    keys, separator = _keys(key)
    values = [_value(name, container, pod) for name in keys]
    if all(value is None for value in values):
        return None
    return separator.join(value or "" for value in values)


def _value(key: str, container: Subject, pod: Subject | None) -> str | None:
    subject: Subject | None = container
    head, _, path = key.strip("/").partition("/")
    while head == "pod":
        subject = pod
        head, _, path = path.partition("/")
    if subject is None:
        return None
    if head == "labels":
        return subject.labels.get(path)
    return None if path else subject.values().get(head)


def _keys(key: str) -> tuple[list[str], str]:
    if len(key) < 4 or key[0] != ":":
        return [key], ""
    if not any(character.isalnum() or character in "/." for character in key[1:3]):
        return key[3:].split(key[1]), key[2]
    return key[1:].split(":"), ":"


def _check(key: str) -> None:
    head, _, path = key.strip("/").partition("/")
    while head == "pod" and path:
        head, _, path = path.partition("/")
    if (head in ("labels", "tags") and path) or (head in _SIMPLE and not path):
        return
    raise ValueError(
        f"{key!r} is not a valid key; valid keys are {', '.join(_SIMPLE)}, labels/NAME, or a key after pod/"
    )


def expand(text: str, container: Subject, pod: Subject | None) -> tuple[str, bool]:
    """Replace `${key}` and `$key` in a text by their values.

    Returns the text, and whether all keys have a value. Raises ValueError if a reference is invalid.
    """
    parts: list[str] = []
    complete = True
    for literal, key in _parts(text):
        parts.append(literal)
        if key is not None:
            value = value_of(key, container, pod)
            complete = complete and value is not None
            parts.append(value or "")
    return "".join(parts), complete


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """The literals of a text, each with the key that follows it; a key without braces ends at the next `$`."""
    remainder = text
    while remainder:
        literal, dollar, remainder = remainder.partition("$")
        if not dollar:
            yield literal, None
        elif remainder.startswith("$"):
            yield literal + "$", None
            remainder = remainder[1:]
        elif remainder.startswith("{"):
            key, brace, remainder = remainder[1:].partition("}")
            if not brace or not key or "{" in key or "$" in key:
                raise ValueError(f"{text!r}: write a reference as ${{key}}")
            yield literal, key
        else:
            key, dollar, remainder = remainder.partition("$")
            if not key or "{" in key or "}" in key:
                raise ValueError(f"{text!r}: write a reference as ${{key}}")
            yield literal, key
            remainder = dollar + remainder
