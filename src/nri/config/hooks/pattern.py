"""Regular expressions of hooks.d files: google-re2 has Go's syntax and no exponential searches.

Python's `re` backtracks: a pattern such as `(a+)+$` takes hours for 40 characters, and nothing can interrupt it.
"""

from __future__ import annotations

import re

from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Maximum number of steps of all searches of a budget: bytes of text times instructions of patterns. They take two
#: seconds at worst, and usually a thousandth of that.
MAX_STEPS = 1 << 29
#: Maximum length of a pattern. RE2 bounds the size of the compiled pattern.
MAX_CHARACTERS = 10_000
#: A quoted section, an escaped character, or `\C`, which is any byte in RE2 and an error in Go.
_ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(C)|\\.", re.DOTALL)


class TooCostly(Exception):
    """The searches for one container could take too many steps."""


class Budget:
    """The remaining steps of all searches for one container."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Subtract a number of steps. Raises TooCostly if too few remain."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly(f"more than {MAX_STEPS} steps")


class Pattern:
    """A compiled regular expression.

    Attributes:
        text: the expression, in RE2's syntax.

    Raises:
        ValueError: the expression is invalid, or too large.
        ConfigError: google-re2 cannot be imported.
    """

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        re2 = load()
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"has more than {MAX_CHARACTERS} characters")
        if any(match[1] for match in _ESCAPES.finditer(text)):
            raise ValueError(r"invalid escape sequence: \C")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        self.text = text
        try:
            self._compiled = re2.compile(_encoded_text(text), options)
        except re2.error as error:
            raise ValueError(error.args[0].decode(errors="replace")) from None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether any part of the text matches the pattern. Raises TooCostly if the budget is used up."""
        encoded = _encoded_text(text)
        budget.spend(len(encoded) * self._compiled.programsize)
        return self._compiled.search(encoded) is not None


def load() -> Any:
    """Import and return google-re2, an optional dependency. Raises ConfigError if it cannot be imported."""
    try:
        import re2
    except ImportError as error:
        reason = f"google-re2 is required for patterns of hooks and cannot be imported: {error}"
        raise ConfigError("hook-injector", "", reason, "pip install '.[hook-injector]', in a checkout of nri") from None
    return re2


def _encoded_text(text: str) -> bytes:
    """The text in UTF-8. A lone surrogate, which JSON can contain, becomes bytes that match themselves."""
    return text.encode(errors="surrogatepass")
