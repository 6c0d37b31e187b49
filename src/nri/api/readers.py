"""Readers of the messages that a runtime shows to plugins.

One job: turn the lists of a `Container` message into the dictionaries that a plugin asks, and its wrapped numbers into
plain ones. Rules: nothing is changed; of two entries with one key the last counts, as it does for the kernel; removal
marks have no meaning here; of resources, no limit is None, however the runtime says it: runtimes send 0 for what the
kubelet has not set.
"""

from __future__ import annotations

from nri.api import cpuset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.api.messages import Container, LinuxDevice, LinuxResources, Mount

__all__ = [
    "cpu_quota_of",
    "cpu_shares_of",
    "cpuset_cpus_of",
    "cpuset_mems_of",
    "devices_of",
    "env_of",
    "memory_limit_of",
    "mounts_of",
    "namespaces_of",
    "pids_limit_of",
    "rlimits_of",
]


def env_of(container: Container) -> dict[str, str]:
    """Environment of the container. An entry without `=` has the value ""."""
    return {name: value for name, _, value in (entry.partition("=") for entry in container.env)}


def mounts_of(container: Container) -> dict[str, Mount]:
    """Mounts by path in the container."""
    return {mount.destination: mount for mount in container.mounts}


def devices_of(container: Container) -> dict[str, LinuxDevice]:
    """Devices by path in the container."""
    return {device.path: device for device in container.linux.devices}


def namespaces_of(container: Container) -> dict[str, str]:
    """Paths of the namespaces by type; an empty path is a namespace of the container's own."""
    return {namespace.type: namespace.path for namespace in container.linux.namespaces}


def rlimits_of(container: Container) -> dict[str, tuple[int, int]]:
    """Process resource limits by type, as (hard, soft)."""
    return {limit.type: (limit.hard, limit.soft) for limit in container.rlimits}


def memory_limit_of(message: Container | LinuxResources) -> int | None:
    """Most memory in bytes; None for no limit."""
    limit = _resources(message).memory.limit.value
    return limit if limit > 0 else None


def cpu_shares_of(message: Container | LinuxResources) -> int | None:
    """Relative weight, 2 to 262144; None if there is none."""
    return _resources(message).cpu.shares.value or None


def cpu_quota_of(message: Container | LinuxResources) -> tuple[int, int] | None:
    """Run time, and the period in which it may be used up, in microseconds; None for no limit."""
    cpu = _resources(message).cpu
    quota = cpu.quota.value
    return (quota, cpu.period.value or 100_000) if quota > 0 else None


def cpuset_cpus_of(message: Container | LinuxResources) -> frozenset[int] | None:
    """Numbers of the CPUs that are allowed; None for all. ValueError if the runtime sent what is not a list."""
    text = _resources(message).cpu.cpus
    return cpuset.parse(text) if text else None


def cpuset_mems_of(message: Container | LinuxResources) -> frozenset[int] | None:
    """Numbers of the memory nodes that are allowed; None for all. ValueError if the runtime sent what is not a list."""
    text = _resources(message).cpu.mems
    return cpuset.parse(text) if text else None


def pids_limit_of(message: Container | LinuxResources) -> int | None:
    """Most processes and threads; None for no limit."""
    limit = _resources(message).pids.limit
    return limit if limit > 0 else None


def _resources(message: Any) -> LinuxResources:
    """The resources of a container, or themselves."""
    resources: LinuxResources = message.linux.resources if hasattr(message, "linux") else message
    return resources
