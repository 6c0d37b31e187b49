"""The proxy's records of a pod and of a container.

Rules: plain values and the CRI's own messages. A container has two names: the one that plugins know it by (`id`), which
is made before the runtime makes the container, and the runtime's (`runtime_id`). Next: `nri.proxy.state.store`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb

__all__ = ["CREATED", "CREATING", "REMOVED", "STOPPED", "ContainerRecord", "PodRecord"]

#: The last step of a pod or container that plugins know. A container is `CREATING` from the moment in which they are
#: asked.
CREATING, CREATED, STOPPED, REMOVED = "creating", "created", "stopped", "removed"


@dataclass(slots=True)
class PodRecord:
    """A pod sandbox.

    Attributes:
        id: its id, the same for the runtime and for plugins.
        config: what it was made with, as the runtime got it.
        runtime_handler: the one that the kubelet asked for.
        reported: the last step that plugins know of.
        skipped: it has the skip label: plugins hear nothing of it or its containers.
        shown: as plugins see it.
    """

    id: str
    config: pb.PodSandboxConfig = field(default_factory=pb.PodSandboxConfig)
    runtime_handler: str = ""
    reported: str = ""
    skipped: bool = False
    shown: m.PodSandbox = field(default_factory=m.PodSandbox)


@dataclass(slots=True)
class ContainerRecord:
    """A container.

    Attributes:
        id: the name that plugins know it by.
        runtime_id: the runtime's id; empty while it is being made.
        pod_id: its pod.
        config: what it was made with, as the runtime got it: with what plugins changed.
        asked: the resources that the kubelet asks for, before plugins change them; nothing if that is not known.
        resources: those in force, as far as they were set through the proxy.
        reported: the last step that plugins know of.
        shown: as plugins see it.
    """

    id: str
    runtime_id: str = ""
    pod_id: str = ""
    config: pb.ContainerConfig = field(default_factory=pb.ContainerConfig)
    asked: pb.LinuxContainerResources = field(default_factory=pb.LinuxContainerResources)
    resources: pb.LinuxContainerResources = field(default_factory=pb.LinuxContainerResources)
    reported: str = ""
    shown: m.Container = field(default_factory=m.Container)
