"""Problems of a value, described as its author wrote it, with a suggestion of what to write instead."""

from __future__ import annotations

import difflib
import json
import re
import typing

from nri.config.place import Path, show
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Problems of one text that are reported; no person reads more, and each costs a search for what was meant.
MAX_PROBLEMS = 100


class Problem(typing.NamedTuple):
    """A mistake at `path`; `suggestion` is what to do about it, or empty."""

    path: Path
    reason: str
    suggestion: str = ""


class WrongValue(ValueError):
    """The value of one key cannot be used: raised where a table checks itself, so that the key's own place is reported.

    Attributes:
        path: the name of the field, or the path to one that is deeper; `key` the same as text.
        reason: what is wrong, with the value.
        suggestion: what to do about it.
    """

    def __init__(self, key: str | Path, reason: str, suggestion: str) -> None:
        self.path: Path = (key,) if isinstance(key, str) else key
        self.key, self.reason, self.suggestion = show(self.path), reason, suggestion
        super().__init__(f"{self.key} {reason}; {suggestion}")


def together(errors: Sequence[ConfigError]) -> ConfigError:
    """The first of several errors, to be raised, with all further ones, and those that they carry, in `others`."""
    first, *more = [single for error in errors for single in apart(error)]
    return ConfigError(first.source, first.key, first.reason, first.suggestion, more)


def apart(error: ConfigError) -> list[ConfigError]:
    """An error and all others that it carries, each by itself."""
    return [ConfigError(error.source, error.key, error.reason, error.suggestion), *error.others]


def suggest(key: str, known_keys: Iterable[str]) -> str:
    """Suggest a key for one that does not exist: the nearest that does, else all of them."""
    names = {re.sub(r"[-_]", "", name).lower(): name for name in known_keys}
    matches = difflib.get_close_matches(re.sub(r"[-_]", "", key).lower(), names, 1, 0.7)
    if matches:
        return f'did you mean "{names[matches[0]]}"?'
    return f"known keys: {', '.join(sorted(names.values()))}" if names else "no key is known here"


def written(value: object) -> str:
    """A scalar as configuration files write it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def shorten(value: object) -> str:
    """A value for an error: as JSON, cut short."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
