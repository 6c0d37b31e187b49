"""`policy-validator` refuses the same creations as a runtime with the same policy.toml."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.plugins.policy_validator.plugin import PolicyValidator
from nri.testing import FakeRuntime, make_container, make_pod

Answer = Callable[[], object]


class Inject(nri.Plugin):
    """A plugin whose answer to a creation is given."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> object:
        return self.answer()


def config_of(path: Path, text: str) -> str:
    path.write_text(text)
    return f"policy: {path}"


def set_env() -> nri.Adjustment:
    return nri.Adjustment().add_env("LEVEL", "debug")


def remove_mount() -> nri.Adjustment:
    return nri.Adjustment().remove_mount("/data")


def add_hook() -> nri.Adjustment:
    return nri.Adjustment().add_hook("prestart", "/bin/true")


#: The plugin's table, its answer, and the end of the refusal; "" if it is allowed.
CASES = [
    ("", set_env, ""),
    ('allow.fields = ["Env"]', set_env, ""),
    ('allow.fields = ["env"]', set_env, ""),
    ('allow.fields = ["Mounts"]', set_env, "set Env (allow.fields)"),
    ("allow.fields = []", remove_mount, "set Mounts (allow.fields)"),
    ('allow.fields = ["Env"]', add_hook, "set OciHooks (allow.fields)"),
    ('allow.namespaces = ["prod-*"]', set_env, 'set Env in namespace "default" (allow.namespaces)'),
    ('allow.namespaces = ["def*"]', set_env, ""),
    ('allow.events = ["UpdateContainer"]', set_env, "set Env in CreateContainer (allow.events)"),
    ("allow.fields = []", lambda: None, ""),
    ('allow.fields = ["Env"]\nfilters.namespace = ["prod"]\nshadow = false', set_env, ""),
]


@pytest.mark.parametrize(("table", "answer", "end"), CASES)
def test_changes_that_the_plugins_table_does_not_allow_are_refused(
    nri_runtime: FakeRuntime, tmp_path: Path, table: str, answer: Answer, end: str
) -> None:
    config = config_of(tmp_path / "policy.toml", f'["20-inject"]\n{table}\n')
    nri_runtime.add(Inject(answer), idx="20").add(PolicyValidator(), idx="90", config=config)
    pod, container = make_pod("web"), make_container("app", mounts=[m.Mount(destination="/data")])
    if not end:
        nri_runtime.create_container(pod, container)
        return
    with pytest.raises(nri.ValidationRejected) as raised:
        nri_runtime.create_container(pod, container)
    reason = f"container default/web/app: plugin 20-inject: its policy does not allow it to {end}"
    assert raised.value.reason == reason


@pytest.mark.parametrize("fields", ["Env", "Mounts", "linux.resources"])
def test_the_plugin_and_a_runtime_with_the_same_policy_agree(tmp_path: Path, fields: str) -> None:
    policy = f'["20-inject"]\nallow.fields = ["{fields}"]\nallow.namespaces = ["default"]\n'
    config = config_of(tmp_path / "policy.toml", policy)
    outcomes = []
    for text in (policy, None):
        with FakeRuntime(policy=text) as runtime:
            runtime.add(Inject(set_env), idx="20").add(PolicyValidator(), idx="90", config=config)
            try:
                outcomes.append(runtime.create_container(make_pod(), make_container()).env)
            except (nri.PluginError, nri.ValidationRejected) as error:
                outcomes.append("plugin 20-inject: its policy does not allow it to set Env" in str(error))
    assert outcomes[0] == outcomes[1]


def test_a_required_plugin_that_is_absent_refuses_creations_except_in_exempt_namespaces(
    nri_runtime: FakeRuntime, tmp_path: Path
) -> None:
    config = config_of(tmp_path / "policy.toml", '["20-inject"]\nrequired = { exempt_namespaces = ["kube-system"] }\n')
    nri_runtime.add(PolicyValidator(), idx="90", config=config)
    nri_runtime.create_container(make_pod(namespace="kube-system"), make_container())
    with pytest.raises(
        nri.ValidationRejected, match="plugin 20-inject: required for CreateContainer, but not connected"
    ):
        nri_runtime.create_container(make_pod(), make_container())
    nri_runtime.add(Inject(set_env), idx="20").create_container(make_pod(), make_container())


def test_with_strict_a_plugin_without_a_table_may_change_nothing(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    config = config_of(tmp_path / "policy.toml", '[defaults]\nstrict = true\n["20-inject"]\n')
    nri_runtime.add(PolicyValidator(), idx="90", config=config).add(Inject(set_env), idx="20")
    nri_runtime.create_container(make_pod(), make_container())
    nri_runtime.add(Inject(lambda: nri.Adjustment().add_env("B", "")), idx="21", name="other")
    with pytest.raises(nri.ValidationRejected, match=r"plugin 21-other has no policy.*\(strict\)"):
        nri_runtime.create_container(make_pod(), make_container())


def test_the_fields_of_other_containers_count_but_not_their_namespaces(
    nri_runtime: FakeRuntime, tmp_path: Path
) -> None:
    other = make_container("other")
    policy = '["20-inject"]\nallow.namespaces = ["default"]\nallow.fields = ["{}"]\n'
    path = tmp_path / "policy.toml"
    config = config_of(path, policy.format("linux.resources.cpu"))

    def answer() -> object:
        return nri.Adjustment(), [nri.Update(other.id).set_cpu_shares(7)]

    nri_runtime.create_container(make_pod("elsewhere", namespace="elsewhere"), other)
    nri_runtime.add(Inject(answer), idx="20").add(PolicyValidator(), idx="90", config=config)
    nri_runtime.create_container(make_pod(), make_container())
    path.write_text(policy.format("Env"))
    with pytest.raises(nri.ValidationRejected, match=rf'set CPUShares of container "{other.id}" \(allow.fields\)'):
        nri_runtime.create_container(make_pod(), make_container())


def test_an_unknown_field_is_never_allowed(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('["20-inject"]\nallow.fields = ["Env"]\n')
    validator = PolicyValidator()
    validator.config = PolicyValidator.Config()
    validator.config.policy = str(path)
    validator.configure()
    request = m.ValidateContainerAdjustmentRequest()
    request.container.id = "c"
    request.owners.owners["c"].simple[99] = "20-inject"
    with pytest.raises(nri.Reject, match=r"set Field\(99\) \(allow.fields\)"):
        validator.validate_container_adjustment(nri.ValidationRequest(request))


def test_the_start_logs_the_rules_that_cannot_be_enforced(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nri_runtime.add(PolicyValidator(), idx="90", config=config_of(tmp_path / "policy.toml", ""))
    (line,) = [record.message for record in caplog.records if "enforces allow, required and strict" in record.message]
    assert "not any change outside the creation of a container" in line and "uid, launched" in line


def test_an_invalid_policy_prevents_the_start(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    config = config_of(tmp_path / "policy.toml", '["20-inject"]\nalow = {}\n')
    with pytest.raises(nri.NriError, match=r'policy.toml:2: 20-inject.alow: unknown key \(did you mean "allow"\?\)'):
        nri_runtime.add(PolicyValidator(), idx="90", config=config)


def test_a_missing_policy_is_reported(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nri_runtime.add(PolicyValidator(), idx="90", config=f"policy: {tmp_path / 'policy.toml'}")
    assert "policy.toml not found: no policy is in force until it exists" in caplog.text
    nri_runtime.create_container(make_pod(), make_container())
