"""Rules from NodeSLO: values, defaults, and what is refused."""

from typing import Any

import pytest

from nri.agent.koordinator import batch_resource, core_sched, group_identity
from nri.agent.koordinator.quirks import Quirks


def slo(policy: str | None = None, **classes: dict[str, Any]) -> dict[str, Any]:
    strategy: dict[str, Any] = {f"{name}Class": {"cpuQOS": cpu} for name, cpu in classes.items()}
    if policy is not None:
        strategy["policies"] = {"cpuPolicy": policy}
    return {"resourceQOSStrategy": strategy}


ON = {"enable": True, "groupIdentity": 2}


BATCH = {"enable": True, "groupIdentity": -1}


OFF = {"enable": False, "groupIdentity": 2}


@pytest.mark.parametrize("policy", [None, "", "groupIdentity"])
def test_group_identity_is_the_default_policy(policy: str | None) -> None:
    rule = group_identity.rule_of(slo(policy, lsr=ON, ls=ON, be=BATCH))
    assert rule.enabled
    assert rule.pods == {"LSE": 2, "LSR": 2, "LS": 2, "BE": -1}
    assert rule.folders == {"Guaranteed": 0, "Burstable": 2, "BestEffort": -1}
    assert rule.kube_pods == {"Guaranteed": 2, "Burstable": 2, "BestEffort": -1}


def test_another_policy_or_classes_that_are_off_are_zeros() -> None:
    for spec in (slo("coreSched", lsr=ON, ls=ON, be=BATCH), slo(lsr=OFF, ls=OFF, be=OFF), {}, None):
        rule = group_identity.rule_of(spec)
        assert not rule.enabled
        assert not any({**rule.pods, **rule.kube_pods, **rule.folders}.values())


def test_guaranteed_pods_follow_lsr_and_else_ls() -> None:
    low = {"enable": True, "groupIdentity": 1}
    assert group_identity.rule_of(slo(lsr=low, ls=ON)).kube_pods["Guaranteed"] == 1
    assert group_identity.rule_of(slo(lsr=OFF, ls=ON)).kube_pods["Guaranteed"] == 2


def test_a_class_that_is_not_mentioned_is_off_and_one_without_a_value_has_the_default() -> None:
    """`absent_classes_are_off`."""
    spec = slo(ls={"enable": True}, be={"enable": True})
    assert group_identity.rule_of(spec).pods == {"LSE": 0, "LSR": 0, "LS": 2, "BE": -1}
    assert core_sched.rule_of(slo("coreSched", be={"enable": True})).pods["LS"].enabled is False
    for parse in (group_identity.rule_of, core_sched.rule_of):
        with pytest.raises(ValueError, match="lsrClass"):
            parse(spec, Quirks.REFERENCE)


def test_core_scheduling_needs_its_policy() -> None:
    classes = {
        "lsr": {**ON, "coreExpeller": True},
        "ls": {"enable": True},
        "be": {"enable": True, "schedIdle": 1},
    }
    rule = core_sched.rule_of(slo("coreSched", **classes))
    assert rule.enabled
    assert rule.known
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
def test_batch_pods_have_no_quota_while_their_folder_has_one(threshold: dict[str, Any], has: bool) -> None:
    assert batch_resource.has_cfs_quota({"resourceUsedThresholdWithBE": threshold}) is has


@pytest.mark.parametrize("spec", [[], "x", {"resourceQOSStrategy": []}, slo(ls={"enable": "yes"}), slo(policy=5)])  # type: ignore[arg-type]
def test_a_spec_that_cannot_be_read_is_refused(spec: Any) -> None:
    for parse in (group_identity.rule_of, core_sched.rule_of, batch_resource.has_cfs_quota):
        with pytest.raises(ValueError, match=r"^spec"):
            parse(spec)
