r"""Regular expressions as hooks.d files have them, in Go's syntax (RE2), to a tree.

One job: text in, tree out, or a ValueError that quotes the part which is wrong. Python's own `re` reads many of these
patterns otherwise (`$` before a last newline, `\d` beyond ASCII, flags in the middle, `\pL`), and takes what Go
refuses (back references, lookaround). Groups only group, and greed is of no interest: the one question is whether a
pattern is found. Rules: length and nesting of a pattern are bounded. Next: `program` writes the tree as instructions.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.plugins.hook_injector.regex.characters import (
    CharacterSet,
    Item,
    escaped_class,
    named_class,
    one,
    unicode_class,
)
from nri.text import plain

__all__ = ["MOST_CHARACTERS", "MOST_REPEATS", "AnyOf", "Assertion", "Node", "Repeat", "Sequence", "parse"]

#: Characters of a pattern at most.
MOST_CHARACTERS = 10_000
#: Groups inside of groups at most.
DEEPEST = 100
#: The highest number in `{n,m}`, as in Go.
MOST_REPEATS = 1000


class Assertion(NamedTuple):
    """A condition on a place: "begin", "end", "begin line", "end line", "boundary" or "no boundary"."""

    name: str


class Sequence(NamedTuple):
    """One after the other."""

    nodes: list[Node]


class AnyOf(NamedTuple):
    """One of several."""

    nodes: list[Node]


class Repeat(NamedTuple):
    """So many times; `most` -1 is without an end."""

    node: Node
    least: int
    most: int


Node = CharacterSet | Assertion | Sequence | AnyOf | Repeat

_ASSERTIONS = {"A": "begin", "b": "boundary", "B": "no boundary", "z": "end"}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_COUNTS = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_COUNT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_NAMED = re.compile(r"\(\?P?<([0-9A-Za-z_]+)>")
_OCTAL = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_HEXADECIMAL = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")


def parse(text: str) -> Node:
    """Read a pattern. ValueError for what Go refuses, and for what is too large."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has more than {MOST_CHARACTERS} characters")
    return _Parser(text).parse()


class _Level:
    """An open group: the alternatives that are done, the present one, and the flags to go back to."""

    __slots__ = ("done", "flags", "items")

    def __init__(self, flags: str) -> None:
        self.flags = flags
        self.done: list[Node] = []
        self.items: list[Node] = []

    def node(self) -> Node:
        """All alternatives as one node."""
        last = Sequence(self.items)
        return AnyOf([*self.done, last]) if self.done else last


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = ""
        self._levels = [_Level("")]
        #: Where the repetition begins that has just been read; -1 after anything else: `a**` is no pattern in Go.
        self._repeated_from = -1

    def parse(self) -> Node:
        while self._at < len(self._text):
            repeated_from, self._repeated_from = self._repeated_from, -1
            self._step(self._text[self._at], repeated_from)
        if len(self._levels) > 1:
            raise ValueError("a closing ) is missing")
        return self._levels[0].node()

    def _step(self, character: str, repeated_from: int) -> None:
        """Read one thing that begins with this character."""
        if character in "*+?":
            self._repeat(*_COUNTS[character], 1, repeated_from)
        elif character == "{" and (count := _COUNT.match(self._text, self._at)):
            least = int(count[1][:5])
            most = least if count[2] is None else -1 if count[3] is None else int(count[3][:5])
            if least > MOST_REPEATS or most > MOST_REPEATS or -1 < most < least:
                raise ValueError(f"{plain(count[0], 60)}: a repeat count is at most {MOST_REPEATS}, the smaller first")
            self._repeat(least, most, len(count[0]), repeated_from)
        elif character == "(":
            self._open()
        elif character in "|)":
            self._at += 1
            self._end(character)
        elif character == "[":
            self._add(self._bracket())
        elif character == "\\":
            self._escape()
        else:
            self._at += 1
            self._add(self._single(character))

    def _single(self, character: str) -> Node:
        """The node of a character that begins nothing longer."""
        if character == "^":
            return Assertion("begin line" if "m" in self._flags else "begin")
        if character == "$":
            return Assertion("end line" if "m" in self._flags else "end")
        if character == ".":
            return CharacterSet(() if "s" in self._flags else (one("\n"),), negated=True)
        return self._literal(character)

    def _literal(self, character: str) -> Node:
        return CharacterSet((one(character),), fold="i" in self._flags)

    def _add(self, node: Node) -> None:
        self._levels[-1].items.append(node)

    def _repeat(self, least: int, most: int, length: int, repeated_from: int) -> None:
        items = self._levels[-1].items
        begin, self._at = self._at, self._at + length
        if self._text.startswith("?", self._at):  # less greed finds the same
            self._at += 1
        if repeated_from >= 0:
            raise ValueError(f"{self._text[repeated_from : self._at]} repeats a repetition")
        if not items:
            raise ValueError(f"there is nothing before {self._text[begin : self._at]} to repeat")
        items[-1] = Repeat(items[-1], least, most)
        self._repeated_from = begin

    # -- groups -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        text, begin = self._text, self._at
        flags, named = _FLAGS.match(text, begin), _NAMED.match(text, begin)
        after = self._flags
        if flags:
            self._at = flags.end()
            after = "".join(sorted((set(after) | set(flags[1])) - set(flags[2] or "")))
            if flags[3] == ")":
                self._flags = after
                return
        elif named:
            self._at = named.end()
        elif text.startswith("(?", begin):
            raise ValueError(f"{plain(text[begin : begin + 4], 10)} begins no group that there is in this syntax (RE2)")
        else:
            self._at += 1
        if len(self._levels) > DEEPEST:
            raise ValueError(f"groups are nested deeper than {DEEPEST}")
        self._levels.append(_Level(self._flags))
        self._flags = after

    def _end(self, character: str) -> None:
        level = self._levels[-1]
        if character == "|":
            level.done.append(Sequence(level.items))
            level.items = []
            return
        if len(self._levels) == 1:
            raise ValueError("a ) closes nothing")
        self._levels.pop()
        self._flags = level.flags
        self._add(level.node())

    # -- escapes and classes ------------------------------------------------------------------------------------------

    def _escape(self) -> None:
        after = self._text[self._at + 1 : self._at + 2]
        if after in _ASSERTIONS:
            self._at += 2
            self._add(Assertion(_ASSERTIONS[after]))
        elif after == "Q":
            quoted, _, _ = self._text[self._at + 2 :].partition("\\E")
            self._at += 2 + len(quoted) + 2
            for character in quoted:
                self._add(self._literal(character))
        elif item := self._class_escape():
            self._add(CharacterSet((item,), fold="i" in self._flags))
        else:
            self._add(self._literal(self._character_escape()))

    def _class_escape(self) -> Item | None:
        """A backslash and a letter that stand for several characters, or None if they do not."""
        found = escaped_class(self._text, self._at) or unicode_class(self._text, self._at)
        if found is None:
            return None
        self._at = found[1]
        return found[0]

    def _character_escape(self) -> str:
        """The one character that an escape stands for."""
        begin = self._at
        after = self._text[begin + 1 : begin + 2]
        if not after:
            raise ValueError("a backslash stands at the end")
        if octal := _OCTAL.match(self._text, begin + 1):
            self._at = octal.end()
            return chr(int(octal[0], 8))
        if hexadecimal := _HEXADECIMAL.match(self._text, begin + 1):
            number = int(hexadecimal[1] or hexadecimal[2], 16)
            if number <= 0x10FFFF:
                self._at = hexadecimal.end()
                return chr(number)
        elif after in _CONTROL or (after.isascii() and not after.isalnum()):
            self._at += 2
            return _CONTROL.get(after, after)
        raise ValueError(f"{plain(self._text[begin : begin + 2], 10)} is no escape in this syntax (RE2)")

    def _bracket(self) -> CharacterSet:
        """The characters between [ and ]."""
        text, begin = self._text, self._at
        self._at += 1
        negated = text.startswith("^", self._at)
        self._at += negated
        items: list[Item] = []
        first = self._at
        while not text.startswith("]", self._at) or self._at == first:
            if self._at >= len(text):
                raise ValueError(f"{plain(text[begin:], 60)}: a closing ] is missing")
            if found := named_class(text, self._at):
                item, self._at = found
            else:
                item = self._class_escape() or self._range()
            items.append(item)
        self._at += 1
        return CharacterSet(tuple(items), negated=negated, fold="i" in self._flags)

    def _range(self) -> Item:
        begin = self._at
        low = high = self._one()
        if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
            self._at += 1
            high = self._one()
        if high < low:
            raise ValueError(f"{plain(self._text[begin : self._at], 20)}: a range begins with the lower character")
        return Item(((low, high),))

    def _one(self) -> str:
        if self._text.startswith("\\", self._at):
            return self._character_escape()
        self._at += 1
        return self._text[self._at - 1]
