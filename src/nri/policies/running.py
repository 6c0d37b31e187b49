"""A running pod: the pod as Kubernetes lists it, its folder, and the contexts of its containers.

Next: `nri.policies.messages`, for pods as NRI reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nri.policies import manifest, paths
from nri.policies.contexts import ContainerContext, PodContext

__all__ = ["RunningPod"]


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
