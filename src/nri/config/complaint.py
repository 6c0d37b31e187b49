"""Problems of a value, described in the author's spelling, with a suggestion."""

from __future__ import annotations

import json
import typing

from nri.config.key_path import Path, path_text
from nri.errors import ConfigError
from nri.text import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Maximum number of problems that are reported for a source: more would not be read, and each suggestion costs a
#: search.
MAX_PROBLEMS = 100


class Problem(typing.NamedTuple):
    """A mistake at `path`. `suggestion` is the fix, or ""."""

    path: Path
    reason: str
    suggestion: str = ""


class WrongValue(ValueError):
    """The value of a key cannot be used. A configuration class raises it when it checks itself.

    Attributes:
        path: the path of the key below the class.
        key: the same path as a string.
        reason: what is wrong, with the value.
        suggestion: the fix.
    """

    def __init__(self, key: str | Path, reason: str, suggestion: str) -> None:
        self.path: Path = (key,) if isinstance(key, str) else key
        self.key, self.reason, self.suggestion = path_text(self.path), reason, suggestion
        super().__init__(f"{self.key} {reason}; {suggestion}")


def combined_error(errors: Sequence[ConfigError]) -> ConfigError:
    """The first of several errors, to be raised, with all further errors and their `others` in `others`."""
    first, *more = [single for error in errors for single in single_errors(error)]
    return ConfigError(first.source, first.key, first.reason, first.suggestion, more)


def single_errors(error: ConfigError) -> list[ConfigError]:
    """An error and the errors in its `others`, each without `others`."""
    return [ConfigError(error.source, error.key, error.reason, error.suggestion), *error.others]


def suggest(key: str, known_keys: Iterable[str]) -> str:
    """Suggest a key for an unknown key: the most similar known key, else all known keys."""
    names = sorted(known_keys)
    if suggestion := nearest(key, names):
        return f'did you mean "{suggestion}"?'
    return f"known keys: {', '.join(names)}" if names else "there are no keys"


def scalar_text(value: object) -> str:
    """A scalar in the syntax of configuration files."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def shorten(value: object) -> str:
    """A value for an error message: JSON, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
