"""Defaults and errors of NodeSLO; recorded results of the original are compared elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from nri.agent.koordinator import batch_resource, core_sched, group_identity
from nri.agent.koordinator.block_io import ANNOTATION_BLOCK_IO, DISKS, POD_DISKS, DiskLimits
from nri.agent.koordinator.cpu_burst import ANNOTATION_BURST, BURST, POD_BURST, BurstConfig
from nri.agent.koordinator.documents import DEFAULTS, OFF, NodeSlo, merged, violations
from nri.agent.koordinator.memory_qos import ANNOTATION_MEMORY, MEMORY, POD_MEMORY
from nri.agent.koordinator.profile import PARTS, POD_ANNOTATIONS, PROFILE
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.thresholds import THRESHOLD


def test_a_spec_overrides_the_defaults_and_neither_is_modified() -> None:
    source = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": ""}}
    actual = merged(source)
    assert actual["resourceUsedThresholdWithBE"] == {**DEFAULTS["resourceUsedThresholdWithBE"], "enable": True}
    actual["resourceUsedThresholdWithBE"]["enable"] = False
    assert source["resourceUsedThresholdWithBE"]["enable"] and merged(None) == merged({})


def test_a_disabled_class_has_no_values_and_the_system_class_keeps_its_own() -> None:
    parts = {"memoryQOS": {"lowLimitPercent": 7}}
    actual = merged({"resourceQOSStrategy": {"lsClass": parts, "systemClass": parts}})["resourceQOSStrategy"]
    assert actual["lsClass"]["memoryQOS"] == OFF["memoryQOS"]
    assert actual["systemClass"]["memoryQOS"]["lowLimitPercent"] == 7


@pytest.mark.parametrize("bad", [[], 5, {"lsClass": 5}, {"lsClass": {"memoryQOS": []}}])
def test_merging_keeps_values_of_a_wrong_form_for_later_checks(bad: Any) -> None:
    assert merged({"resourceQOSStrategy": bad})["resourceQOSStrategy"] is not None


@pytest.mark.parametrize(
    ("part", "source", "named"),
    [
        (
            "resourceUsedThresholdWithBE",
            {"memoryEvictThresholdPercent": 101, "cpuEvictTimeWindowSeconds": 0},
            [("cpuEvictTimeWindowSeconds", "gt"), ("memoryEvictThresholdPercent", "max")],
        ),
        ("cpuBurstStrategy", {"cpuBurstPercent": 0, "cfsQuotaBurstPeriodSeconds": -1}, [("cpuBurstPercent", "min")]),
        ("systemStrategy", {"watermarkScaleFactor": "401", "memcgReapBackGround": True, "other": 9}, []),
        ("systemStrategy", None, []),
        ("resourceUsedThresholdWithBE", {"cpuEvictLowerPercent": 60, "cpuEvictThresholdPercent": 70}, []),
        ("resourceUsedThresholdWithBE", {"cpuEvictLowerPercent": 60}, [("cpuEvictLowerPercent", "ltfield")]),
        ("resourceUsedThresholdWithBE", {"cpuEvictThresholdPercent": 60}, [("cpuEvictThresholdPercent", "gtfield")]),
        (
            "resourceQOSStrategy",
            {
                "lsClass": {"resctrlQOS": {"catRangeStartPercent": 50, "catRangeEndPercent": 50}, "cpuQOS": 5},
                "beClass": [{"cpuQOS": {"groupIdentity": 9}}],
            },
            [
                ("lsClass.resctrlQOS.catRangeEndPercent", "gtfield"),
                ("lsClass.resctrlQOS.catRangeStartPercent", "ltfield"),
            ],
        ),
    ],
    ids=["most", "least", "no numbers", "nothing", "pair", "lower alone", "upper alone", "classes"],
)
def test_out_of_range_numbers_and_inverted_pairs_are_reported(
    part: str, source: dict[str, Any] | None, named: list[tuple[str, str]]
) -> None:
    assert violations(part, source) == named


def loaded_spec(**spec: Any) -> NodeSlo:
    node_slo = NodeSlo(PARTS)
    node_slo.take({"spec": spec})
    return node_slo


def test_everything_is_disabled_without_nodeslo_values() -> None:
    for strategies in (
        NodeSlo(PARTS),
        loaded_spec(),
        loaded_spec(resourceUsedThresholdWithBE=None, resourceQOSStrategy=None),
    ):
        assert (strategies[THRESHOLD].enabled, strategies[BURST].policy) == (False, "none")
        assert not any(strategy["enable"] for strategy in strategies[MEMORY].values())
        assert strategies[DISKS] == ()


def test_a_nodeslo_that_only_enables_a_strategy_has_the_defaults() -> None:
    created = loaded_spec(resourceUsedThresholdWithBE={"enable": True}, cpuBurstStrategy={"policy": "auto"})
    assert created[THRESHOLD].keys == {**DEFAULTS["resourceUsedThresholdWithBE"], "enable": True}
    assert created[BURST] == BurstConfig("auto")
    on = loaded_spec(resourceQOSStrategy={"beClass": {"memoryQOS": {"enable": True}}})[MEMORY]["beClass"]
    assert (on["enable"], on["wmarkRatio"], on["wmarkMinAdj"]) == (True, 95, 50)


def test_an_unreadable_part_keeps_its_last_good_value_and_others_change() -> None:
    created = loaded_spec(resourceUsedThresholdWithBE={"enable": True, "cpuSuppressThresholdPercent": 50})
    created.take({"spec": {"resourceUsedThresholdWithBE": {"enable": 5}, "cpuBurstStrategy": {"policy": "auto"}}})
    assert (created[THRESHOLD].suppress_percent, created[BURST].policy) == (50, "auto")
    assert created.errors == ["resourceUsedThresholdWithBE.enable: 5 is not true or false"]
    created.take(None)
    assert (created[THRESHOLD].enabled, created[BURST].policy, created.errors) == (False, "none", [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 101}}, "is not between 0 and 100"),
        ({"resourceUsedThresholdWithBE": {"cpuEvictTimeWindowSeconds": 0}}, "is not between 1 and 86400"),
        ({"cpuBurstStrategy": {"policy": "much"}}, "unknown policy 'much'"),
        ({"cpuBurstStrategy": {"cfsQuotaBurstPercent": 50}}, "50 is not between 100 and 10000"),
        ({"cpuBurstStrategy": {"cfsQuotaBurstPeriodSeconds": -2}}, "-2 is not between -1 and 86400"),
        ({"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": "yes"}}}}, "memoryQOS.enable"),
        ({"resourceQOSStrategy": {"beClass": {"blkioQOS": {"enable": True, "blocks": 5}}}}, "blkioQOS.blocks"),
    ],
)
def test_numbers_out_of_range_are_refused(spec: dict[str, Any], error: str) -> None:
    (message,) = loaded_spec(**spec).errors
    assert error in message


class PodValues(NamedTuple):
    """The values of a pod."""

    burst: BurstConfig
    memory: Mapping[str, Any]
    disks: tuple[DiskLimits, ...]


def of(annotations: dict[str, str], **spec: Any) -> tuple[PodValues, list[str]]:
    """The values of a pod, and the errors of annotations that cannot be read, which have the node's."""
    rules, errors, values = loaded_spec(**spec), [], []
    for annotation in (POD_BURST, POD_MEMORY, POD_DISKS):
        try:
            values.append(annotation.value(rules, "LS", annotations))
        except ValueError as error:
            errors.append(str(error))
            values.append(annotation.node_value(rules, "LS"))
    return PodValues(*values), errors


def test_a_pods_annotation_overrides_the_nodes_values() -> None:
    node = {"resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 10}}}}
    actual, errors = of({ANNOTATION_BURST: '{"policy": "auto"}', ANNOTATION_MEMORY: '{"lowLimitPercent": 30}'}, **node)
    assert (actual.burst, errors) == (BurstConfig("auto"), [])
    assert (actual.memory["enable"], actual.memory["minLimitPercent"], actual.memory["lowLimitPercent"]) == (
        True,
        10,
        30,
    )
    assert of({ANNOTATION_MEMORY: '{"policy": "none"}'}, **node)[0].memory == OFF["memoryQOS"]
    auto = of({ANNOTATION_MEMORY: '{"policy": "auto", "wmarkRatio": 80}'})[0].memory
    assert (auto["wmarkRatio"], auto["wmarkMinAdj"]) == (80, -25)
    disks = '{"blocks": [{"name": "/dev/sda", "ioCfg": {"readBPS": 5}}]}'
    assert [disk.read_bps for disk in of({ANNOTATION_BLOCK_IO: disks})[0].disks] == [5]


@pytest.mark.parametrize(
    "bad", ["{", "[]", '{"policy": 5}', "5", '{"policy": "what"}', "x" * 10_000, '{"a":' * 100_000]
)
def test_an_invalid_annotation_is_reported_and_the_nodes_values_apply(bad: str) -> None:
    source = {ANNOTATION_BURST: bad, ANNOTATION_MEMORY: bad, ANNOTATION_BLOCK_IO: bad}
    actual, errors = of(source, cpuBurstStrategy={"policy": "cpuBurstOnly"})
    assert (actual.burst.policy, actual.memory, actual.disks) == ("cpuBurstOnly", OFF["memoryQOS"], ())
    message = {error.split(":")[0] for error in errors}
    assert message >= {f"annotation {ANNOTATION_BURST}", f"annotation {ANNOTATION_MEMORY}"}
    assert all(len(error) < 400 for error in errors)


def test_every_annotation_names_an_existing_strategy() -> None:
    assert {annotation.strategy for annotation in POD_ANNOTATIONS} <= {row.name for row in PROFILE.strategies}


def slo(policy: str | None = None, **classes: dict[str, Any]) -> dict[str, Any]:
    strategy: dict[str, Any] = {f"{name}Class": {"cpuQOS": cpu} for name, cpu in classes.items()}
    if policy is not None:
        strategy["policies"] = {"cpuPolicy": policy}
    return {"resourceQOSStrategy": strategy}


ON = {"enable": True, "groupIdentity": 2}
BATCH = {"enable": True, "groupIdentity": -1}
HOOKS_OFF = {"enable": False, "groupIdentity": 2}


@pytest.mark.parametrize("policy", [None, "", "groupIdentity"])
def test_group_identity_is_the_default_policy(policy: str | None) -> None:
    rule = group_identity.rule_of(slo(policy, lsr=ON, ls=ON, be=BATCH))
    assert rule.enabled
    assert rule.pods == {"LSE": 2, "LSR": 2, "LS": 2, "BE": -1}
    assert rule.folders == {"Guaranteed": 0, "Burstable": 2, "BestEffort": -1}
    assert rule.kube_pods == {"Guaranteed": 2, "Burstable": 2, "BestEffort": -1}


def test_another_policy_or_disabled_classes_give_zeros() -> None:
    for spec in (slo("coreSched", lsr=ON, ls=ON, be=BATCH), slo(lsr=HOOKS_OFF, ls=HOOKS_OFF, be=HOOKS_OFF), {}, None):
        rule = group_identity.rule_of(spec)
        assert not rule.enabled
        assert not any({**rule.pods, **rule.kube_pods, **rule.folders}.values())


def test_guaranteed_pods_follow_lsr_and_otherwise_ls() -> None:
    low = {"enable": True, "groupIdentity": 1}
    assert group_identity.rule_of(slo(lsr=low, ls=ON)).kube_pods["Guaranteed"] == 1
    assert group_identity.rule_of(slo(lsr=HOOKS_OFF, ls=ON)).kube_pods["Guaranteed"] == 2


def test_a_missing_class_is_disabled_and_a_class_without_a_value_has_the_default() -> None:
    """`absent_classes_are_off`."""
    spec = slo(ls={"enable": True}, be={"enable": True})
    assert group_identity.rule_of(spec).pods == {"LSE": 0, "LSR": 0, "LS": 2, "BE": -1}
    assert core_sched.rule_of(slo("coreSched", be={"enable": True})).pods["LS"].enabled is False
    for parse in (group_identity.rule_of, core_sched.rule_of):
        with pytest.raises(ValueError, match="lsrClass"):
            parse(spec, Quirks.REFERENCE)


def test_core_scheduling_requires_its_policy() -> None:
    classes = {
        "lsr": {**ON, "coreExpeller": True},
        "ls": {"enable": True},
        "be": {"enable": True, "schedIdle": 1},
    }
    rule = core_sched.rule_of(slo("coreSched", **classes))
    assert rule.enabled
    assert rule.is_configured
    assert (rule.pods["LS"].expeller, rule.pods["BE"].expeller, rule.pods["BE"].cpu_idle) == (True, False, True)
    assert not core_sched.rule_of(slo(None, **classes)).enabled


@pytest.mark.parametrize(
    ("threshold", "has"),
    [
        ({}, True),
        ({"enable": True, "cpuSuppressPolicy": "cfsQuota"}, False),
        ({"enable": False, "cpuSuppressPolicy": "cfsQuota"}, True),
        ({"enable": True, "cpuSuppressPolicy": "cpuset"}, True),
    ],
)
def test_batch_pods_have_no_quota_while_their_cgroup_has_one(threshold: dict[str, Any], has: bool) -> None:
    assert batch_resource.has_cfs_quota({"resourceUsedThresholdWithBE": threshold}) is has


@pytest.mark.parametrize("spec", [[], "x", {"resourceQOSStrategy": []}, slo(ls={"enable": "yes"}), slo(policy=5)])  # type: ignore[arg-type]
def test_an_unreadable_spec_is_refused(spec: Any) -> None:
    for parse in (group_identity.rule_of, core_sched.rule_of, batch_resource.has_cfs_quota):
        with pytest.raises(ValueError, match=r"^spec"):
            parse(spec)
