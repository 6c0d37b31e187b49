"""CPUNormalization: a smaller CPU quota where CPUs are faster, so that a limit means the same on every node.

For pods that share CPUs (LS, or no class and no CPUs of their own), by the ratio in the node's annotation. It needs the
quota that was asked for. A ratio of at most 1 writes that quota, so that one which falls back undoes itself. Next:
`nri.agent.koordinator.gpu`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import LS, NONE, qos_class
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.ratio import NO_RATIO, scaled
from nri.policies.changes import Changes, Decision
from nri.policies.contexts import ContainerContext, PodContext, Resources

__all__ = ["NAME", "container", "pod", "shares_cpus"]

NAME: Final = "CPUNormalization"


def pod(context: PodContext, ratio: float = NO_RATIO, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a pod's quota; it is known in standalone mode alone."""
    return _decision(context.resources, context.labels, context.annotations, ratio, quirks)


def container(context: ContainerContext, ratio: float = NO_RATIO, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a container's quota."""
    return _decision(context.resources, context.pod.labels, context.pod.annotations, ratio, quirks)


def shares_cpus(labels: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Whether a pod's CPUs are shared ones. An annotation that cannot be read gives it none of its own."""
    qos = qos_class(labels)
    if qos != NONE:
        return qos == LS
    try:
        return not pod_annotations.own_cpuset(given)
    except ValueError:
        return True


def _decision(
    resources: Resources | None, labels: Mapping[str, str], given: Mapping[str, str], ratio: float, quirks: Quirks
) -> Decision:
    quota = None if resources is None else resources.cfs_quota
    if ratio == NO_RATIO or quota is None or quota <= 0 or not shares_cpus(labels, given):
        return Decision()
    return Decision(Changes({"cpu.cfs_quota": scaled(quota, ratio, quirks)}), f"the node's CPUs count {ratio:g} times")
