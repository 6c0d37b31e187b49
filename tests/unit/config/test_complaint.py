"""Error texts about configuration values, with suggestions."""

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
def test_the_nearest_key_or_all_keys_are_suggested(key: str, known_keys: list[str], words: str) -> None:
    assert suggest(key, known_keys) == words


def test_values_are_printed_like_in_configuration_files() -> None:
    assert (scalar_text("a"), scalar_text(True), scalar_text(None), scalar_text(1.5)) == ("a", "true", "null", "1.5")
    assert shorten("é") == '"é"'
    assert len(shorten("x" * 100)) == 60


def test_combined_errors_keep_their_single_errors() -> None:
    a, b, c, d = (ConfigError("f", key, "is wrong") for key in "abcd")
    error = combined_error([combined_error([a, b]), combined_error([c, d])])
    assert [single.key for single in single_errors(error)] == ["a", "b", "c", "d"]
