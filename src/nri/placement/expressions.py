"""The language by which nri-plugins' configuration and annotations select containers: a key, an operator, values.

One job: :class:`Expression` against a container, and `${key}` in texts. A key is `name`, `namespace`, `qosclass`, `id`,
`labels/NAME`, or one of these of the pod behind `pod/`; several keys at once begin with a colon, with a separator of
keys and one of values if wanted: `:,-pod/name,name`. Rules: pure; a key without a value fails every positive operator.
Next: `containers`, which they are asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from nri.api.selectors import check_pattern

__all__ = ["Expression", "Subject", "expand", "matches", "value_of"]

Operator = Literal["Equals", "NotEqual", "In", "NotIn", "Exists", "NotExist", "AlwaysTrue", "Matches", "MatchesNot",
                   "MatchesAny", "MatchesNone"]  # fmt: skip
#: How many values an operator takes; any number where it is not here.
_TAKES = {"Equals": 1, "NotEqual": 1, "Matches": 1, "MatchesNot": 1, "Exists": 0, "NotExist": 0, "AlwaysTrue": 0}
_NEGATED = {
    "NotEqual": "Equals",
    "NotIn": "In",
    "NotExist": "Exists",
    "MatchesNot": "Matches",
    "MatchesNone": "MatchesAny",
}
_WILD = frozenset("*?[")
#: Of several joined keys, too: each is looked up for each container.
_MAX_KEY_LENGTH = 1024
_SIMPLE = ("id", "uid", "name", "namespace", "qosclass")


class Subject(Protocol):
    """A thing that has values of keys, and perhaps is part of a pod."""

    def values(self) -> Mapping[str, str]:
        """Its simple keys."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        ...


@dataclass(frozen=True, slots=True)
class Expression:
    """One condition. Raises ValueError if it can never be meant.

    Attributes:
        operator: how the value of the key is compared.
        key: name, namespace, qosclass, id or labels/NAME of a container, or one of these of its pod after pod/.
        values: what it is compared with.
    """

    operator: Operator
    key: str = ""
    values: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = _TAKES.get(self.operator, len(self.values))
        if len(self.values) != wanted:
            raise ValueError(f"{self.operator} takes {wanted or 'no'} value{'' if wanted == 1 else 's'}")
        if self.operator.startswith("Matches"):
            for value in self.values:
                check_pattern(value)
        if self.operator != "AlwaysTrue":
            self.check_key()

    def check_key(self) -> None:
        """Raise ValueError for a key that is none. `AlwaysTrue` has no use for one, and takes any."""
        if len(self.key) > _MAX_KEY_LENGTH:
            raise ValueError(f"the key has {len(self.key)} characters; at most {_MAX_KEY_LENGTH} are read")
        for key in _keys(self.key)[0]:
            _check(key)

    def holds(self, container: Subject, pod: Subject | None) -> bool:
        """Whether it is true of a container."""
        if self.operator == "AlwaysTrue":
            return True
        found = value_of(self.key, container, pod)
        operator = _NEGATED.get(self.operator)
        if self.operator == "NotEqual":  # where `*` is a text like any other
            return found is None or found != self.values[0]
        result = found is not None and _OPERATORS[operator or self.operator](found, self.values)
        return result != (operator is not None)


def matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether one of some patterns of a shell fits a text; `*` and `?` stop at a slash."""
    return any(
        fnmatchcase(text, pattern.replace("[^", "[!")) and text.count("/") == pattern.count("/")
        if _WILD.intersection(pattern)
        else text == pattern
        for pattern in patterns
    )


_OPERATORS: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "Equals": lambda found, values: values[0] in (found, "*"),
    "In": lambda found, values: found in values or "*" in values,
    "Exists": lambda _found, _values: True,
    "Matches": matches,
    "MatchesAny": matches,
}


def value_of(key: str, container: Subject, pod: Subject | None) -> str | None:
    """The value of a key, or of several joined ones; None if there is none."""
    keys, separator = _keys(key)
    found = [_value(each, container, pod) for each in keys]
    if all(each is None for each in found):
        return None
    return separator.join(each or "" for each in found)


def _value(key: str, container: Subject, pod: Subject | None) -> str | None:
    subject: Subject | None = container
    word, _, rest = key.strip("/").partition("/")
    while word == "pod":
        subject = pod
        word, _, rest = rest.partition("/")
    if subject is None:
        return None
    if word == "labels":
        return subject.labels.get(rest)
    return None if rest else subject.values().get(word)


def _keys(key: str) -> tuple[list[str], str]:
    if len(key) < 4 or key[0] != ":":
        return [key], ""
    if not any(each.isalnum() or each in "/." for each in key[1:3]):
        return key[3:].split(key[1]), key[2]
    return key[1:].split(":"), ":"


def _check(key: str) -> None:
    word, _, rest = key.strip("/").partition("/")
    while word == "pod" and rest:
        word, _, rest = rest.partition("/")
    if (word in ("labels", "tags") and rest) or (word in _SIMPLE and not rest):
        return
    raise ValueError(f"{key!r} is no key: {', '.join(_SIMPLE)}, labels/NAME, or one of these behind pod/")


def expand(text: str, container: Subject, pod: Subject | None) -> tuple[str, bool]:
    """A text with the values of `${key}` and `$key` in it, and whether all keys have one. Raises ValueError."""
    parts: list[str] = []
    whole = True
    for literal, key in _parts(text):
        parts.append(literal)
        if key is not None:
            value = value_of(key, container, pod)
            whole = whole and value is not None
            parts.append(value or "")
    return "".join(parts), whole


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Each literal of a text with the key that follows it; a key without braces ends at the next `$`."""
    rest = text
    while rest:
        literal, dollar, rest = rest.partition("$")
        if not dollar:
            yield literal, None
        elif rest.startswith("$"):
            yield literal + "$", None
            rest = rest[1:]
        elif rest.startswith("{"):
            key, brace, rest = rest[1:].partition("}")
            if not brace or not key or "{" in key or "$" in key:
                raise ValueError(f"{text!r}: a reference is written ${{key}}")
            yield literal, key
        else:
            key, dollar, rest = rest.partition("$")
            if not key or "{" in key or "}" in key:
                raise ValueError(f"{text!r}: a reference is written ${{key}}")
            yield literal, key
            rest = dollar + rest
