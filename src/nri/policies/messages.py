"""Contexts from NRI's messages, and changes as an adjustment or an update.

What NRI cannot say is not lost: a pod's values and an explicit clear of the CPUs come back as writes for the executor.
Next: `nri.policies.koordinator.convert.proxy`.
"""

from __future__ import annotations

from collections.abc import Mapping

from nri.api import messages as m
from nri.policies import paths
from nri.policies.changes import Changes
from nri.policies.contexts import ContainerContext, PodContext, Resources
from nri.policies.writes import KNOBS, Write

__all__ = ["adjustment", "container_context", "container_id", "pod_context", "unsaid", "update"]

#: A pod of the kubelet's former docker shim bears this.
_DOCKER_TYPE = "io.kubernetes.docker.type"


def pod_context(pod: m.PodSandbox) -> PodContext:
    """Return the context of a pod; its resources are not known."""
    return PodContext(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
        cgroup_parent=pod.linux.cgroup_parent,
    )


def container_context(
    pod: m.PodSandbox, container: m.Container, runtime: str = "containerd", driver: str = paths.SYSTEMD
) -> ContainerContext:
    """Return the context of a container. Its folder is computed from its pod's; empty variables are left out."""
    context = pod_context(pod)
    number = container_id(container.id, context.annotations, runtime)
    pairs = (entry.partition("=") for entry in container.env)
    has_resources = container.HasField("linux") and container.linux.HasField("resources")
    return ContainerContext(
        pod=context,
        id=number,
        name=container.name,
        cgroup_parent=paths.container_path(context.cgroup_parent, number, driver),
        env={name: value for name, _, value in pairs if name and value},
        resources=_resources(container.linux.resources) if has_resources else None,
    )


def container_id(number: str, annotations: Mapping[str, str] | None = None, runtime: str = "containerd") -> str:
    """Return a container's id with its runtime in front."""
    return f"{'docker' if _DOCKER_TYPE in (annotations or {}) else runtime}://{number}"


def adjustment(changes: Changes) -> m.ContainerAdjustment:
    """Return changes as an adjustment of a container that is being created."""
    message = m.ContainerAdjustment()
    _set(message.linux.resources, changes)
    if not message.linux.resources.ByteSize():
        message.ClearField("linux")
    if changes.resctrl is not None:
        message.linux.resources.rdt_class.value = changes.resctrl.group
    if changes.oom_score_adj is not None:
        message.linux.oom_score_adj.value = changes.oom_score_adj
    for name, value in changes.env.items():
        message.env.add(key=name, value=value)
    for mount in changes.mounts:
        message.mounts.add(
            destination=mount.destination, type=mount.type, source=mount.source, options=list(mount.options)
        )
    for device in changes.devices:
        node = message.linux.devices.add(path=device.path, type=device.type, major=device.major, minor=device.minor)
        node.file_mode.value = device.mode
    return message


def update(changes: Changes, container: str, *, rdt_class: bool = False) -> m.ContainerUpdate | None:
    """Return changes as an update of a container; None if an update would say nothing.

    Args:
        changes: what is to be set.
        container: the container's id at the runtime.
        rdt_class: whether it asks for an RDT class as well, which runtimes drop from updates.
    """
    message = m.ContainerUpdate()
    _set(message.linux.resources, changes)
    if changes.resctrl is not None and rdt_class:
        message.linux.resources.rdt_class.value = changes.resctrl.group
    if not message.linux.resources.ByteSize():
        return None
    message.container_id = container
    return message


def unsaid(folder: str, changes: Changes) -> list[Write]:
    """Return what neither adjustment nor update can say of a container."""
    if changes.cpuset != "" or not folder:
        return []
    return [Write(folder, KNOBS["cpuset"], "", "an explicit clear, which NRI cannot say")]


def _resources(resources: m.LinuxResources) -> Resources:
    cpu, limit = resources.cpu, resources.memory.limit.value
    return Resources(
        cpu_shares=cpu.shares.value or None,
        cfs_quota=cpu.quota.value or None,
        cpuset=cpu.cpus or None,
        memory_limit=max(limit, -1) or None,
    )


def _set(resources: m.LinuxResources, changes: Changes) -> None:
    if changes.cpuset:
        resources.cpu.cpus = changes.cpuset
    if changes.cfs_quota is not None:
        resources.cpu.quota.value = changes.cfs_quota
    if changes.cpu_shares is not None:
        resources.cpu.shares.value = changes.cpu_shares
    if changes.memory_limit is not None:
        resources.memory.limit.value = changes.memory_limit
