"""Nodes of YAML as the values that are wanted, and as nothing else."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from nri.config import Source
from nri.config.yaml_text import compose_yaml
from nri.plugins import values
from nri.plugins.values import Mode, Wrong


class Thing(NamedTuple):
    """A table with a field of every kind."""

    path: str
    major: int = 0
    mode: Mode = Mode(0)
    options: tuple[str, ...] = ()
    hostIf: str = ""  # noqa: N815 - as the reference's keys are
    class_: str = ""


def node(text: str) -> Any:
    return compose_yaml(Source("s", text))


def read(text: str, unknown: list[str] | None = None) -> Thing:
    return values.table(node(text), "", Thing, [] if unknown is None else unknown)


def test_a_table_is_read_with_keys_in_any_form() -> None:
    made = read("Path: /dev/x\nMAJOR: 0x10\nmode: 0660\nOptions: [ro, 1.50, yes]\nhost_if: 007\nclass: best")
    assert made == Thing("/dev/x", 16, Mode(0o660), ("ro", "1.50", "yes"), "007", "best")


@pytest.mark.parametrize(("text", "mode"), [("0660", 0o660), ('"0660"', 0o660), ("0o660", 0o660), ("432", 0o660)])
def test_a_mode_is_octal_with_a_leading_zero(text: str, mode: int) -> None:
    assert read(f"{{path: p, mode: {text}}}").mode == mode


def test_a_key_without_a_value_counts_as_not_given() -> None:
    assert read("path: x\nmajor:\noptions: ~") == Thing("x")
    with pytest.raises(Wrong, match="path is missing"):
        read("path:")


def test_a_key_that_is_not_known_is_told_with_a_suggestion_and_many_in_a_few_lines() -> None:
    unknown: list[str] = []
    assert read("path: x\nmajr: 3\n" + "".join(f"k{number}: 1\n" for number in range(1000)), unknown) == Thing("x")
    assert unknown[0] == 'majr: unknown key, left out (did you mean "major"?)'
    assert len(unknown) == values.MOST_UNKNOWN


def test_a_null_is_a_list_without_items() -> None:
    assert values.items(None, "") == values.items(node("~"), "") == []
    assert values.texts(node("~"), "") == ()


WITHOUT_ZERO = "write it without the leading 0; octal is 0o17"


@pytest.mark.parametrize(
    ("text", "place", "reason", "step"),
    [
        ("[]", "", "expected keys with values, not a list", "write 'key: value'"),
        ("word", "", 'expected keys with values, not "word"', "write 'key: value'"),
        ("{path: [a]}", "path", "expected text, not a list", ""),
        ("{path: {a: b}}", "path", "expected text, not a table of keys", ""),
        ("{major: 1}", "", "path is missing", "add 'path: ...'"),
        ("{path: a, major: x}", "major", '"x" is not a number', "write a whole number"),
        ("{path: a, major: '3'}", "major", '"3" is not a number', "write it without quotes"),
        ("{path: a, major: 010}", "major", '"010" is not a number', WITHOUT_ZERO),
        ("{path: a, major: 1.0}", "major", '"1.0" is not a number', "write a whole number"),
        ("{path: a, major: true}", "major", '"true" is not a number', "write a whole number"),
        ("{path: a, major: [1]}", "major", "a list is not a number", "write a whole number"),
        ("{path: a, major: " + "9" * 40 + "}", "major", f'"{"9" * 40}" is too large a number', ""),
        ("{path: a, mode: 0680}", "mode", '"0680" is not a number', WITHOUT_ZERO),
        ("{path: a, mode: [7]}", "mode", "a list is not a number", "write a whole number"),
        ("{path: a, options: ro}", "options", 'expected a list, not "ro"', "begin each of its items with '- '"),
        ("{path: a, options: [ro, ~]}", "options[1]", "it has no value", "write one, or leave the key out"),
        ("{path: a, Path: b}", "Path", "the key is given twice", "keep one of them"),
        ("{[a]: b}", "", "a key is a list", "write out keys as text"),
        ("{<<: {path: a}}", "", 'a key is "<<"', "write out keys as text"),
    ],
)
def test_what_is_not_wanted_is_wrong_with_place_and_next_step(text: str, place: str, reason: str, step: str) -> None:
    with pytest.raises(Wrong) as raised:
        read(text)
    assert (raised.value.place, raised.value.reason, raised.value.step) == (place, reason, step)
