"""Programs of patterns: short, and bounded where a pattern is made to grow."""

from __future__ import annotations

import pytest

from nri.plugins.hook_injector.regex.program import MOST_INSTRUCTIONS, compile_pattern


def test_a_program_ends_where_the_pattern_is_found() -> None:
    program, start = compile_pattern("ab")
    assert program[0].targets == ()
    assert [len(instruction.targets) for instruction in program] == [0, 1, 1]
    assert program[start].characters is not None and program[start].characters.matches("a")


@pytest.mark.parametrize("text", ["((a{100}){100}){100}", "(((){1000}){1000}){1000}", "((a?){1000}){1000}"])
def test_repeats_of_repeats_are_bounded(text: str) -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_INSTRUCTIONS} instructions"):
        compile_pattern(text)
