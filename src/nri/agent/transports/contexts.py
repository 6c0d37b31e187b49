"""Contexts of NRI's pods and containers, with the folders that their cgroups really have.

A kubelet that leaves cgroups to systemd names only the last slice of a pod's folder, and a runtime says in its own
words where a container's is. Both become paths below the root of the cgroups here. Pure. Next:
`nri.agent.transports.inventory`, which keeps them.
"""

from __future__ import annotations

from dataclasses import replace

from nri.agent import cgroup_paths as paths
from nri.agent.executor import tidy
from nri.agent.model import Container, Pod, Resources
from nri.agent.transports import messages
from nri.api import messages as m

__all__ = ["container_context", "placed", "pod_context", "requested"]


def pod_context(pod: m.PodSandbox) -> Pod:
    """Return the context of a pod."""
    return replace(messages.pod_context(pod), folder=tidy(pod.linux.cgroup_parent))


def container_context(pod: m.PodSandbox, container: m.Container, runtime: str, own: Pod | None = None) -> Container:
    """Return the context of a container; `runtime` is what its ids have in front, `own` its pod's if that is there."""
    own = own or pod_context(pod)
    driver = paths.SYSTEMD if own.folder.endswith(".slice") else paths.CGROUPFS
    made = messages.container_context(pod, container, runtime, driver, own)
    folder = tidy(container.linux.cgroups_path)
    return replace(made, folder=folder) if folder else made


def placed(context: Container, pod: m.PodSandbox, container: m.Container, runtime: str) -> Container:
    """Return the context with the folder that the container has now; behind a proxy it has none before it is made."""
    folder = container_context(pod, container, runtime).folder
    return replace(context, folder=folder) if folder else context


def requested(pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, runtime: str) -> Container:
    """Return the context of a container that is about to be updated, with what is asked for as its resources."""
    asking = m.Container(id=container.id)
    asking.linux.resources.CopyFrom(resources)
    asked = messages.container_context(pod, asking, runtime).resources or Resources()
    return replace(container_context(pod, container, runtime), resources=asked)
