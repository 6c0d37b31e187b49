"""The mirror: all pods and containers of the node, kept true from Synchronize and the events. For `self.state`.

Synchronize replaces everything; each event then brings the newest message of its pod and container. A container enters
when it has been created and leaves when it is removed; one that has stopped stays, with the state that the runtime
gave. Next: `nri.stub.handler.call`, which keeps it true.
"""

from __future__ import annotations

from nri.api.events import EventMask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.api import messages as m

__all__ = ["MIRROR_EVENTS", "Mirror"]

#: The events that the mirror needs, besides those that the plugin handles.
MIRROR_EVENTS = EventMask.of(
    "RunPodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox",
    "PostCreateContainer", "PostStartContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer",
)  # fmt: skip
_NOT_YET = frozenset(("CreateContainer", "ValidateContainerAdjustment"))


class Mirror:
    """All pods and containers of the node.

    Attributes:
        pods: pod sandbox id -> message.
        containers: container id -> message.
    """

    __slots__ = ("containers", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, m.PodSandbox] = {}
        self.containers: dict[str, m.Container] = {}

    def pod_of(self, container: m.Container) -> m.PodSandbox | None:
        """The pod that a container belongs to."""
        return self.pods.get(container.pod_sandbox_id)

    def replace(self, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Take in the state that a Synchronize brings, and forget everything else."""
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}

    def seen(self, event: str, pod: m.PodSandbox | None, container: m.Container | None) -> None:
        """Take in an event; called before the plugin's own handler."""
        if event in _NOT_YET:
            return
        if event == "RemovePodSandbox":
            if pod is not None:
                self.pods.pop(pod.id, None)
                gone = [c.id for c in self.containers.values() if c.pod_sandbox_id == pod.id]
                for container_id in gone:
                    del self.containers[container_id]
            return
        if pod is not None and pod.id:
            self.pods[pod.id] = pod
        if container is None or not container.id:
            return
        if event == "RemoveContainer":
            self.containers.pop(container.id, None)
        else:
            self.containers[container.id] = container
