"""GroupIdentity: the identity (`cpu.bvt_warp_ns`) by which Anolis' scheduler lets latency-sensitive pods go first.

From NodeSLO, and for LS pods from the annotation `koordinator.sh/cpuQOS`, which wins. Identities exclude core
scheduling. On a kernel without the file the knob is unsupported, or substituted by its writer. Next:
`nri.agent.koordinator.cpuset`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import LS, qos_class
from nri.agent.koordinator.node_slo import GroupIdentityRule
from nri.policies.changes import Changes, Decision, HookError
from nri.policies.contexts import HostApplicationContext, KubeQosContext, PodContext
from nri.policies.paths import kube_class_of

__all__ = ["NAME", "host_application", "in_effect", "kube_class", "pod"]

NAME: Final = "GroupIdentity"


def in_effect(rule: GroupIdentityRule | None, supported: bool, sysctl: bool | None) -> GroupIdentityRule | None:
    """Return the rule if there is anything to do under it.

    Args:
        rule: what NodeSLO says, None while it has not been read.
        supported: whether the kernel has the cgroup file or the sysctl.
        sysctl: whether the sysctl is on, None if the kernel has none and identities always hold.
    """
    if not supported or rule is None or not (rule.enabled or sysctl is None or sysctl):
        return None
    return rule


def pod(context: PodContext, rule: GroupIdentityRule) -> Decision:
    """Decide a pod's identity; its annotation counts for LS alone. Raises HookError for one that cannot be read."""
    try:
        own = pod_annotations.cpu_qos(context.annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    qos = qos_class(context.labels)
    if own is not None and qos == LS:
        if not own.get("enable", False):
            return Decision(Changes({"cpu.bvt": 0}), "the pod's annotation switches its identity off")
        if "groupIdentity" in own:
            return Decision(Changes({"cpu.bvt": own["groupIdentity"]}), "the pod's annotation gives its identity")
    kube = kube_class_of(context.cgroup_parent)
    return Decision(Changes({"cpu.bvt": rule.of_pod(qos, kube)}), f"NodeSLO, for {qos or kube} pods")


def kube_class(context: KubeQosContext, rule: GroupIdentityRule) -> Decision:
    """Decide the identity of a kube-QoS folder."""
    return Decision(
        Changes({"cpu.bvt": rule.folders.get(context.kube_class, 0)}), f"NodeSLO, for the {context.kube_class} folder"
    )


def host_application(context: HostApplicationContext, rule: GroupIdentityRule) -> Decision:
    """Decide the identity of a host application, by its class."""
    return Decision(
        Changes({"cpu.bvt": rule.pods.get(context.qos, 0)}), f"NodeSLO, for {context.qos or 'classless'} programs"
    )
