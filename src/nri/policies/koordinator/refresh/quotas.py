"""CPU quotas of running pods when NodeSLO or the node's ratio has changed: batch pods, and pods that share CPUs.

Next: `nri.policies.koordinator.refresh.cpusets`.
"""

from __future__ import annotations

from collections.abc import Iterable

from nri.policies import manifest
from nri.policies.changes import Decision
from nri.policies.koordinator.hooks import batch_resource, cpu_normalization
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.names import BE, LS, NONE
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.refresh.running import Refresh, reconciled_class
from nri.policies.running import RunningPod
from nri.policies.writes import QUOTA

__all__ = ["batch", "normalized"]


def batch(pods: Iterable[RunningPod], rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Refresh:
    """Return the quotas of batch pods and their containers; nothing else of them depends on a rule."""
    refresh = Refresh()
    for pod in pods:
        context = pod.context()
        if reconciled_class(context) != BE:
            continue
        refresh.pod(context, lambda each: _quota_of(batch_resource.pod(each, rule, quirks)))
        for container in pod.main_containers():
            refresh.container(container, lambda each: _quota_of(batch_resource.container(each, rule, quirks)))
    return refresh


def normalized(pods: Iterable[RunningPod], ratio: float, quirks: Quirks = Quirks.DEFAULT) -> Refresh:
    """Return the quotas of pods that share CPUs, and of their containers."""
    refresh = Refresh()
    for pod in pods:
        context = pod.context()
        if reconciled_class(context) not in (LS, NONE) or not manifest.active(pod.pod):
            continue
        refresh.pod(context, lambda each: cpu_normalization.pod(each, ratio, quirks))
        for container in pod.main_containers():
            refresh.container(container, lambda each: cpu_normalization.container(each, ratio, quirks))
    return refresh


def _quota_of(decision: Decision) -> Decision:
    return Decision(decision.changes.only((QUOTA,)), decision.reason)
