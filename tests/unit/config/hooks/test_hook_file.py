"""Files of hooks: mistakes are errors with file, line and key; oddities are warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nri.config import Source
from nri.config.hooks.conditions import When
from nri.config.hooks.hook_file import Hook, parse_hook
from nri.errors import ConfigError

GOOD: dict[str, Any] = {
    "version": "1.0.0",
    "hook": {"path": "/bin/sh", "args": ["sh", "-c", "true"], "env": ["A=1"], "timeout": 5},
    "when": {"always": True},
    "stages": ["prestart", "poststop"],
}


def parse(tree: object) -> tuple[Hook, list[str]]:
    hook, warnings = parse_hook("a.json", Source("/d/a.json", json.dumps(tree, indent=1)))
    return hook, [str(warning) for warning in warnings]


def with_key(tree: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of the tree with another value at a dotted path."""
    copy = json.loads(json.dumps(tree))
    *tables, last = path.split(".")
    place = copy
    for table in tables:
        place = place[table]
    place[last] = value
    return dict(copy)


def test_a_hook_has_the_settings_of_its_file() -> None:
    hook, warnings = parse(GOOD)
    when = When(always=True)
    assert hook == Hook("a.json", "/bin/sh", ("sh", "-c", "true"), ("A=1",), 5, ("prestart", "poststop"), when)
    assert not warnings


def test_in_the_old_schema_the_program_becomes_the_first_argument() -> None:
    hook, warnings = parse({"hook": "/bin/sh", "arguments": ["-x"], "stage": ["prestart"], "cmd": ["^a"]})
    assert hook.args == ("/bin/sh", "-x") and hook.when.any_of and hook.timeout_s is None
    assert [pattern.text for pattern in hook.when.commands] == ["^a"]
    assert not warnings
    assert parse({"hook": "/bin/sh", "stage": [], "cmd": ["a"]})[0].args == ()


OLD = {"hook": "/bin/sh", "stages": ["prestart"], "cmds": ["a"]}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ([], "/d/a.json: expected a mapping of keys to values, not []"),
        (with_key(GOOD, "version", "2"), '/d/a.json:2: version: unrecognized hook version: "2"'),
        (with_key(GOOD, "version", 1), "/d/a.json:2: version: unrecognized hook version: 1"),
        (with_key(GOOD, "hook.path", ""), "hook.path: is empty"),
        (with_key(GOOD, "hook.path", "bin/sh"), '/d/a.json:4: hook.path: "bin/sh" must be an absolute path'),
        (with_key(GOOD, "hook.path", "/bin/sh\0"), "hook.path: contains NUL"),
        (with_key(GOOD, "hook.path", 1), "hook.path: expected a string, not 1"),
        (with_key(GOOD, "hook.args", "sh"), "hook.args: expected a list"),
        (with_key(GOOD, "hook.args", ["sh", "a\0"]), "hook.args[1]: contains NUL"),
        (with_key(GOOD, "hook.env", ["A=\0"]), "hook.env[0]: contains NUL"),
        (with_key(GOOD, "hook.timeout", 0), "hook.timeout: 0 must be a positive number of seconds"),
        (with_key(GOOD, "hook.timeout", -1), "hook.timeout: -1 must be a positive number of seconds"),
        (with_key(GOOD, "hook.timeout", 2**63), "hook.timeout: 9223372036854775808 must be a positive number"),
        (with_key(GOOD, "hook.timeout", "5"), "hook.timeout: expected a whole number"),
        (with_key(GOOD, "hook", None), "hook.path: missing, and the key has no default"),
        (with_key(GOOD, "stages", None), "stages: missing, and the key has no default"),
        (with_key(GOOD, "stages", ["prestart", "poststopp"]), "stages[1]: expected one of prestart, createRuntime"),
        (with_key(GOOD, "when.always", "yes"), "when.always: expected true or false"),
        (with_key(GOOD, "when.commands", ["a", "("]), 'when.commands[1]: "(" is not a regular expression: missing )'),
        (with_key(GOOD, "when.annotations", {"[": "a"}), 'the key "[" is not a regular expression'),
        (
            with_key(GOOD, "when.annotations", {"a": "(?=b)"}),
            'the value "(?=b)" is not a regular expression: invalid perl operator',
        ),
        (with_key(GOOD, "STAGES", ["poststop"]), "STAGES: duplicate key"),
        (with_key(OLD, "hook", "sh"), 'hook: "sh" must be an absolute path'),
        (with_key(OLD, "arguments", ["\0"]), "arguments[0]: contains NUL"),
        (with_key(OLD, "hook", {"path": "/bin/sh"}), "hook: expected a string"),
        (with_key(OLD, "stage", ["poststop"]), 'stage: means the same as "stages" (keep one of the two keys)'),
        (with_key(OLD, "cmd", ["b"]), 'cmd: means the same as "cmds"'),
        ({**OLD, "annotation": ["a"], "annotations": ["b"]}, 'annotation: means the same as "annotations"'),
        (with_key(OLD, "stages", None), "stages: is required"),
        (with_key(OLD, "cmds", ["("]), "cmds[0]: "),
        (with_key(OLD, "annotations", ["a", "("]), 'annotations: "a|(" is not a regular expression'),
    ],
)
def test_a_mistake_is_an_error_with_file_line_and_key(tree: object, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(tree)
    assert text in str(refused.value)
    assert str(refused.value).startswith("/d/a.json")


def test_all_mistakes_of_a_file_are_reported_together() -> None:
    with pytest.raises(ConfigError) as refused:
        parse(with_key(with_key(GOOD, "hook.path", "sh"), "when.commands", ["(", "["]))
    assert [error.key for error in (refused.value, *refused.value.others)] == [
        "hook.path",
        "when.commands[0]",
        "when.commands[1]",
    ]


@pytest.mark.parametrize("text", ["", "{", "null", "{} x", '{"hook": "/bin/sh", "hook": "/bin/true", "stages": []}'])
def test_a_text_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"/d/a\.json"):
        parse_hook("a.json", Source("/d/a.json", text))


def test_keys_match_in_any_case_and_unknown_keys_are_warnings() -> None:
    hook, warnings = parse({**with_key(GOOD, "hook.argz", []), "Stage": ["poststop"]})
    assert hook.stages == ("prestart", "poststop")
    assert any('hook.argz: unknown key, ignored (did you mean "args"?)' in text for text in warnings)
    assert any('Stage: unknown key, ignored (did you mean "stages"?)' in text for text in warnings)


@pytest.mark.parametrize("when", [{}, {"hasBindMounts": False}, {"annotations": {}}, {"commands": []}])
def test_a_hook_that_matches_no_container_is_a_warning(when: object) -> None:
    assert any("when: is never true" in text for text in parse(with_key(GOOD, "when", when))[1])


def test_a_disabled_hook_is_not_a_warning() -> None:
    assert not parse(with_key(GOOD, "when", {"always": False}))[1]
