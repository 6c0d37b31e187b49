"""The hook CoreSched: core scheduling groups of pods that can share the threads of a core, and `cpu.idle`.

A pod belongs to the group of its label, or to its own group (policy `exclusive`). For classes that expel others, the
name of the group ends with `-expeller`. Both kinds of names contain `/`, which a label cannot contain. Core scheduling
excludes group identities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.agent.hooks import FOLDER, Hook
from nri.agent.koordinator.documents import SLO, cpu_of, read_spec
from nri.agent.koordinator.names import BE, LABEL_QOS, LS, LSE, LSR, qos_class
from nri.agent.koordinator.node import CoreSchedClass, CoreSchedRule
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Changes, Decision, KubeQosFolder
from nri.agent.ownership import Level, OwnedKnob
from nri.agent.writing.cookie_groups import Membership

NAME: Final = "CoreSched"
EXPELLER: Final = "-expeller"
LABEL_CORE_GROUP: Final = "koordinator.sh/core-sched-group-id"
LABEL_CORE_POLICY: Final = "koordinator.sh/core-sched-policy"
_EXPELLERS = {"lsrClass": True, "lsClass": True, "beClass": False}


def rule_of(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> CoreSchedRule:
    """Return the rule for core scheduling. All classes are off unless NodeSLO's CPU policy is `coreSched`."""
    strategy = read_spec(spec).get("resourceQOSStrategy", {})
    chosen = strategy.get("policies", {}).get("cpuPolicy", "") == "coreSched"
    classes: dict[str, CoreSchedClass] = {}
    for name, default in _EXPELLERS.items():
        cpu = cpu_of(strategy, name, quirks)
        enabled = chosen and cpu.get("enable", False)
        expels = cpu.get("coreExpeller", default and enabled)
        classes[name] = CoreSchedClass(enabled, chosen and expels, chosen and cpu.get("schedIdle", 0) == 1)
    lsr, ls, be = classes["lsrClass"], classes["lsClass"], classes["beClass"]
    return CoreSchedRule(
        enabled=any(qos_class.enabled for qos_class in classes.values()),
        pods={LSE: lsr, LSR: lsr, LS: ls, BE: be},
        kube_pods={GUARANTEED: lsr if lsr.enabled else ls, BURSTABLE: ls, BEST_EFFORT: be},
    )


def membership(
    labels: Mapping[str, str], kube_class: str, uid: str, rule: CoreSchedRule, quirks: Quirks = Quirks.DEFAULT
) -> Membership:
    """Return a pod's group. Policy `none` disables core scheduling for the pod."""
    class_rule = rule.of_pod(qos_class(labels), kube_class)
    policy = labels.get(LABEL_CORE_POLICY, "")
    group = labels.get(LABEL_CORE_GROUP, "")
    mark = "/" if quirks.groups_of_labels_apart else ""  # a label value cannot contain "/"
    if policy == "exclusive":
        group = f"pod{mark}{uid}" if mark else uid
    elif mark:
        group = group.replace(mark, "_")  # some sources of pods do not check labels
    return Membership(class_rule.enabled and policy != "none", group + (mark + EXPELLER if class_rule.expeller else ""))


def kube_class(context: KubeQosFolder, rule: CoreSchedRule) -> Decision:
    """Decide `cpu.idle` of a Kubernetes QoS class. Without NodeSLO there is no change."""
    if not rule.is_configured:
        return Decision()
    class_rule = rule.kube_pods.get(context.kube_class)
    idle = class_rule is not None and class_rule.cpu_idle
    return Decision(Changes({"cpu.idle": int(idle)}), f"NodeSLO, for the {context.kube_class} folder")


HOOK: Final = Hook(
    NAME,
    False,
    (SLO, "pods"),
    (LABEL_QOS, LABEL_CORE_GROUP, LABEL_CORE_POLICY),
    {FOLDER: lambda context, node: kube_class(context, node.core)},
    (
        OwnedKnob(Level.KUBE_QOS, "cpu.idle"),
        OwnedKnob(Level.SANDBOX, "core_sched.cookie"),
        OwnedKnob(Level.CONTAINER, "core_sched.cookie"),
    ),
    document_keys=((SLO, "resourceQOSStrategy.policies.cpuPolicy"), (SLO, "resourceQOSStrategy.{}.cpuQOS")),
)
