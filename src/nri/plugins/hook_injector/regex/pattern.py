"""A regular expression of a hooks.d file, looked for in a text in time that grows with the text and not beyond.

One job: whether a pattern is found anywhere in a text. Python's `re` tries one way after the other, so that a pattern
such as `(a+)+$` takes hours for 40 characters, and nothing can interrupt it. Here all ways are followed at once: a
state is the set of instructions at which they stand, and where each character leads from a state is kept, as a
deterministic automaton that is built while it is used. Rules: what is kept is bounded, and so is the work of all
searches for one container together. Next: `nri.plugins.hook_injector.when` asks these.
"""

from __future__ import annotations

from nri.plugins.hook_injector.regex.program import compile_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MOST_STEPS", "Budget", "Pattern", "TooCostly"]

#: Steps along the ways of programs that all searches of one budget may take where nothing kept leads on: half a second.
MOST_STEPS = 1_000_000
#: What a move costs besides the steps on it: sets are made and kept for it.
_MOVE = 3
#: Instructions in states, and characters that lead on from them, that one pattern keeps; then it forgets all of them.
MOST_KEPT = 100_000

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
    """Searches have taken more steps than they may."""


class Budget:
    """The steps that are left to some searches together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        """Take so many steps. Raises TooCostly."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly(f"more than {MOST_STEPS} steps")


class _State:
    """The state of all ways through the program between two characters, and what character was the last."""

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

    __slots__ = ("_kept", "_program", "_start", "_states", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._program, self._start = compile_pattern(text)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._kept = 0

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def found_in(self, text: str, budget: Budget) -> bool:
        """Whether any part of the text is what the pattern says.

        Raises:
            TooCostly: the budget is used up.
        """
        state = self._state(frozenset((self._start,)), _EDGE)
        for character in text:
            following = state.moves[character] if character in state.moves else self._move(state, character, budget)
            if following is None:
                return True
            state = following
        _, found = self._reached(state, _EDGE, budget)
        return found

    def _move(self, state: _State, character: str, budget: Budget) -> _State | None:
        """The next state, for a character that is new at this one; None if the pattern is found already."""
        kind = _kind(character)
        budget.spend(_MOVE)
        reached, found = self._reached(state, kind, budget)
        following = None
        if not found:
            standing = {self._start}
            for number in reached:
                instruction = self._program[number]
                if instruction.characters is None:
                    continue
                budget.spend(max(0, len(instruction.characters.items) - 1))  # one is in the steps of `_reached`
                if instruction.characters.matches(character):
                    standing.update(instruction.targets)
            following = self._state(frozenset(standing), kind)
        self._kept += 1
        state.moves[character] = following
        return following

    def _reached(self, state: _State, after: str, budget: Budget) -> tuple[Iterable[int], bool]:
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
        budget.spend(len(reached))
        return reached, False

    def _state(self, instructions: frozenset[int], before: str) -> _State:
        """The one state of its kind, so that what is kept in it is found again."""
        if self._kept > MOST_KEPT:
            self._states = {}
            self._kept = 0
        state = self._states.get((instructions, before))
        if state is None:
            state = self._states[instructions, before] = _State(instructions, before)
            self._kept += len(instructions)
        return state


def _kind(character: str) -> str:
    """The kind of a character for assertions; words are of ASCII, as in Go."""
    if character == "\n":
        return _NEWLINE
    return _WORD if character == "_" or (character.isascii() and character.isalnum()) else _OTHER
