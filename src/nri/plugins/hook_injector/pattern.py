"""A regular expression of a hooks.d file, by google-re2, whose searches take time that grows with the text alone.

One job: whether a pattern is found anywhere in a text. Python's `re` tries one way after the other, so that a pattern
such as `(a+)+$` takes hours for 40 characters, and nothing can interrupt it. RE2 has Go's syntax and follows all ways
at once; what is left to bound is the product of a pattern's size and a text's length, for one container's searches
together. The library is an extra, and loaded when the plugin is configured. Next: `nri.plugins.hook_injector.conditions`
asks these.
"""

from __future__ import annotations

import re

from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_STEPS", "Budget", "Pattern", "TooCostly", "load"]

#: Bytes of texts times instructions of patterns that all searches of one budget may take: two seconds at the very
#: worst, and usually a thousandth of that.
MAX_STEPS = 1 << 29
#: Characters of a pattern. RE2 itself bounds the size of the program that it makes of them.
MAX_CHARACTERS = 10_000
#: A quoted part, a character after a backslash, or `\C`: RE2 takes that for any byte, and Go refuses it.
_ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(C)|\\.", re.DOTALL)


class TooCostly(Exception):
    """Searches may take more steps than they may."""


class Budget:
    """The steps that are left to some searches together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take so many steps. Raises TooCostly."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly(f"more than {MAX_STEPS} steps")


class Pattern:
    """A compiled regular expression.

    Attributes:
        text: the expression, in RE2's syntax.

    Raises:
        ValueError: the text is no such expression, or too large; says why.
        ConfigError: google-re2 cannot be loaded.
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
            self._compiled = re2.compile(_encoded(text), options)
        except re2.error as error:
            raise ValueError(error.args[0].decode(errors="replace")) from None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def found_in(self, text: str, budget: Budget) -> bool:
        """Whether any part of the text is what the pattern says.

        Raises:
            TooCostly: the budget is used up.
        """
        encoded = _encoded(text)
        budget.spend(len(encoded) * self._compiled.programsize)
        return self._compiled.search(encoded) is not None


def load() -> Any:
    """Return the library. Raises ConfigError if it cannot be loaded."""
    try:
        import re2  # noqa: PLC0415 - an extra
    except ImportError as error:
        reason = f"patterns of hooks need google-re2, which cannot be loaded: {error}"
        raise ConfigError("hook-injector", "", reason, "pip install '.[hook-injector]', in a checkout of nri") from None
    return re2


def _encoded(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which JSON can hold, is bytes that match themselves."""
    return text.encode(errors="surrogatepass")
