"""The walk over all pods that most refreshes are.

One pod or container that cannot be decided is passed over with its error, and the others go on. Next:
`nri.policies.koordinator.refresh.quotas`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nri.policies.changes import Decision, HookError
from nri.policies.contexts import ContainerContext, PodContext
from nri.policies.koordinator.names import LSR, NONE, qos_class
from nri.policies.koordinator.pod_annotations import own_cpuset
from nri.policies.writes import Write, pod_writes, writes

__all__ = ["Refresh", "reconciled_class"]


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
