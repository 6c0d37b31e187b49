"""Differences of messages: added, changed and removed fields, also as lines of YAML."""

from __future__ import annotations

import pytest

from nri.plugins.differ.comparison import differences, yaml_differences


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["update: a.b: From: 1 -> To: 2"]),
        ({}, {"a": {"b": "x: y"}}, ['create: a.b: From: <nil> -> To: "x: y"']),
        ({}, {"a": {"b": {}}}, ["create: a.b: From: <nil> -> To: {}"]),
        ({"a": 0}, {}, ["delete: a: From: 0 -> To: <nil>"]),
        ({"a": "x"}, {}, ["delete: a: From: x -> To: <nil>"]),
        ({"env": ["A=1", "B=2"]}, {"env": ["B=3", "A=1"]}, ["update: env[B]: From: B=2 -> To: B=3"]),
        ({}, {"env": ["A=1"]}, ["create: env[A]: From: <nil> -> To: A=1"]),
        ({"args": ["a", "b"]}, {"args": ["a"]}, ["delete: args[b]: From: b -> To: <nil>"]),
        (
            {"mounts": [{"destination": "/a", "source": "/x"}, {"destination": "/b", "options": ["ro"]}]},
            {"mounts": [{"destination": "/b", "options": ["rw"]}]},
            [
                "delete: mounts[/a]: From: {destination: /a, source: /x} -> To: <nil>",
                "delete: mounts[/b].options[ro]: From: ro -> To: <nil>",
                "create: mounts[/b].options[rw]: From: <nil> -> To: rw",
            ],
        ),
    ],
)
def test_different_fields_are_listed_with_both_values(before: object, after: object, lines: list[str]) -> None:
    assert list(map(str, differences(before, after))) == lines


def test_newlines_in_keys_are_escaped() -> None:
    mount = {"destination": "/a\n[00] forged", "labels": {"b\nforged": 1}}
    (line,) = map(str, differences({"mounts": []}, {"mounts": [mount]}))
    assert line.isprintable() and line.startswith(r"create: mounts[/a\n[00] forged]: From: <nil> -> To: {destination: ")


def test_repeated_entries_are_compared_separately() -> None:
    assert list(map(str, differences({"args": ["a", "a"]}, {"args": ["a"]}))) == [
        'delete: args["a, 1"]: From: a -> To: <nil>'.replace('"', "")
    ]


def test_yaml_output_has_only_the_lines_around_a_difference() -> None:
    before = {f"k{number}": number for number in range(9)}
    after = {**before, "k8": "x"}
    assert yaml_differences(before, after) == ["@@ -6,4 +6,4 @@", " k5: 5", " k6: 6", " k7: 7", "-k8: 8", "+k8: x"]
    assert yaml_differences(before, before) == []
