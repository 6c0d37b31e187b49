"""YAML by its core schema, with limits."""

from __future__ import annotations

from typing import Any

import pytest

from nri.config import Source
from nri.config.yaml_text import DEEPEST, YamlLines, compose_yaml, parse_yaml
from nri.errors import ConfigError

#: 600 levels without a bracket or an indentation, each of them an alias.
CHAIN = "a0: &a0\n  - x\n" + "".join(f"a{number}: &a{number}\n  - *a{number - 1}\n" for number in range(1, 600))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("0o17", 15),
        ("0644", "0644"),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("true", True),
        ("null", None),
        ("~", None),
        ("-3", -3),
        ("1.5e3", 1500.0),
        ("0x1f", 31),
    ],
)
def test_a_scalar_follows_the_core_schema(text: str, value: Any) -> None:
    parsed = parse_yaml(Source("s", f"a: {text}"))["a"]
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: 2\na: 3", "s:3: a: duplicate key"),
        ("x:\n  a: 1\n  a: 2", "s:3: x.a: duplicate key"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"nested deeper than {DEEPEST} levels"),
        ("- " * 100_000, f"s:1: nested deeper than {DEEPEST} levels"),
        (CHAIN, f"s:201: nested deeper than {DEEPEST} levels (remove aliases (*name), which nest values)"),
        ("a: &a [*a]", "the value contains itself"),
        ("a: 1\n---\nb: 2", "s:2: not valid YAML: there is a second document"),
        ("a: b: c", "s:1: not valid YAML: mapping values are not allowed"),
        ("a: !!python/object:os.system x", "s:1: the tag !!python/object:os.system is not supported for a scalar"),
        ("a: 1\nb: !!binary x", "s:2: the tag !!binary is not supported for a scalar"),
        ("a: 1\nb: !!set {x}", "s:2: the tag !!set is not supported for a mapping"),
        ("a: 1\nb: !x [1]", "s:2: the tag !x is not supported for a sequence"),
        ("a: 1\nb: !!int", 's:2: "" is not a valid int'),
        ("a: !!float x", 's:1: "x" is not a valid float'),
        ("a: !!bool maybe", 's:1: "maybe" is not a valid bool'),
        ("a: 1\nb: " + "9" * 5000, "s:2: "),
    ],
)
def test_invalid_and_harmful_texts_are_errors_with_the_line(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(Source("s", text))
    assert reason in str(caught.value)


def test_aliases_and_merge_keys_are_followed_once() -> None:
    assert parse_yaml(Source("s", "a: &a {x: 1}\nb: {<<: *a, y: 2}")) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


def test_a_text_with_only_a_comment_is_empty() -> None:
    assert parse_yaml(Source("s", "# nothing")) is None


def test_a_line_is_found_in_json_too() -> None:
    assert YamlLines('{\n\t"a": [\n1,\n2]}').find(("a", 1)) == 4


def test_a_duplicate_key_below_a_complex_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"duplicate key"):
        parse_yaml(Source("s", "? [a]\n: {x: 1, x: 2}"))


def test_nodes_keep_the_spelling_of_scalars() -> None:
    node = compose_yaml(Source("s", "a: 0x10"))
    ((key, value),) = node.value
    assert (key.value, value.value, value.start_mark.line) == ("a", "0x10", 0)
    assert compose_yaml(Source("s", "# nothing")) is None
    with pytest.raises(ConfigError, match="more than 3 values"):
        compose_yaml(Source("s", "[1, 2, 3]"), 3)
    with pytest.raises(ConfigError, match="duplicate key"):
        compose_yaml(Source("s", "{a: 1, a: 2}"))
