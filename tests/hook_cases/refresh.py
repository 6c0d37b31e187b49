"""The walk of Koordinator's reconcilers over all pods, with this project's hooks: its cases list pods by the dozen.

One pod or container that cannot be decided is passed over with its error, and the others go on. The agent asks its
hooks for each pod instead. Next: `tests.hook_cases.switches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nri.policies import manifest
from nri.policies.changes import Decision, HookError
from nri.policies.contexts import ContainerContext, PodContext
from nri.policies.koordinator.hooks import batch_resource, cpu_normalization, cpuset
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.names import BE, LS, LSR, NONE, qos_class
from nri.policies.koordinator.pod_annotations import own_cpuset
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.rules.node_topology import CpusetRule
from nri.policies.running import RunningPod
from nri.policies.writes import QUOTA, Write, pod_writes, writes

__all__ = ["Refresh", "batch_quotas", "cpus", "normalized_quotas", "reconciled_class"]


@dataclass(slots=True)
class Refresh:
    """The outcome: pods' writes and containers' writes, to be applied in level order, and what could not be decided."""

    pods: list[Write] = field(default_factory=list)
    containers: list[Write] = field(default_factory=list)
    errors: list[HookError] = field(default_factory=list)

    def pod(self, context: PodContext, decide: Callable[[PodContext], Decision]) -> bool:
        """Decide for a pod; return whether that could be done."""
        try:
            decision = decide(context)
        except HookError as error:
            self.errors.append(error)
            return False
        self.pods += pod_writes(context.cgroup_parent, decision.changes, decision.reason)
        return True

    def container(self, context: ContainerContext, decide: Callable[[ContainerContext], Decision]) -> Decision | None:
        """Decide for a container; None if that could not be done."""
        try:
            decision = decide(context)
        except HookError as error:
            self.errors.append(error)
            return None
        self.containers += writes(context.cgroup_parent, decision.changes, decision.reason)
        return decision

    @property
    def writes(self) -> list[Write]:
        """All writes, pods first."""
        return self.pods + self.containers


def reconciled_class(pod: PodContext) -> str:
    """Return a pod's class as reconcilers sort it: one without a class but with CPUs of its own counts as LSR."""
    qos = qos_class(pod.labels)
    if qos != NONE:
        return qos
    try:
        return LSR if own_cpuset(pod.annotations) else NONE
    except ValueError:
        return NONE


def batch_quotas(pods: Iterable[RunningPod], rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Refresh:
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


def normalized_quotas(pods: Iterable[RunningPod], ratio: float, quirks: Quirks = Quirks.DEFAULT) -> Refresh:
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


def cpus(
    pods: Iterable[RunningPod], rule: CpusetRule | None, quirks: Quirks = Quirks.DEFAULT, *, batch_pools: bool = False
) -> Refresh:
    """Return the CPUs of all containers. A pod whose annotation cannot be read keeps what it has."""
    refresh = Refresh()
    for pod in pods:
        names = () if manifest.ignored(pod.pod) else manifest.containers_of(pod.pod)
        for context in (*map(pod.container, names), pod.sandbox()):
            refresh.container(context, lambda each: cpuset.container_cpus(each, rule, quirks, batch_pools=batch_pools))
    return refresh
