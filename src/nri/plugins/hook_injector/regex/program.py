"""A pattern's tree as a program: a list of instructions, each of which knows where it goes on.

Rules: a program is bounded, for `{n,m}` is written out. Next: `pattern` runs it.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.plugins.hook_injector.regex.characters import CharacterSet
from nri.plugins.hook_injector.regex.syntax import AnyOf, Assertion, Node, Repeat, parse

__all__ = ["MOST_INSTRUCTIONS", "Instruction", "compile_pattern"]

#: Nodes that are written at most.
MOST_INSTRUCTIONS = 10_000


class Instruction(NamedTuple):
    """One step: take a character of `characters`, or hold `assertion`, or neither, and go on at any of `targets`.

    Without targets the pattern is found.
    """

    characters: CharacterSet | None
    assertion: str
    targets: tuple[int, ...]


def compile_pattern(text: str) -> tuple[list[Instruction], int]:
    """Return the program of a pattern, and where in it to begin. ValueError as `parse`, and if it is too long."""
    writer = _Writer()
    start = writer.write(parse(text), 0)
    return writer.program, start


class _Writer:
    """Writes a tree from the end, so that each node knows where it goes on."""

    def __init__(self) -> None:
        self.program: list[Instruction] = [Instruction(None, "", ())]
        self._nodes = 0

    def _add(self, characters: CharacterSet | None, assertion: str, targets: tuple[int, ...]) -> int:
        self.program.append(Instruction(characters, assertion, targets))
        return len(self.program) - 1

    def write(self, node: Node, following: int) -> int:
        """Write a node that goes on at `following`; returns where it begins."""
        self._nodes += 1
        if self._nodes > MOST_INSTRUCTIONS:
            raise ValueError(f"needs more than {MOST_INSTRUCTIONS} instructions; repeat less")
        if isinstance(node, CharacterSet):
            return self._add(node, "", (following,))
        if isinstance(node, Assertion):
            return self._add(None, node.name, (following,))
        if isinstance(node, Repeat):
            return self._write_repeat(node, following)
        if isinstance(node, AnyOf):
            return self._add(None, "", tuple([self.write(each, following) for each in node.nodes]))
        for each in reversed(node.nodes):
            following = self.write(each, following)
        return following

    def _write_repeat(self, repeat: Repeat, following: int) -> int:
        node, least, most = repeat
        entry = following
        if most < 0:
            loop = self._add(None, "", ())
            entry = self.write(node, loop)
            self.program[loop] = Instruction(None, "", (entry, following))
            if least == 0:
                return loop
            least -= 1
        else:
            for _ in range(most - least):
                entry = self._add(None, "", (self.write(node, entry), following))
        for _ in range(least):
            entry = self.write(node, entry)
        return entry
