"""What is wrong in a pattern is quoted; patterns are bounded. What is right is compared with Go in test_pattern."""

from __future__ import annotations

import pytest

from nri.plugins.hook_injector.regex.syntax import AnyOf, Repeat, Sequence, parse


def test_a_tree_has_the_pattern_s_shape() -> None:
    tree = parse("ab|c+")
    assert isinstance(tree, AnyOf)
    first, second = tree.nodes
    assert isinstance(first, Sequence) and len(first.nodes) == 2
    assert isinstance(second, Sequence)
    assert isinstance(second.nodes[0], Repeat) and second.nodes[0][1:] == (1, -1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a**", r"\*\* repeats a repetition"),
        ("x|*", r"nothing before \* to repeat"),
        ("a{2,1}", r"\{2,1\}: a repeat count is at most 1000, the smaller first"),
        ("a{1001}", "a repeat count is at most 1000"),
        ("(a", r"a closing \) is missing"),
        ("a)", r"a \) closes nothing"),
        ("[a", r"\[a: a closing \] is missing"),
        ("[z-a]", "z-a: a range begins with the lower character"),
        ("(?=a)", r"\(\?=a begins no group"),
        (r"\1", r"is no escape in this syntax \(RE2\)"),
        ("a\\", "a backslash stands at the end"),
        ("a" * 10_001, "more than 10000 characters"),
        ("(" * 101 + ")" * 101, "nested deeper than 100"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)
