"""The mirror for `self.state`: all pods and containers of the node, updated by Synchronize and events."""

from __future__ import annotations

from nri.api.events import EventMask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.api import messages as m

#: The events that the mirror needs, in addition to those that the plugin handles.
MIRROR_EVENTS = EventMask.of(
    "RunPodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox",
    "PostCreateContainer", "PostStartContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer",
)  # fmt: skip
_NOT_YET = frozenset(("CreateContainer", "ValidateContainerAdjustment"))


class Mirror:
    """All pods and containers of the node. A container is added after its creation, and kept until it is removed.

    Attributes:
        pods: the messages by pod sandbox id.
        containers: the messages by container id.
    """

    __slots__ = ("containers", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, m.PodSandbox] = {}
        self.containers: dict[str, m.Container] = {}

    def pod_of(self, container: m.Container) -> m.PodSandbox | None:
        """The pod of a container. Returns None if the pod is not known."""
        return self.pods.get(container.pod_sandbox_id)

    def replace(self, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Replace all pods and containers by the state of a Synchronize."""
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}

    def apply_event(self, event: str, pod: m.PodSandbox | None, container: m.Container | None) -> None:
        """Update the mirror from an event. Called before the plugin's handler."""
        if event in _NOT_YET:
            return
        if event == "RemovePodSandbox":
            if pod is not None:
                self.pods.pop(pod.id, None)
                container_ids = [c.id for c in self.containers.values() if c.pod_sandbox_id == pod.id]
                for container_id in container_ids:
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
