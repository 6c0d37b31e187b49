"""The policy file: every mistake is an error with line, key and remedy, for any text."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.config import Source
from nri.errors import ConfigError
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.policy import resolve


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        policy_file.parse(Source("policy.toml", text, "toml"))
    return str(caught.value)


MISTAKES = {
    "a key outside of a table": ('timeout = "2s"', "policy.toml:1: timeout: must be in a table"),
    "a table that is not a plugin": ("[injector]\n", "policy.toml:1: injector: not the name of a plugin"),
    "an unknown key": ('["10-a"]\ntimout = 3', '10-a.timout: unknown key (did you mean "timeout"?)'),
    "an invalid timeout": ('["10-a"]\ntimeout = "2x"', '10-a.timeout: "2x" is not a duration'),
    "a timeout of nothing": ('["10-a"]\ntimeout = 0', "10-a.timeout: expected between 1ms and 24h, not 0 s"),
    "a timeout without end": ('["10-a"]\ntimeout = inf', "10-a.timeout: expected between 1ms and 24h, not inf s"),
    "an unknown event": ('["10-a"]\nfail_request = ["CreateContaner"]', 'did you mean "CreateContainer"?'),
    "a timeout of an unknown event": ('["10-a"]\ntimeout = { Create = 1 }', 'not "Create"'),
    "a breaker that never closes": ('["10-a"]\nbreaker.misses = 0', "breaker = false switches it off"),
    "an invalid restart": ('["10-a"]\nrestart = "onfailure"', 'did you mean "on-failure"?'),
    "an unknown field": ('["10-a"]\nallow.fields = ["Envv"]', 'did you mean "Env"?'),
    "an invalid selector": ('["10-a"]\nfilters.label = ["!a=b"]', '"!a=b" is not a selector'),
    "several labels in one text": ('["10-a"]\nfilters.label = ["a=b,c=d"]', 'write a list: ["a=b", "c=d"]'),
    "labels that exclude each other": (
        '["10-a"]\nfilters.label = ["a=b", "!a"]', '"a=b" and "!a" exclude each other, so that no pod matches'
    ),
    "a namespace with capitals": ('["10-a"]\nallow.namespaces = ["Prod"]', '"Prod" is not a namespace'),
    "an empty namespace": ('["10-a"]\nfilters.namespace = [""]', '"" is not a namespace'),
    "a number that no float can hold": (f'["10-a"]\ntimeout = {"9" * 400}', "too large"),
    "strict where it means nothing": ('["10-a"]\nstrict = true', "10-a.strict: applies only to plugins without"),
    "an invalid user": ('["10-a"]\nuid = [0, -1]', "10-a.uid: -1 is not a user id"),
    "a user by name": ('["10-a"]\nuid = "root"', "10-a.uid: "),
    "defaults in capitals": ('["10-a"]\n[DEFAULTS]\nshadow = true', "policy.toml:2: DEFAULTS: not the name"),
    "defaults with a capital letter": ("[Defaults]\nshadow = true", "did you mean [defaults]?"),
    "not TOML at all": ("{", "policy.toml:1: not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_line_key_and_remedy(text):
    source, expected = MISTAKES[text]
    assert expected in complaint(source)


def test_all_mistakes_are_reported_at_once():
    text = complaint('[defaults]\nshadow = 1\n["10-a"]\nshadow = 2\n["20-b"]\nshaddow = true')
    assert [line.split(":")[1] for line in text.split("; ")] == ["2", "4", "6"]


def test_a_mistake_in_defaults_is_blamed_once():
    assert complaint('[defaults]\ntimeout = 0\n["10-a"]\n["20-b"]').count("\n") == 0


WORDS = ["2s", "CreateContainer", "Env", "a=b", "!x", "on-failure", "prod-*", "99999999h"]


INNER = ["misses", "retry", "events", "fields", "namespaces", "label", "default", "CreateContainer", "x"]


OUTER = [
    "timeout",
    "keep_connected",
    "fail_request",
    "required",
    "breaker",
    "restart",
    "shadow",
    "allow",
    "filters",
    "uid",
    "launched",
    "strict",
]


leaves = st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)


values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=2),
    max_leaves=6,
)


trees = st.dictionaries(
    st.sampled_from(["defaults", "10-a", "99-b.c", "nobody", ""]),
    values | st.dictionaries(st.sampled_from(OUTER), values, max_size=3),
)


@given(trees)
def test_any_tree_is_a_policy_or_a_config_error(tree):
    text = _toml(tree)
    try:
        tables = policy_file.parse(Source("policy.toml", text, "toml"))
    except ConfigError:
        return
    for one in tables.values():
        assert json.dumps(resolve(one).to_json())


@given(st.text() | st.text(alphabet="[]{}=\"\n\t# 019ae.-,\\'", max_size=200))
def test_any_text_is_a_policy_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        assert isinstance(policy_file.parse(Source("policy.toml", text, "toml")), dict)


def _toml(value: object) -> str:
    """A tree as TOML: top-level tables by header, all else inline."""
    lines = []
    for name, inner in value.items():
        if isinstance(inner, dict):
            lines = [*lines, f"[{_inline(name)}]", *(f"{_inline(key)} = {_inline(one)}" for key, one in inner.items())]
        else:
            lines.insert(0, f"{_inline(name)} = {_inline(inner)}")
    return "\n".join(lines)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inline(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(char):08x}" if not char.isalnum() else char for char in value) + '"'
    return str(value).lower()
