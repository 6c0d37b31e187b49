"""Any annotation ends in a value or a refusal, never in a traceback or a hang."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.errors import Reject
from nri.plugins.annotations import MAX_CHARACTERS, MAX_VALUES, Annotation, Mode


class Thing(NamedTuple):
    """A table with a field of every kind."""

    a: str = ""
    b: int = 0
    c: Mode = Mode(0)
    d: tuple[str, ...] = ()


READERS = {
    "one": lambda annotation: annotation.row(Thing),
    "many": lambda annotation: annotation.rows(Thing, "a"),
    "texts": lambda annotation: annotation.texts(),
    "pairs": lambda annotation: annotation.pairs(),
}


def attempt(text: str) -> dict[str, Any]:
    """The result of each reader for the text, or its error message."""
    created: dict[str, Any] = {}
    for name, read in READERS.items():
        try:
            created[name] = read(Annotation("key/container.c", text))
        except Reject as refused:
            created[name] = str(refused)
            assert created[name].startswith("annotation key/container.c: ")
            assert created[name].isprintable()
            assert len(created[name]) <= 2600, "a refusal is one short line"
    return created


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdABx_"), inner, max_size=4),
    max_leaves=12,
)
#: Texts that YAML has as JSON has them: without line ends of Unicode, and what does not print.
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co", "Zl", "Zp", "Cf")), max_size=5)
NUMBERS = st.integers(-(1 << 64), 1 << 64)
TABLES = st.fixed_dictionaries({}, optional={"a": WORDS, "B": NUMBERS, "c": NUMBERS, "d": st.lists(WORDS)})


@given(VALUES)
def test_any_tree_is_accepted_or_refused(tree: Any) -> None:
    attempt(json.dumps(tree))


@given(st.lists(TABLES, max_size=4))
def test_tables_of_the_right_types_are_read_unchanged(tables: list[dict[str, Any]]) -> None:
    created = [
        Thing(one.get("a", ""), one.get("B", 0), Mode(one.get("c", 0)), tuple(one.get("d", ()))) for one in tables
    ]
    assert Annotation("k", json.dumps(tables, ensure_ascii=False)).rows(Thing) == created


@given(st.text(alphabet=st.sampled_from("abc:-[]{}#&*!|>'\"%@`?,.0123456789 \n\t~=<\x00é\ud800"), max_size=60))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    attempt(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "9" * 5000,
        "b: " + "9" * 5000,
        "b: -",
        "b: 0x",
        "b: !!int x",
        "b: !!int ''",
        "c: 0" + "7" * 60,
        "[" * 60_000,
        "{a: " * 15_000,
        "- " * 30_000,
        "a: &a [*a]",
        "&a [&b [*a, *b]]",
        "? {a: b}\n: c",
        "? [a]\n: {x: 1, x: 2}",
        "[a, b]: c",
        "a: !!binary x",
        "a: !!python/name:os.system",
        "b: 1e999",
        "b: .nan",
        "a: 2026-01-01T00:00:00",
        "\ufeffa: b",
        "%YAML 9.9\n---\na: b",
        "a: b\n---\na: c",
        "a: \ud800",
        'a: "\\ud800"',
        'a: "\\0"',
        "1: 2\nnull: 3\ntrue: 4",
        "<<: {a: b}",
        "<<: [a]",
        "!!set {a, b}",
        "!!omap [a: b]",
        "*a",
        "x" * (MAX_CHARACTERS + 1),
        "[" + "1," * (MAX_VALUES + 1) + "]",
    ],
)
def test_texts_that_break_parsers_are_accepted_or_refused(text: str) -> None:
    attempt(text)


def test_an_alias_bomb_is_refused_quickly() -> None:
    lines = ["h0: &h0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"h{n}: &h{n} [{', '.join([f'*h{n - 1}'] * 9)}]" for n in range(1, 30)]
    created = attempt("\n".join([*lines, "d: *h29"]))
    assert all(f"more than {MAX_VALUES} values" in output for output in created.values())
