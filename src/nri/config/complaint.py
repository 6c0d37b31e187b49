"""Complaints about a value, in the words of the person who wrote it, with a suggestion of what to write instead.

Next module: `nri.config.typed`, which finds the problems.
"""

from __future__ import annotations

import difflib
import json
import re
import typing

from nri.config.place import Path
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

#: Problems of one text that are told; no person reads more, and each costs a search for what was meant.
MOST_PROBLEMS = 100

#: msgspec's names of types, as a person would say them.
_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "a table of keys", "null": "nothing", "bytes": "base64 text", "datetime": "a date and time",
    "date": "a date",
}  # fmt: skip


class Problem(typing.NamedTuple):
    """Something wrong at `path`; `suggestion` says what to do about it, or is empty."""

    path: Path
    reason: str
    suggestion: str = ""


class WrongValue(ValueError):
    """The value of one key cannot be used: raised where a table checks itself, so that the key's own place is told.

    Attributes:
        key: the name of the field.
        reason: what is wrong, with the value.
        suggestion: what to do about it.
    """

    def __init__(self, key: str, reason: str, suggestion: str) -> None:
        super().__init__(f"{key} {reason}; {suggestion}")
        self.key, self.reason, self.suggestion = key, reason, suggestion


def together(errors: Sequence[ConfigError]) -> ConfigError:
    """The first of several errors, to be raised, with all further ones in `others`."""
    first, *others = errors
    return ConfigError(first.source, first.key, first.reason, first.suggestion, others)


def apart(error: ConfigError) -> list[ConfigError]:
    """An error and all others that it carries, each by itself."""
    return [ConfigError(error.source, error.key, error.reason, error.suggestion), *error.others]


def suggest(key: str, known: Iterable[str]) -> str:
    """Suggest a key for one that does not exist: the nearest that does, else all of them."""
    names = {re.sub(r"[-_]", "", name).lower(): name for name in known}
    near = difflib.get_close_matches(re.sub(r"[-_]", "", key).lower(), names, 1, 0.7)
    if near:
        return f'did you mean "{names[near[0]]}"?'
    return f"known keys: {', '.join(sorted(names.values()))}" if names else "no key is known here"


def translate(message: str, value: object, path: Path) -> Problem:
    """The one-line complaint of msgspec as a Problem: its inner path joined to ours, types in words."""
    message, _, inner = message.partition(" - at `$")
    for part in re.findall(r"\[(\d+)\]|\.([^.\[`]+)", inner):
        path = (*path, int(part[0]) if part[0] else part[1])
        value = _descend(value, path[-1])
    mismatch = re.fullmatch(r"Expected `(.+)`, got `(\w+)`", message)
    if not mismatch:
        return Problem(
            path,
            message[:1].lower()
            + message[1:].replace("`", "")
            + f", not {shorten(value)}" * message.startswith("Expected"),
        )
    wanted = mismatch[1].split(" | ")
    reason = f"expected {' or '.join(_WORDS.get(one, one) for one in wanted)}, not {shorten(value)}"
    return Problem(path, reason, _remedy(wanted[0], value))


def _remedy(wanted: str, value: object) -> str:
    """The usual cause of a wrong type, said as what to write."""
    if wanted == "str" and isinstance(value, (int, float)):
        return f'write it in quotes: "{written(value)}"'
    if wanted in ("int", "float") and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return f"write it without quotes: {value}"
    if wanted == "bool":
        return "write true or false"
    return ""


def _descend(value: Any, part: str | int) -> Any:
    try:
        return value[part]
    except (LookupError, TypeError):
        return value


def written(value: object) -> str:
    """A scalar as configuration files write it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def shorten(value: object) -> str:
    """A value for an error: as JSON, cut short."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
