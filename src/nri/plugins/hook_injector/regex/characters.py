r"""Sets of characters as Go's regular expressions name them: ranges, `\d`, `[:alpha:]`, `\p{Lu}`, in any case or not.

One job: whether a character is in a set. Classes are ASCII's, as in Go, but for `\p`, which has Unicode's general
categories; scripts (`\p{Greek}`) are refused, for Python has no table of them. Next: `syntax` finds them in a pattern.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import NamedTuple

from nri.text import plain

__all__ = ["CharacterSet", "Item", "escaped_class", "named_class", "one", "unicode_class"]

Ranges = tuple[tuple[str, str], ...]

_DIGIT: Ranges = (("0", "9"),)
_UPPER: Ranges = (("A", "Z"),)
_LOWER: Ranges = (("a", "z"),)
_WORD: Ranges = (*_DIGIT, *_UPPER, *_LOWER, ("_", "_"))

_ESCAPED: dict[str, Ranges] = {"d": _DIGIT, "s": (("\t", "\n"), ("\f", "\r"), (" ", " ")), "w": _WORD}
_NAMED: dict[str, Ranges] = {
    "alnum": (*_DIGIT, *_UPPER, *_LOWER),
    "alpha": (*_UPPER, *_LOWER),
    "ascii": (("\0", "\x7f"),),
    "blank": (("\t", "\t"), (" ", " ")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": _DIGIT,
    "graph": (("!", "~"),),
    "lower": _LOWER,
    "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": (("\t", "\r"), (" ", " ")),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGIT, ("A", "F"), ("a", "f")),
}
#: Unicode's general categories, a group and its members each.
_GROUPS = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES = {*_GROUPS, *(group + member for group, members in _GROUPS.items() for member in members)}
_NAMED_CLASS = re.compile(r"\[:(\^?)([^:\]]*):\]")
_UNICODE_CLASS = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|(.))", re.DOTALL)

#: The two letters of ASCII that have a third form elsewhere: K of Kelvin, and the long s.
_FURTHER = {"k": "\u212a", "K": "\u212a", "s": "\u017f", "S": "\u017f"}
#: Letters that have a capital or small form in Turkish only.
_ALONE = "\u0130\u0131"


class Item(NamedTuple):
    """One part of a set: ranges of characters, or a category of Unicode."""

    ranges: Ranges
    negated: bool = False
    category: str = ""

    def holds(self, character: str) -> bool:
        """Whether this very character is meant, `negated` aside."""
        if self.category:
            return unicodedata.category(character).startswith(self.category)
        return any(low <= character <= high for low, high in self.ranges)


def one(character: str) -> Item:
    """The part that is a single character."""
    return Item(((character, character),))


class CharacterSet(NamedTuple):
    """A set of characters: any of `items`, or with `negated` none of them; `fold`: whatever their case."""

    items: tuple[Item, ...]
    negated: bool = False
    fold: bool = False

    def matches(self, character: str) -> bool:
        """Whether the set has a character."""
        forms = forms_of(character) if self.fold else character
        found = any(any(item.holds(form) for form in forms) != item.negated for item in self.items)
        return found != self.negated


@functools.lru_cache(maxsize=4096)
def forms_of(character: str) -> str:
    """The character in all its cases, as Unicode's simple folding has them."""
    if character.isascii():
        return character + character.swapcase() + _FURTHER.get(character, "") if character.isalpha() else character
    return _all_forms().get(_folded(character), character)


@functools.cache
def _all_forms() -> dict[str, str]:
    """All forms of each letter that has more than one, by the folded one; 30 ms, for patterns beyond ASCII only."""
    forms: dict[str, str] = {}
    for number in range(0x41, 0x1E944):
        character = chr(number)
        if character.lower() != character or character.upper() != character:
            folded = _folded(character)
            forms[folded] = forms.get(folded, "") + character
    return forms


def _folded(character: str) -> str:
    """The one form that stands for all."""
    if character in _ALONE:
        return character
    upper = character.upper()
    small = (upper if len(upper) == 1 else character).lower()
    return small if len(small) == 1 else character


def escaped_class(text: str, at: int) -> tuple[Item, int] | None:
    r"""The class of `\d`, `\s`, `\w` or their opposites, and where it ends; None if none stands here."""
    letter = text[at + 1 : at + 2]
    if text[at] != "\\" or letter.lower() not in _ESCAPED:
        return None
    return Item(_ESCAPED[letter.lower()], letter.isupper()), at + 2


def named_class(text: str, at: int) -> tuple[Item, int] | None:
    """The class of `[:alpha:]` or `[:^alpha:]`, and where it ends; None if none stands here.

    Raises:
        ValueError: there is no such class.
    """
    found = _NAMED_CLASS.match(text, at)
    if found is None:
        return None
    if found[2] not in _NAMED:
        raise ValueError(f"there is no class {plain(found[0], 60)}; there are {', '.join(_NAMED)}")
    return Item(_NAMED[found[2]], bool(found[1])), found.end()


def unicode_class(text: str, at: int) -> tuple[Item, int] | None:
    r"""The category of `\pL`, `\p{Lu}`, `\P{Lu}` or `\p{^Lu}`, and where it ends; None if none stands here.

    Raises:
        ValueError: there is no such category.
    """
    if text[at : at + 2] not in ("\\p", "\\P"):
        return None
    found = _UNICODE_CLASS.match(text, at)
    name = (found[3] or found[4] or "") if found else ""
    if found is None or (name not in _CATEGORIES and name != "Any"):
        part = found[0] if found else text[at : at + 3]
        raise ValueError(f"{plain(part, 60)}: only general categories of Unicode are known here, such as L, Lu or Nd")
    negated = (found[1] == "P") != bool(found[2])
    if name == "Any":
        return Item((("\0", "\U0010ffff"),), negated), found.end()
    return Item((), negated, name), found.end()
