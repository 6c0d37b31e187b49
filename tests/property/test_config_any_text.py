"""Any file content ends in a value or in a ConfigError, never in a traceback or a hang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.config import Source, read
from nri.errors import ConfigError
from tests.support.any_config import Config


def attempt(text: str, form: Any) -> str:
    """The words of the refusal, or "" where the text is taken."""
    try:
        read(Config, [Source("s", text, form)])
    except ConfigError as error:
        assert str(error)
        return str(error)
    return ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdefghijkx"), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_tree_is_accepted_or_refused(tree: Any) -> None:
    import json

    attempt(json.dumps(tree), "json")


@given(st.text(alphabet=st.sampled_from("abc:-[]{}#&*!|>'\"%@`?,.0123456789 \n\t~=<\x00é"), max_size=60))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    for form in ("json", "yaml", "toml"):
        attempt(text, form)


@pytest.mark.parametrize("form", ["json", "yaml", "toml"])
@pytest.mark.parametrize(
    "text",
    [
        '{"h": ' + "9" * 5000 + "}",
        "h = " + "9" * 5000,
        "h: " + "9" * 5000,
        "[" * 100_000,
        '{"a":' * 100_000,
        "- " * 100_000,
        "a: &a [*a]",
        "h: &a {x: *a}",
        "&a [&b [*a, *b]]",
        "? {a: b}\n: c",
        "[a, b]: c",
        "a: !!binary x",
        "a: !!python/name:os.system",
        "h: 1e999",
        "h: .nan",
        "h: 2026-01-01T00:00:00",
        "h = 2026-01-01",
        "\ufeffa: b",
        "%YAML 9.9\n---\na: b",
        "a: b\n---\na: c",
        "a: \ud800",
        "1: 2\nnull: 3\ntrue: 4",
    ],
)
def test_texts_that_break_parsers_are_accepted_or_refused(text: str, form: str) -> None:
    attempt(text, form)


def test_an_alias_bomb_is_refused_quickly() -> None:
    lines = ["h0: &h0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"h{n}: &h{n} [{', '.join([f'*h{n - 1}'] * 9)}]" for n in range(1, 30)]
    for more in ([], ["h: *h29"], ["b: *h29"]):
        assert "expands to more than 200000 values" in attempt("\n".join([*lines, *more]), "yaml")
