"""Complaints in the words of the person who wrote the value, and the suggestion of what to write instead."""

from __future__ import annotations

import pytest

from nri.config.complaint import Problem, shorten, suggest, translate, written


@pytest.mark.parametrize(
    ("key", "known", "words"),
    [
        ("cpu", ["cpus", "mems"], 'did you mean "cpus"?'),
        ("by-name", ["by_name"], 'did you mean "by_name"?'),
        ("ByName", ["by_name"], 'did you mean "by_name"?'),
        ("colour", ["share", "cpus"], "known keys: cpus, share"),
        ("x", [], "no key is known here"),
    ],
)
def test_the_nearest_key_is_suggested_else_all(key: str, known: list[str], words: str) -> None:
    assert suggest(key, known) == words


@pytest.mark.parametrize(
    ("message", "value", "problem"),
    [
        (
            "Expected `str`, got `int`",
            3,
            Problem(("k",), "expected text, not 3", 'write it in quotes: "3"'),
        ),
        (
            "Expected `int`, got `str`",
            "3",
            Problem(("k",), 'expected a whole number, not "3"', "write it without quotes: 3"),
        ),
        (
            "Expected `int | array`, got `str` - at `$[1].a`",
            [0, {"a": "x"}],
            Problem(("k", 1, "a"), 'expected a whole number or a list, not "x"'),
        ),
        ("Expected `int` <= 3", 9, Problem(("k",), "expected int <= 3, not 9")),
        ("Invalid base64 encoded string", "?", Problem(("k",), "invalid base64 encoded string")),
    ],
)
def test_a_complaint_of_msgspec_is_put_into_words(message: str, value: object, problem: Problem) -> None:
    assert translate(message, value, ("k",)) == problem


def test_values_are_shown_as_configuration_files_write_them() -> None:
    assert (written("a"), written(True), written(None), written(1.5)) == ("a", "true", "null", "1.5")
    assert shorten("é") == '"é"'
    assert len(shorten("x" * 100)) == 60
