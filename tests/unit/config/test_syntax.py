"""Parsing of three formats, and the line of a key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.config import Source, parse_text
from nri.config.key_path import Path
from nri.config.syntax import TooDeep, format_of, line_of, parse_json, toml_key
from nri.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "declared_format", "kind"),
    [("{}", "auto", "json"), (" {}", "auto", "json"), ("a: 1", "auto", "yaml"), ("{}", "yaml", "yaml")],
)
def test_the_first_character_determines_the_format(text: str, declared_format: Any, kind: str) -> None:
    assert format_of(Source("s", text, declared_format)) == kind


@pytest.mark.parametrize(("text", "kind"), [('{"a": [1]}', "json"), ("a: [1]", "yaml"), ("a = [1]", "toml")])
def test_all_formats_give_plain_values(text: str, kind: Any) -> None:
    assert parse_text(Source("s", text, kind)) == {"a": [1]}
    assert parse_text(Source("s", " \n", kind)) is None


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("{cpus: 4-7, zones: [a, b]}", {"cpus": "4-7", "zones": ["a", "b"]}),
        ("{'cpus': 4-7}", {"cpus": "4-7"}),
        ('  {\n  "cpus": "4-7",  # a comment\n}', {"cpus": "4-7"}),
        ('{"cpus": "4-7"}', {"cpus": "4-7"}),
        ("{}\n", {}),
    ],
)
def test_yaml_that_begins_like_json_is_read_as_yaml(text: str, tree: dict[str, Any]) -> None:
    assert parse_text(Source("s", text)) == tree


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ('{"a": 1, "a": 2}', "json", "s:1: a: duplicate key (remove one of the two)"),
        ('{\n"a" 1}', "json", "s:2: not valid JSON: expecting ':' delimiter in column 5"),
        ('{"a": 1', "auto", "s:1: not valid JSON: expecting ',' delimiter in column 8 (and not valid YAML either)"),
        ("{a: 1", "auto", "s:2: not valid YAML: did not find expected"),
        ("{a: 1}", "json", "s:1: not valid JSON: expecting property name"),
        ("a = 1\na = 2", "toml", "s:2: not valid TOML: cannot overwrite a value"),
        ("a = ", "toml", "s:1: not valid TOML: invalid value"),
        ('{"x": {\n\t"a": 1,\n"a": 2}}', "json", "s:3: x.a: duplicate key (remove one of the two)"),
        ("[" * 100_000, "json", "s:1: nested deeper than 100 levels"),
        ('{"a":\n' + "[" * 150 + "]" * 150 + "}", "json", "s:2: nested deeper than 100 levels"),
        ("a = 1\nb = " + "[" * 150 + "]" * 150, "toml", "s:2: nested deeper than 100 levels"),
        ("a = 1\nb = " + "[" * 5000 + "]" * 5000, "toml", "s:2: nested deeper than 100 levels"),
        ("b = 1\n" + "a." * 30_000 + "a = 1", "toml", "s:2: nested deeper than 100 levels"),
        ("['a'" + ' . "b"' * 30_000 + "]", "toml", "s:1: nested deeper than 100 levels"),
        ("[" + "a." * 60 + "a]\n" + "b." * 60 + "b = 1", "toml", "s: nested deeper than 100 levels"),
        ("x = {" + "a." * 200 + "a = 1}", "toml", "s:1: nested deeper than 100 levels"),
        ('{"a":\n' + "9" * 5000 + "}", "json", "s:2: not valid JSON: exceeds the limit (4300 digits)"),
        ("a = 1\nb = " + "9" * 5000, "toml", "s:2: not valid TOML: exceeds the limit (4300 digits)"),
        ('{\n"a": "\\ud800"}', "json", "s:2: a: contains half of a character"),
        ('a: 1\nb: ["\\uDFFF"]', "yaml", "s:2: not valid YAML: found invalid Unicode character escape code"),
        ("a: \ud800", "yaml", "s: the text is not UTF-8"),
    ],
)
def test_an_invalid_text_is_a_config_error_with_its_line(text: str, kind: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text(Source("s", text, kind))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind", "path", "line"),
    [
        ("[a]\n\nb = 1", "toml", ("a", "b"), 3),
        ("a.b = 1", "toml", ("a", "b"), 1),
        ("\n[a.'x.y']\n", "toml", ("a", "x.y"), 2),
        ("# [a]\na = { b = 1 }", "toml", ("a", "b"), 2),
        ("a = 1", "toml", ("b",), None),
        ("a:\n- b: 1\n- b: 2", "yaml", ("a", 1, "b"), 3),
        ('{\n"a": {\n\t"b": 1}}', "json", ("a", "b"), 3),
        ("a: 1", "yaml", ("b",), None),
        ("a: [", "yaml", ("a",), None),
    ],
)
def test_the_line_of_a_key_is_found_or_none(text: str, kind: Any, path: Path, line: int | None) -> None:
    assert line_of(Source("s", text, kind), path) == line


def test_a_dotted_key_of_toml_is_split() -> None:
    assert toml_key("plugins.\"io.containerd.nri.v1.nri\".'a b'") == ["plugins", "io.containerd.nri.v1.nri", "a b"]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_number_words_of_python_are_not_json(word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word} is not a number in JSON$"):
        parse_json(f'{{"a": [{word}]}}')
    assert parse_json(f'"{word}"') == word


@pytest.mark.parametrize(
    ("data", "problem"),
    [("[" * 101 + "]" * 101, "nested deeper than 100"), ("[" * 100_000, "nested deeper than 100"), ("{", "Expecting"),
     ('{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100"), (b"\xff", "utf-8"), ("9" * 5000, "digits")],
)  # fmt: skip
def test_foreign_json_is_bounded_in_depth(data: str | bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_json(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\ud800b"', "a\ufffdb"),
        (r'{"\uDFFF": 1}', {"\ufffd": 1}),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d\ud83d\ude00\ude00"', "\ufffd\U0001f600\ufffd"),
        (r'"\\ud800\\\ud800"', "\\ud800\\\ufffd"),
    ],
)
def test_half_of_a_character_in_foreign_json_is_replaced(text: str, value: Any) -> None:
    assert parse_json(text) == parse_json(text.encode()) == value


@pytest.mark.parametrize("data", [b'"\xed\xa0\x80"', b'"\xff"', "[1]".encode("utf-16")])
def test_foreign_json_must_be_utf_8(data: bytes) -> None:
    with pytest.raises(ValueError, match="utf-8"):
        parse_json(data)
    assert parse_json(b"\xef\xbb\xbf[1]") == [1]


def test_json_can_be_read_with_pythons_hooks() -> None:
    assert parse_json('{"a": 1, "a": 2}', object_pairs_hook=list) == [("a", 1), ("a", 2)]
    assert parse_json("[NaN]", parse_constant=str.lower) == ["nan"]
    with pytest.raises(TooDeep):
        parse_json('{"a":' * 101 + "1" + "}" * 101, object_pairs_hook=dict)


def test_foreign_json_is_read_unchanged() -> None:
    deep = "[" * 99 + "1" + "]" * 99
    assert parse_json(deep) == json.loads(deep)
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert parse_json("3") == 3


def test_dots_in_toml_values_do_not_nest() -> None:
    addresses = [f"10.0.0.{number}" for number in range(99)]
    dots = "a." * 300
    text = (
        f'ips = {addresses}\ntext = "{dots}"  # {dots}\nmore = """\n{dots}\n"""\nraw = \'\'\'{dots}\'\'\'\nx.y = 1.5\n'
    )
    tree = parse_text(Source("s", text, "toml"))
    assert (tree["ips"], tree["text"], tree["raw"], tree["x"]) == (addresses, dots, dots, {"y": 1.5})
