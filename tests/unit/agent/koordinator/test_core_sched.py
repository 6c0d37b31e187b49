"""A pod's core-scheduling group."""

import pytest

from nri.agent.koordinator import core_sched, names
from nri.agent.koordinator.node import CoreSchedClass, CoreSchedRule
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import KubeQosFolder

RULE = CoreSchedRule(
    True,
    {"LS": CoreSchedClass(True, expeller=True), "BE": CoreSchedClass(True, cpu_idle=True)},
    {"BestEffort": CoreSchedClass(True, cpu_idle=True)},
)


@pytest.mark.parametrize(
    ("labels", "rule", "enabled", "group"),
    [
        ({names.LABEL_QOS: "LS"}, RULE, True, "-expeller"),
        ({names.LABEL_QOS: "LS", core_sched.LABEL_CORE_GROUP: "g"}, RULE, True, "g-expeller"),
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_GROUP: "g"}, RULE, True, "g"),
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_POLICY: "exclusive"}, RULE, True, "uid"),
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_POLICY: "none"}, RULE, False, ""),
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_POLICY: "nonsense"}, RULE, True, ""),
        ({names.LABEL_QOS: "SYSTEM"}, RULE, False, ""),
        ({names.LABEL_QOS: "LS"}, CoreSchedRule(), False, ""),
    ],
)
def test_a_pods_group_is_named_by_its_label_or_its_uid(
    labels: dict[str, str], rule: CoreSchedRule, enabled: bool, group: str
) -> None:
    assert core_sched.membership(labels, "Guaranteed", "uid", rule, Quirks.REFERENCE) == (enabled, group)


@pytest.mark.parametrize(
    ("victim", "label"),
    [
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_POLICY: "exclusive"}, "uid"),
        ({names.LABEL_QOS: "BE", core_sched.LABEL_CORE_POLICY: "exclusive"}, "pod/uid"),
        ({names.LABEL_QOS: "LS", core_sched.LABEL_CORE_GROUP: "g"}, "g-expeller"),
        ({names.LABEL_QOS: "LS", core_sched.LABEL_CORE_GROUP: "g"}, "g/-expeller"),
        ({names.LABEL_QOS: "LS", core_sched.LABEL_CORE_POLICY: "exclusive"}, "uid-expeller"),
    ],
)
def test_no_label_can_name_the_group_of_an_exclusive_pod_or_an_expelling_class(
    victim: dict[str, str], label: str
) -> None:
    """`groups_of_labels_apart`."""
    other = {names.LABEL_QOS: "BE", core_sched.LABEL_CORE_GROUP: label}
    own_part, other_entries = (
        core_sched.membership(entry, "Burstable", uid, RULE) for entry, uid in ((victim, "uid"), (other, "x"))
    )
    assert own_part.enabled and other_entries.enabled and own_part.group != other_entries.group


def test_cgroups_are_idle_if_their_class_is_and_unchanged_without_a_rule() -> None:
    assert core_sched.kube_class(KubeQosFolder("BestEffort"), RULE).changes.knobs.get("cpu.idle") == 1
    assert core_sched.kube_class(KubeQosFolder("Burstable"), RULE).changes.knobs.get("cpu.idle") == 0
    assert not core_sched.kube_class(KubeQosFolder("BestEffort"), CoreSchedRule()).changes
