"""The default validator refuses with the reference's messages."""

import pytest

from nri.api import default_validator
from nri.api import messages as m
from nri.api.default_validator import DefaultValidator, ValidatorConfig, failure
from nri.config.complaint import single_errors
from nri.errors import ConfigError

TOLERATE = "tolerate-missing-plugins.noderesource.dev"
REQUIRED = "required-plugins.noderesource.dev"
PROFILES = {
    "runtime_default": m.SecurityProfile.RUNTIME_DEFAULT,
    "unconfined": m.SecurityProfile.UNCONFINED,
    "custom": m.SecurityProfile.LOCALHOST,
}


def request(
    simple=(), compound=(), annotations=(), sysctl=(), plugins=("10-a",), profile=None, adjust=True, linux=True
):
    message = m.ValidateContainerAdjustmentRequest(
        pod=m.PodSandbox(annotations=dict(annotations)), container=m.Container(id="c1", name="web")
    )
    if profile is not None:
        message.container.linux.seccomp_profile.profile_type = PROFILES[profile]
    if adjust:
        message.adjust.SetInParent()
    if adjust and linux:
        message.adjust.linux.sysctl.update(dict.fromkeys(sysctl, "1"))
        message.adjust.linux.SetInParent()
    owners = message.owners.owners["c1"]
    owners.simple.update(dict(simple))
    for field, keys in dict(compound).items():
        owners.compound[field].owners.update(keys)
    for plugin in plugins:
        index, _, name = plugin.partition("-")
        message.plugins.add(index=index, name=name)
    return message


def verdict(config: dict, **parts) -> str | None:
    return DefaultValidator(ValidatorConfig(enable=True, **config)).validate(request(**parts))


SECCOMP = {m.Field.SeccompPolicy: "10-a"}
HOOKS = {"reject_oci_hook_adjustment": True}
NAMESPACES = {"reject_namespace_adjustment": True}
SYSCTL = {"reject_sysctl_adjustment": True}
NEEDS_X = {"required_plugins": ("x",)}
TOLERATING = {**NEEDS_X, "tolerate_missing_plugins_annotation": TOLERATE}
BY_PLUGINS = "validation error: attempted restricted namespace adjustment by plugin(s)"

REFUSED = [
    (HOOKS, {"simple": {m.Field.OciHooks: "10-a"}},
     'validation error: plugin "10-a" attempted restricted OCI hook injection'),
    (HOOKS, {"simple": {m.Field.OciHooks: "10-a,20-b"}},
     'validation error: plugins "10-a,20-b" attempted restricted OCI hook injection'),
    ({"reject_unconfined_seccomp_adjustment": True}, {"simple": SECCOMP},
     "validation error: plugin 10-a attempted restricted  unconfined seccomp policy adjustment"),
    ({"reject_unconfined_seccomp_adjustment": True}, {"simple": SECCOMP, "profile": "unconfined"},
     "validation error: plugin 10-a attempted restricted  unconfined seccomp policy adjustment"),
    ({"reject_runtime_default_seccomp_adjustment": True}, {"simple": SECCOMP, "profile": "runtime_default"},
     "validation error: plugin 10-a attempted restricted runtime default seccomp policy adjustment"),
    ({"reject_custom_seccomp_adjustment": True}, {"simple": SECCOMP, "profile": "custom"},
     "validation error: plugin 10-a attempted restricted  custom seccomp policy adjustment"),
    (NAMESPACES, {"compound": {m.Field.Namespace: {"pid": "10-a", "ipc": "20-b"}}},
     f'{BY_PLUGINS} "20-b" (namespace "ipc"), "10-a" (namespace "pid")'),
    (SYSCTL, {"compound": {m.Field.Sysctl: {"b": "10-a", "a": "20-b"}}, "sysctl": ("a", "b", "unowned")},
     "validation error: attempted restricted sysctl adjustment by plugin(s) 20-b, 10-a"),
    (NEEDS_X, {}, 'validation error: required plugin "x" not present'),
    ({"required_plugins": ("x", "a", "20-y")}, {}, 'validation error: required plugins "x,20-y" not present'),
    ({}, {"annotations": {REQUIRED: "[x, y]"}}, 'validation error: required plugins "x,y" not present'),
    ({}, {"annotations": {REQUIRED + "/container.web": '["x"]', REQUIRED: "[a]"}},
     'validation error: required plugin "x" not present'),
    (NEEDS_X, {"annotations": {REQUIRED: "- y"}}, 'validation error: required plugins "x,y" not present'),
    (NEEDS_X, {"annotations": {TOLERATE: "true"}}, 'validation error: required plugin "x" not present'),
    (TOLERATING, {"annotations": {TOLERATE: "F"}}, 'validation error: required plugin "x" not present'),
    (TOLERATING, {"annotations": {TOLERATE: "yes"}},
     f'invalid {TOLERATE} annotation "yes": strconv.ParseBool: parsing "yes": invalid syntax'),
    ({}, {"annotations": {REQUIRED: "a"}},
     f'invalid {REQUIRED} annotation "a": expected a list of plugin names, not "a"'),
]  # fmt: skip


@pytest.mark.parametrize(("config", "parts", "text"), REFUSED)
def test_a_refusal_has_the_message_of_the_reference(config, parts, text):
    assert verdict(config, **parts) == text


ACCEPTED = {
    "everything, without a rule": ({}, {"simple": {m.Field.OciHooks: "a", m.Field.SeccompPolicy: "a"}}),
    "hooks of nobody": (HOOKS, {}),
    "hooks, when nothing was adjusted": (HOOKS, {"simple": {m.Field.OciHooks: "a"}, "adjust": False}),
    "a seccomp policy over another kind of profile":
        ({"reject_unconfined_seccomp_adjustment": True}, {"simple": SECCOMP, "profile": "runtime_default"}),
    "namespaces of nobody": (NAMESPACES, {"compound": {m.Field.Namespace: {}}}),
    "a sysctl that nobody owns": (SYSCTL, {"sysctl": ("a",)}),
    "a sysctl with an owner, without a Linux part":
        (SYSCTL, {"compound": {m.Field.Sysctl: {"a": "10-a"}}, "linux": False}),
    "a required plugin by its name": ({"required_plugins": ("a",)}, {}),
    "a required plugin by index and name": ({"required_plugins": ("10-a",)}, {}),
    "a missing plugin where that is tolerated": (TOLERATING, {"annotations": {TOLERATE + "/container.web": "true"}}),
    "an empty list of annotated plugins": ({}, {"annotations": {REQUIRED: "[]"}}),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_valid_adjustments_are_accepted(case):
    config, parts = ACCEPTED[case]
    assert verdict(config, **parts) is None


def test_the_first_failed_check_is_reported():
    config = {**SYSCTL, **NEEDS_X, **NAMESPACES, **HOOKS}
    everything = {
        "simple": {m.Field.OciHooks: "10-a"},
        "compound": {m.Field.Namespace: {"pid": "10-a"}, m.Field.Sysctl: {"a": "10-a"}},
        "sysctl": ("a",),
    }
    order = []
    for rule in ("hook", "namespace", "required plugin", "sysctl"):
        order.append(rule in verdict(config, **everything))
        config.pop(next(iter([k for k in config if rule.split()[0] in k])))
    assert order == [True, True, True, True]


def test_owners_of_other_containers_are_ignored():
    message = request()
    message.owners.owners["c2"].simple[m.Field.OciHooks] = "10-a"
    assert DefaultValidator(ValidatorConfig(**HOOKS)).validate(message) is None


def test_a_verdict_does_not_change_the_request():
    message = request(plugins=())
    del message.owners.owners["c1"]
    before = message.SerializeToString(deterministic=True)
    DefaultValidator(ValidatorConfig(**HOOKS, **NAMESPACES, **SYSCTL)).validate(message)
    assert message.SerializeToString(deterministic=True) == before, "looking up an owner added one"


SPELLINGS = [
    ("enable", "enable", "nri_enable_default_validator"),
    ("rejectOCIHookAdjustment", "reject_oci_hook_adjustment", "nri_validator_reject_oci_hook_adjustment"),
    ("rejectRuntimeDefaultSeccompAdjustment", "reject_runtime_default_seccomp_adjustment",
     "nri_validator_reject_runtime_default_seccomp_adjustment"),
    ("rejectUnconfinedSeccompAdjustment", "reject_unconfined_seccomp_adjustment",
     "nri_validator_reject_unconfined_seccomp_adjustment"),
    ("rejectCustomSeccompAdjustment", "reject_custom_seccomp_adjustment",
     "nri_validator_reject_custom_seccomp_adjustment"),
    ("rejectNamespaceAdjustment", "reject_namespace_adjustment", "nri_validator_reject_namespace_adjustment"),
    ("rejectSysctlAdjustment", "reject_sysctl_adjustment", "nri_validator_reject_sysctl_adjustment"),
]  # fmt: skip


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_every_switch_is_accepted_in_all_three_spellings(spellings):
    for key in spellings:
        assert getattr(ValidatorConfig.from_dict({key: True}), spellings[1]), key


@pytest.mark.parametrize("key", ["requiredPlugins", "required_plugins", "nri_validator_required_plugins"])
def test_required_plugins_are_accepted_in_all_three_spellings(key):
    assert ValidatorConfig.from_dict({key: ["a", "10-b"]}).required_plugins == ("a", "10-b")


@pytest.mark.parametrize(
    "key",
    [
        "tolerateMissingPluginsAnnotation",
        "tolerate_missing_plugins_annotation",
        "nri_validator_tolerate_missing_plugins_annotation",
    ],
)
def test_the_toleration_is_accepted_in_all_three_spellings(key):
    assert ValidatorConfig.from_dict({key: "k"}).tolerate_missing_plugins_annotation == "k"


def test_all_mistakes_of_a_configuration_are_reported_with_suggestions():
    with pytest.raises(ConfigError) as caught:
        ValidatorConfig.from_dict({"rejectHookAdjustment": True, "enable": 1, "requiredPlugins": "a"}, "nri.yaml")
    assert [str(error) for error in single_errors(caught.value)] == [
        "nri.yaml: enable: expected true or false, not 1 (write true or false)",
        'nri.yaml: requiredPlugins: expected a list, not "a"',
        'nri.yaml: rejectHookAdjustment: unknown key (did you mean "rejectOCIHookAdjustment"?)',
    ]


def test_a_failed_validator_is_an_error_with_its_name():
    assert failure("00-v", "rpc error") == "validator plugin 00-v failed: rpc error"


def test_an_oversized_annotation_is_refused_without_parsing() -> None:
    text = "[" + "a," * 125_000 + "a]"
    error = verdict({}, annotations={REQUIRED: text})
    assert error is not None
    assert error.endswith(": 250003 characters, at most 16384")
    assert len(error) < 2000, "the annotation is in the error as a whole"


def test_an_annotation_is_parsed_once_for_all_creations(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    parse = default_validator.parse_text
    monkeypatch.setattr(default_validator, "parse_text", lambda source: read.append(source) or parse(source))
    for _ in range(3):
        assert verdict({}, annotations={REQUIRED: "[read-once]"}) is not None
    assert len(read) == 1
