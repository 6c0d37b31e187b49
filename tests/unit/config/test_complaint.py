"""Complaints in the words of the person who wrote the value, and the suggestion of what to write instead."""

from __future__ import annotations

import pytest

from nri.config.complaint import combined_error, scalar_text, shorten, single_errors, suggest
from nri.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "known_keys", "words"),
    [
        ("cpu", ["cpus", "mems"], 'did you mean "cpus"?'),
        ("by-name", ["by_name"], 'did you mean "by_name"?'),
        ("ByName", ["by_name"], 'did you mean "by_name"?'),
        ("colour", ["share", "cpus"], "known keys: cpus, share"),
        ("x", [], "there are no keys"),
    ],
)
def test_the_nearest_key_is_suggested_else_all(key: str, known_keys: list[str], words: str) -> None:
    assert suggest(key, known_keys) == words


def test_values_are_shown_as_configuration_files_write_them() -> None:
    assert (scalar_text("a"), scalar_text(True), scalar_text(None), scalar_text(1.5)) == ("a", "true", "null", "1.5")
    assert shorten("é") == '"é"'
    assert len(shorten("x" * 100)) == 60


def test_errors_told_together_keep_those_that_they_carry() -> None:
    a, b, c, d = (ConfigError("f", key, "is wrong") for key in "abcd")
    error = combined_error([combined_error([a, b]), combined_error([c, d])])
    assert [single.key for single in single_errors(error)] == ["a", "b", "c", "d"]
