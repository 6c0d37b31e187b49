"""`default-validator` as a plugin has the decisions, texts and keys of the built-in validator."""

from __future__ import annotations

import pytest

import nri
from nri.api.default_validator import ValidatorConfig
from nri.plugins.default_validator.plugin import DefaultValidatorPlugin, read
from nri.testing import FakeRuntime, make_container, make_pod


class Sysctl(nri.Plugin):
    """A plugin that sets a kernel parameter."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().set_sysctl("net.ipv4.ip_forward", "1")


DIALECTS = [
    "rejectSysctlAdjustment: true",
    '{"rejectSysctlAdjustment": true}',
    "reject_sysctl_adjustment = true",
    "nri_validator_reject_sysctl_adjustment = true",
]


@pytest.mark.parametrize("config", DIALECTS)
def test_the_plugin_refuses_like_the_built_in_validator(nri_runtime: FakeRuntime, config: str) -> None:
    nri_runtime.add(Sysctl(), idx="20").add(DefaultValidatorPlugin(), idx="00", config=config)
    with FakeRuntime(default_validator=ValidatorConfig(enable=True, reject_sysctl_adjustment=True)) as built_in:
        built_in.add(Sysctl(), idx="20")
        lines = []
        for runtime in (nri_runtime, built_in):
            with pytest.raises(nri.ValidationRejected) as raised:
                runtime.create_container(make_pod(), make_container())
            lines.append((raised.value.plugin, raised.value.reason))
    reason = "validation error: attempted restricted sysctl adjustment by plugin(s) 20-sysctl"
    assert lines == [("00-default-validator", reason)] * 2


def test_without_a_configuration_the_pods_required_plugins_are_checked(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(DefaultValidatorPlugin(), idx="00")
    nri_runtime.create_container(make_pod(), make_container())
    pod = make_pod(annotations={"required-plugins.noderesource.dev": "[sysctl]"})
    with pytest.raises(nri.ValidationRejected, match='required plugin "sysctl" not present'):
        nri_runtime.create_container(pod, make_container())
    nri_runtime.add(Sysctl(), idx="20").create_container(pod, make_container())


@pytest.mark.parametrize("config", ["enable: {}\nrequiredPlugins: [x]", "enable = {}\nrequired_plugins = ['x']"])
def test_the_configuration_can_disable_the_validator(nri_runtime: FakeRuntime, config: str) -> None:
    nri_runtime.add(DefaultValidatorPlugin(), idx="00", config=config.format("false"))
    assert nri_runtime.create_container(make_pod(), make_container()).env == {}, "it refuses nothing"
    with FakeRuntime() as other:
        other.add(DefaultValidatorPlugin(), idx="00", config=config.format("true"))
        with pytest.raises(nri.ValidationRejected, match='required plugin "x" not present'):
            other.create_container(make_pod(), make_container())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rejectSysctl: true", r'rejectSysctl: unknown key \(did you mean "rejectSysctlAdjustment"\?\)'),
        ("requiredPlugins: x", "requiredPlugins: expected a list, not"),
        ("[a]", "expected a mapping of keys to values"),
        ("just words", "expected a mapping of keys to values"),
        ("required_plugins = x", "not valid TOML"),
        ("a: [", "not valid YAML"),
    ],
)
def test_an_invalid_configuration_prevents_the_start(nri_runtime: FakeRuntime, text: str, message: str) -> None:
    with pytest.raises(nri.ConfigError, match=message):
        read(text)
    with pytest.raises(nri.NriError, match=message):
        nri_runtime.add(DefaultValidatorPlugin(), idx="00", config=text)


def test_the_validator_is_enabled_by_default() -> None:
    assert read("") == ValidatorConfig(enable=True)
    assert read("nri_enable_default_validator = false") == ValidatorConfig()


def test_toml_is_recognized_by_its_first_key() -> None:
    built = read('# ours\n\n# all of them\ntolerate_missing_plugins_annotation = "a: b"\nrequired_plugins = ["x"]\n')
    config = ValidatorConfig(enable=True, tolerate_missing_plugins_annotation="a: b", required_plugins=("x",))
    assert built == config
