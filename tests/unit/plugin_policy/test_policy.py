"""The policy of a plugin, from the operator's file, the plugin's declaration and the defaults."""

import logging
import os

import pytest

from nri.api import messages as m
from nri.api.events import ALL, EVENTS
from nri.config import Source
from nri.errors import ConfigError
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.policy import PluginPolicy, Policies, resolve
from nri.rules import Rules

CREATE, STOP = m.Event.CREATE_CONTAINER, m.Event.STOP_CONTAINER


def policy(text: str, plugin: str = "10-a", declared=None, rules=Rules.DEFAULT) -> PluginPolicy:
    tables = policy_file.parse(Source("policy.toml", text, "toml"))
    return resolve(tables.get(plugin) or tables.get("defaults") or policy_file.Table(), declared, rules)


def table(text: str) -> PluginPolicy:
    return policy(f'["10-a"]\n{text}')


# --- the order of values


def test_without_a_file_the_defaults_apply():
    assert policy("") == PluginPolicy()
    assert (PluginPolicy().breaker_misses, PluginPolicy().breaker_retry_s) == (5, 30.0)


@pytest.mark.parametrize("rules", [Rules.DEFAULT, Rules.REFERENCE])
@pytest.mark.parametrize("declared", [None, True, False])
@pytest.mark.parametrize("operator", [None, True, False])
@pytest.mark.parametrize("key", ["fail_request", "keep_connected"])
def test_precedence_is_operator_plugin_default(key, operator, declared, rules):
    text = "" if operator is None else f'["10-a"]\n{key} = {str(operator).lower()}'
    output = None if declared is None else m.FailurePolicy(**{key: declared})
    default = key == "keep_connected" and rules is Rules.DEFAULT
    expected = operator if operator is not None else True if declared else default
    assert bool(getattr(policy(text, declared=output, rules=rules), key)) is expected


def test_the_table_defaults_applies_to_plugins_with_and_without_a_table():
    text = '[defaults]\ntimeout = 7\n["10-a"]\nshadow = true'
    assert policy(text, "10-a").timeout_s(CREATE) == 7
    assert policy(text, "99-unnamed").timeout_s(CREATE) == 7


def test_a_plugins_table_overrides_the_defaults_key_by_key():
    text = '[defaults]\ntimeout = 7\nallow.fields = ["Env"]\n["10-a"]\ntimeout = "1s"\nallow.namespaces = ["prod"]'
    matches = policy(text)
    assert matches.timeout_s(CREATE) == 1
    assert matches.to_json()["allow"] == {"namespaces": ["prod"], "fields": ["Env"]}


def test_a_timeout_of_the_plugin_replaces_a_table_of_timeouts_of_defaults():
    text = '[defaults]\ntimeout = { CreateContainer = 9 }\n["10-a"]\ntimeout = 1'
    assert policy(text).timeout_s(CREATE) == 1


# --- the keys


def test_a_single_timeout_applies_to_every_call():
    assert set(table('timeout = "1m30s"').timeout) == {90.0}


def test_a_timeout_by_event_leaves_other_events_to_the_runtime():
    matches = table('timeout = { CreateContainer = "500ms" }')
    assert (matches.timeout_s(CREATE), matches.timeout_s(STOP), matches.timeout_s()) == (0.5, None, None)


def test_a_timeout_by_event_may_have_a_default():
    matches = table("timeout = { default = 4, CreateContainer = 1 }")
    assert (matches.timeout_s(CREATE), matches.timeout_s(STOP), matches.timeout_s()) == (1, 4, 4)


def test_fail_request_takes_a_list_of_events():
    matches = table('fail_request = ["CreateContainer"]')
    assert (matches.fails_request(CREATE), matches.fails_request(STOP)) == (True, False)


def test_fail_request_true_means_every_event():
    assert all(table("fail_request = true").fails_request(spec.number) for spec in EVENTS)


REFUSED = {"RunPodSandbox", "UpdatePodSandbox", "CreateContainer", "StartContainer", "UpdateContainer"}


def test_a_required_plugin_is_required_by_five_events():
    matches = table("required = true")
    assert {spec.rpc for spec in EVENTS if matches.requires(spec.number, "prod")} == REFUSED


def test_namespaces_can_be_exempted_from_a_required_plugin():
    matches = table('required = { exempt_namespaces = ["kube-*", "!kube-public"] }')
    requests = ("kube-system", "kube-public", "prod")
    assert [matches.requires(CREATE, namespace) for namespace in requests] == [False, True, True]


def test_breaker_false_disables_the_breaker():
    assert table("breaker = false").breaker_misses == 0


def test_breaker_accepts_misses_and_retry():
    matches = table('breaker = { misses = 2, retry = "1m" }')
    assert (matches.breaker_misses, matches.breaker_retry_s) == (2, 60.0)


def test_a_shadow_plugin_can_neither_fail_nor_block_a_request():
    matches = table("shadow = true\nrequired = true\nfail_request = true")
    assert not any(matches.requires(spec.number, "x") or matches.fails_request(spec.number) for spec in EVENTS)


def test_a_policy_is_printed_in_the_format_of_the_file():
    matches = table('fail_request = true\nrequired = { exempt_namespaces = ["a"] }\ntimeout = { CreateContainer = 1 }')
    assert matches.fail_request == ALL
    assert matches.to_json() == {
        "timeout": {"default": None, "CreateContainer": 1.0},
        "keep_connected": True,
        "fail_request": True,
        "required": {"exempt_namespaces": ["a"]},
        "breaker": {"misses": 5, "retry": 30.0},
        "restart": "on-failure",
        "shadow": False,
        "allow": None,
        "filters": None,
        "uid": None,
        "launched": None,
        "strict": False,
    }


# --- mistakes


# --- the file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.toml"


def watching(path, reports=None):
    return Policies(str(path), report=(reports if reports is not None else []).append)


def write(path, text: str) -> None:
    """Replace the file, as careful tools do: two writes within one tick of the clock then differ in the inode."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def test_a_changed_file_takes_effect_and_moves_the_generation(path):
    write(path, '["10-a"]\ntimeout = 1')
    policies = watching(path)
    before = policies.refresh()
    write(path, '["10-a"]\ntimeout = 2')
    assert policies.refresh() == before + 1
    assert policies.for_plugin("10", "a").timeout_s(CREATE) == 2


def test_an_invalid_new_file_keeps_the_last_policy_and_is_reported_once(path):
    reports = []
    write(path, '["10-a"]\nrequired = true')
    policies = watching(path, reports)
    write(path, '["10-a"]\nrequired = maybe')
    for _ in range(3):
        policies.refresh()
    assert policies.for_plugin("10", "a").required
    assert len(reports) == 1, "reported with every look"
    assert policies.error is reports[0]


def test_a_repaired_file_clears_the_error(path):
    write(path, "")
    policies = watching(path)
    for text in ("{", '["10-a"]\ntimeout = 3'):
        write(path, text)
        policies.refresh()
    assert policies.error is None
    assert policies.for_plugin("10", "a").timeout_s(CREATE) == 3


def test_an_invalid_file_at_the_start_is_an_error(path):
    write(path, "{")
    with pytest.raises(ConfigError, match=r"policy\.toml:1"):
        watching(path)


def test_a_missing_configured_file_is_logged(path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "nri.plugin_policy.policy")
    policies = watching(path)
    assert caplog.messages == [f"policy file {path} not found: no policy is in force until it exists"]
    write(path, '["10-a"]\nrequired = true')
    policies.refresh()
    path.unlink()
    for _ in range(3):
        policies.refresh()
    assert caplog.messages == [f"policy file {path} not found: no policy is in force until it exists"] * 2
    monkeypatch.setattr("nri.plugin_policy.policy.DEFAULT_PATH", str(path))
    watching(path)
    assert len(caplog.messages) == 2


def test_a_file_that_is_created_later_is_read(path):
    policies = watching(path)
    assert not policies.for_plugin("10", "a").required
    write(path, '["10-a"]\nrequired = true')
    policies.refresh()
    assert policies.required_names() == ("10-a",)


def test_a_file_that_is_missing_briefly_keeps_its_policies(path):
    write(path, '["10-a"]\nrequired = true')
    policies = watching(path)
    path.unlink()
    policies.refresh()
    assert policies.required_names() == ("10-a",), "one look found no file, and all protection was off"


def test_a_file_that_stays_missing_ends_its_policies(path):
    write(path, '["10-a"]\nrequired = true')
    policies = watching(path)
    path.unlink()
    for _ in range(2):
        policies.refresh()
    assert policies.required_names() == ()


def test_a_policy_is_the_same_object_until_the_generation_changes(path):
    write(path, '["10-a"]\ntimeout = 1')
    policies = watching(path)
    first = policies.for_plugin("10", "a", m.FailurePolicy())
    assert policies.for_plugin("10", "a") is first, "the hot path resolves anew"
    write(path, '["10-a"]\ntimeout = 1.5')
    policies.refresh()
    assert policies.for_plugin("10", "a") is not first


def test_required_names_include_absent_plugins(path):
    write(path, '[defaults]\nrequired = true\n["20-b"]\n["10-a"]\nrequired = false\n["30-c"]\nshadow = true')
    assert watching(path).required_names() == ("20-b",)


def test_without_a_path_no_file_is_read():
    policies = Policies(None)
    assert policies.refresh() == 0
    assert policies.for_plugin("10", "a") == PluginPolicy()


def test_an_unreadable_file_is_an_error_at_the_start(path):
    path.symlink_to(path)
    with pytest.raises(ConfigError, match=r"policy\.toml: cannot read it: Too many levels"):
        watching(path)


def test_a_file_that_becomes_unreadable_keeps_its_policies(path):
    reports = []
    write(path, '["10-a"]\nrequired = true')
    policies = watching(path, reports)
    path.unlink()
    path.symlink_to(path)
    for _ in range(3):
        policies.refresh()
    assert policies.required_names() == ("10-a",), "all protection was off"
    assert len(reports) == 1


def test_names_without_a_table_share_one_policy(path):
    write(path, "[defaults]\ntimeout = 3")
    policies = watching(path)
    created = [policies.for_plugin("10", f"n{number}") for number in range(100)]
    assert created[0].timeout_s(CREATE) == 3
    assert all(entry is created[0] for entry in created), "every name that anybody ever registered is kept"
