"""Pods and containers from NRI messages, with the actual paths of their cgroups.

A kubelet with the systemd driver names only the last slice of a pod's cgroup, and each runtime has its own form for the
path of a container's cgroup. Both become paths relative to the root of the cgroups.
"""

from __future__ import annotations

from dataclasses import replace

from nri.agent import cgroup_paths as paths
from nri.agent.executor import tidy
from nri.agent.model import Container, Pod, Resources
from nri.agent.transports import messages
from nri.api import messages as m


def pod_context(pod: m.PodSandbox) -> Pod:
    """Return a pod from its NRI message."""
    return replace(messages.pod_context(pod), folder=tidy(pod.linux.cgroup_parent))


def container_context(
    pod: m.PodSandbox, container: m.Container, runtime: str, known_pod: Pod | None = None
) -> Container:
    """Return a container from its NRI message. `runtime` is the prefix of its id; `known_pod` saves a conversion."""
    known_pod = known_pod or pod_context(pod)
    driver = paths.SYSTEMD if known_pod.folder.endswith(".slice") else paths.CGROUPFS
    context = messages.container_context(pod, container, runtime, driver, known_pod)
    folder = tidy(container.linux.cgroups_path)
    return replace(context, folder=folder) if folder else context


def with_current_folder(context: Container, pod: m.PodSandbox, container: m.Container, runtime: str) -> Container:
    """Return the container with its current cgroup; behind a proxy a container has a cgroup only after its creation."""
    folder = container_context(pod, container, runtime).folder
    return replace(context, folder=folder) if folder else context


def requested(pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, runtime: str) -> Container:
    """Return a container that is about to be updated, with the requested resources."""
    asking = m.Container(id=container.id)
    asking.linux.resources.CopyFrom(resources)
    resources_ = messages.container_context(pod, asking, runtime).resources or Resources()
    return replace(container_context(pod, container, runtime), resources=resources_)
