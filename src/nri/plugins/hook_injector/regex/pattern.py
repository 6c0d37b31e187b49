"""A regular expression of a hooks.d file, looked for in a text in time that grows with the text and not beyond.

One job: whether a pattern is found anywhere in a text. Python's `re` tries one way after the other, so that a pattern
such as `(a+)+$` takes hours for 40 characters, and nothing can interrupt it. Here all ways are followed at once: a
state is the set of instructions at which they stand, and where each character leads from a state is kept, as a
deterministic automaton that is built while it is used. Rules: the kept states are bounded, and so is the work of one
search that is not kept. Next: `nri.plugins.hook_injector.when` asks these.
"""

from __future__ import annotations

from nri.plugins.hook_injector.regex.program import compile_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MOST_WORK", "Pattern", "TooCostly"]

#: Steps along the ways of a program that one search may take where no kept state leads on: about a second.
MOST_WORK = 1_000_000
#: States, and characters that lead on from them, that one pattern keeps; then it forgets all of them.
MOST_STATES, MOST_MOVES = 1_000, 20_000

# What stands beside a place in the text.
_EDGE, _NEWLINE, _WORD, _OTHER = "edge", "newline", "word", "other"

_ASSERTIONS: dict[str, Callable[[str, str], bool]] = {
    "begin": lambda before, after: before == _EDGE,  # noqa: ARG005
    "end": lambda before, after: after == _EDGE,  # noqa: ARG005
    "begin line": lambda before, after: before in (_EDGE, _NEWLINE),  # noqa: ARG005
    "end line": lambda before, after: after in (_EDGE, _NEWLINE),  # noqa: ARG005
    "boundary": lambda before, after: (before == _WORD) != (after == _WORD),
    "no boundary": lambda before, after: (before == _WORD) == (after == _WORD),
}


class TooCostly(Exception):
    """A search has taken more steps than it may."""


class _State:
    """Where all ways through the program stand between two characters, and what character was the last."""

    __slots__ = ("before", "instructions", "moves")

    def __init__(self, instructions: frozenset[int], before: str) -> None:
        self.instructions = instructions
        self.before = before
        #: Where a character leads; None: the pattern was found before it.
        self.moves: dict[str, _State | None] = {}


class Pattern:
    """A compiled regular expression.

    Attributes:
        text: the expression, in Go's syntax.

    Raises:
        ValueError: the text is no such expression, or too large; says where.
    """

    __slots__ = ("_kept", "_left", "_program", "_start", "_states", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._program, self._start = compile_pattern(text)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._kept = self._left = 0

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def found_in(self, text: str) -> bool:
        """Whether any part of the text is what the pattern says.

        Raises:
            TooCostly: it would take longer than a second or so to tell.
        """
        self._left = MOST_WORK
        state = self._state(frozenset((self._start,)), _EDGE)
        for character in text:
            following = state.moves[character] if character in state.moves else self._move(state, character)
            if following is None:
                return True
            state = following
        _, found = self._reached(state, _EDGE)
        return found

    def _move(self, state: _State, character: str) -> _State | None:
        """Where a character leads that has not come at this state before; None if the pattern is found already."""
        kind = _kind(character)
        reached, found = self._reached(state, kind)
        following = None
        if not found:
            standing = {self._start}
            for number in reached:
                instruction = self._program[number]
                if instruction.characters is not None and instruction.characters.matches(character):
                    standing.update(instruction.targets)
            following = self._state(frozenset(standing), kind)
        self._kept += 1
        state.moves[character] = following
        return following

    def _reached(self, state: _State, after: str) -> tuple[Iterable[int], bool]:
        """All instructions that are reached without a character, and whether the pattern's end is among them."""
        reached: set[int] = set()
        waiting = list(state.instructions)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            characters, assertion, targets = self._program[number]
            if characters is None and (not assertion or _ASSERTIONS[assertion](state.before, after)):
                if not targets:
                    return reached, True
                waiting += targets
        self._left -= len(reached)
        if self._left < 0:
            raise TooCostly(f"takes more than {MOST_WORK} steps")
        return reached, False

    def _state(self, instructions: frozenset[int], before: str) -> _State:
        """The one state of its kind, so that what is kept in it is found again."""
        if len(self._states) > MOST_STATES or self._kept > MOST_MOVES:
            self._states = {}
            self._kept = 0
        state = self._states.get((instructions, before))
        if state is None:
            state = self._states[instructions, before] = _State(instructions, before)
        return state


def _kind(character: str) -> str:
    """What a character is to assertions; words are of ASCII, as in Go."""
    if character == "\n":
        return _NEWLINE
    return _WORD if character == "_" or (character.isascii() and character.isalnum()) else _OTHER
