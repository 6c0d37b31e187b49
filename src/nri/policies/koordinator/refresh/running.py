"""A pod as standalone mode sees it, and the walk over all pods that most refreshes are.

One pod or container that cannot be decided is passed over with its error, and the others go on. Next:
`nri.policies.koordinator.refresh.quotas`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nri.policies.koordinator import paths
from nri.policies.koordinator.contexts import ContainerContext, PodContext
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.names import LSR, NONE, qos_class
from nri.policies.koordinator.pod_annotations import own_cpuset
from nri.policies.koordinator.values import Decision, HookError
from nri.policies.koordinator.writes import Write, container_writes, pod_writes

__all__ = ["Refresh", "RunningPod", "reconciled_class"]


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod of the API, with its folder, and the id of its pause container if that is known."""

    pod: Mapping[str, Any]
    folder: str
    sandbox_id: str = ""
    driver: str = paths.SYSTEMD
    #: The context, once it was asked for: each container's has it, and it takes a look at all of them.
    _context: list[PodContext] = field(default_factory=list, init=False, repr=False, compare=False)

    def context(self) -> PodContext:
        """Return the pod's context."""
        if not self._context:
            self._context.append(manifest.pod_context(self.pod, self.folder))
        return self._context[0]

    def container(self, name: str) -> ContainerContext:
        """Return a container's context."""
        return manifest.container_context(self.pod, self.folder, name, self.driver, self.context())

    def sandbox(self) -> ContainerContext:
        """Return the pause container's context."""
        return manifest.sandbox_context(self.pod, self.folder, self.sandbox_id, self.driver, self.context())

    def main_containers(self) -> Iterator[ContainerContext]:
        """Yield the containers that have a status, without those that initialize the pod."""
        for status in (self.pod.get("status") or {}).get("containerStatuses") or ():
            yield self.container(status.get("name", ""))


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
        self.containers += container_writes(context.cgroup_parent, decision.changes, decision.reason)
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
