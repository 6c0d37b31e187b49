"""CoreSched: which pods share a core's threads, by core-scheduling cookies, and `cpu.idle` of the kube-QoS folders.

A pod belongs to the group of its label, or alone to itself (policy `exclusive`); classes that expel others have the
group's name with `-expeller` behind it. No label can name the group of an exclusive pod or of an expelling class, for
`/` is in both. A group's cookie is made on the first process and then shared with its
siblings, which `nri.policies.cookie_groups` remembers. Core scheduling excludes group identities.
Next: `nri.policies.cookie_groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nri.agent.koordinator.names import LABEL_CORE_GROUP, LABEL_CORE_POLICY, qos_class
from nri.agent.koordinator.node_slo import CoreSchedRule
from nri.agent.koordinator.quirks import Quirks
from nri.policies.changes import Changes, Decision
from nri.policies.contexts import KubeQosContext
from nri.policies.cookie_groups import Membership

__all__ = ["EXPELLER", "NAME", "kube_class", "membership"]

NAME: Final = "CoreSched"
EXPELLER: Final = "-expeller"


def membership(
    labels: Mapping[str, str], kube_class: str, uid: str, rule: CoreSchedRule, quirks: Quirks = Quirks.DEFAULT
) -> Membership:
    """Decide a pod's group; policy `none` keeps it out."""
    own = rule.of_pod(qos_class(labels), kube_class)
    policy = labels.get(LABEL_CORE_POLICY, "")
    group = labels.get(LABEL_CORE_GROUP, "")
    mark = "/" if quirks.groups_of_labels_apart else ""  # which no value of a label has
    if policy == "exclusive":
        group = f"pod{mark}{uid}" if mark else uid
    elif mark:
        group = group.replace(mark, "_")  # of a source that does not check labels
    return Membership(own.enabled and policy != "none", group + (mark + EXPELLER if own.expeller else ""))


def kube_class(context: KubeQosContext, rule: CoreSchedRule) -> Decision:
    """Decide `cpu.idle` of a kube-QoS folder; nothing while no NodeSLO has been read."""
    if not rule.known:
        return Decision()
    own = rule.kube_pods.get(context.kube_class)
    idle = own is not None and own.cpu_idle
    return Decision(Changes({"cpu.idle": int(idle)}), f"NodeSLO, for the {context.kube_class} folder")
