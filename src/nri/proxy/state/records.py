"""The proxy's records of a pod and of a container.

A container has two ids: the id for plugins (`id`), which exists before the runtime creates the container, and the
runtime's (`runtime_id`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb

#: Values of `reported_step`: the last step that was reported to plugins. A container is `CREATING` while plugins are
#: called.
CREATING, CREATED, STOPPED, REMOVED = "creating", "created", "stopped", "removed"


@dataclass(slots=True)
class PodRecord:
    """A pod sandbox.

    Attributes:
        id: the pod's id, the same for the runtime and for plugins.
        config: the configuration that the runtime received.
        runtime_handler: the handler that the kubelet requested.
        reported_step: the last step that was reported to plugins.
        skipped: whether the pod has the skip label, so that plugins are not notified of it or its containers.
        plugin_view: the pod as plugins see it.
    """

    id: str
    config: pb.PodSandboxConfig = field(default_factory=pb.PodSandboxConfig)
    runtime_handler: str = ""
    reported_step: str = ""
    skipped: bool = False
    plugin_view: m.PodSandbox = field(default_factory=m.PodSandbox)


@dataclass(slots=True)
class ContainerRecord:
    """A container.

    Attributes:
        id: the container's id for plugins.
        runtime_id: the runtime's id; empty while the container is being created.
        pod_id: the id of the container's pod.
        config: the configuration that the runtime received, with the changes of plugins.
        requested_resources: the resources that the kubelet requests, before changes of plugins; empty if not known.
        resources: the resources in force, as far as they were set through the proxy.
        reported_step: the last step that was reported to plugins.
        plugin_view: the container as plugins see it.
    """

    id: str
    runtime_id: str = ""
    pod_id: str = ""
    config: pb.ContainerConfig = field(default_factory=pb.ContainerConfig)
    requested_resources: pb.LinuxContainerResources = field(default_factory=pb.LinuxContainerResources)
    resources: pb.LinuxContainerResources = field(default_factory=pb.LinuxContainerResources)
    reported_step: str = ""
    plugin_view: m.Container = field(default_factory=m.Container)
