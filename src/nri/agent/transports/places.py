"""Contexts of NRI's pods and containers, with the folders that their cgroups really have.

A kubelet that leaves cgroups to systemd names only the last slice of a pod's folder, and a runtime says in its own
words where a container's is. Both become paths below the root of the cgroups here; one that cannot be read is no folder
at all, and nothing is written for it. Pure. Next: `nri.agent.transports.held`.
"""

from __future__ import annotations

from dataclasses import replace

from nri.api import messages as m
from nri.host.cgroups import expand
from nri.policies.koordinator import paths
from nri.policies.koordinator.contexts import ContainerContext, PodContext, Resources
from nri.policies.koordinator.convert import messages

__all__ = ["container_context", "folder_of", "pod_context", "requested"]


def folder_of(parent: str) -> str:
    """Return the folder that a pod's cgroup parent means; "" if it means none."""
    name = parent.strip("/")
    if "/" in name or not name.endswith(".slice"):
        return name
    return _expanded(f"{name}::any").rpartition("/")[0]


def pod_context(pod: m.PodSandbox) -> PodContext:
    """Return the context of a pod."""
    return replace(messages.pod_context(pod), cgroup_parent=folder_of(pod.linux.cgroup_parent))


def container_context(pod: m.PodSandbox, container: m.Container, runtime: str) -> ContainerContext:
    """Return the context of a container; `runtime` is what its ids have in front."""
    own = pod_context(pod)
    driver = paths.SYSTEMD if own.cgroup_parent.endswith(".slice") else paths.CGROUPFS
    made = messages.container_context(pod, container, runtime, driver)
    folder = _expanded(container.linux.cgroups_path) or paths.container_path(own.cgroup_parent, made.id, driver)
    return replace(made, pod=own, cgroup_parent=folder)


def requested(
    pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, runtime: str
) -> tuple[ContainerContext, Resources]:
    """Return the context of a container that is about to be updated, with what is asked for; and that by itself."""
    wish = m.Container(id=container.id)
    wish.linux.resources.CopyFrom(resources)
    asked = messages.container_context(pod, wish, runtime).resources or Resources()
    return replace(container_context(pod, container, runtime), resources=asked), asked


def _expanded(path: str) -> str:
    try:
        return expand(path) if path else ""
    except ValueError:
        return ""
