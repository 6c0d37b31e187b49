"""Read a container's lists as dictionaries by key, and its wrapped numbers as plain numbers.

Of two entries with the same key the last is used, as in the kernel. Removal marks have no meaning here. No limit is
None, however the runtime encodes it: runtimes send 0 for values that the kubelet has not set.
"""

from __future__ import annotations

from nri.api import cpuset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.api.messages import Container, LinuxDevice, LinuxResources, Mount


def env_of(container: Container) -> dict[str, str]:
    """The environment of the container. An entry without `=` has the value ""."""
    return {name: value for name, _, value in (entry.partition("=") for entry in container.env)}


def mounts_of(container: Container) -> dict[str, Mount]:
    """Mounts by path in the container."""
    return {mount.destination: mount for mount in container.mounts}


def devices_of(container: Container) -> dict[str, LinuxDevice]:
    """Devices by path in the container."""
    return {device.path: device for device in container.linux.devices}


def namespaces_of(container: Container) -> dict[str, str]:
    """Paths of the namespaces by type; an empty path is a new namespace of the container."""
    return {namespace.type: namespace.path for namespace in container.linux.namespaces}


def rlimits_of(container: Container) -> dict[str, tuple[int, int]]:
    """Process resource limits by type, as (hard, soft)."""
    return {limit.type: (limit.hard, limit.soft) for limit in container.rlimits}


def memory_limit_of(message: Container | LinuxResources) -> int | None:
    """The memory limit in bytes. Returns None for no limit."""
    limit = _resources(message).memory.limit.value
    return limit if limit > 0 else None


def cpu_shares_of(message: Container | LinuxResources) -> int | None:
    """The relative CPU weight, 2 to 262144. Returns None if not set."""
    return _resources(message).cpu.shares.value or None


def cpu_quota_of(message: Container | LinuxResources) -> tuple[int, int] | None:
    """The run time per period, and the period, in microseconds. Returns None for no limit."""
    cpu = _resources(message).cpu
    quota = cpu.quota.value
    return (quota, cpu.period.value or 100_000) if quota > 0 else None


def cpuset_cpus_of(message: Container | LinuxResources) -> frozenset[int] | None:
    """The numbers of the allowed CPUs, None for all. Raises ValueError if the runtime's list is invalid."""
    text = _resources(message).cpu.cpus
    return cpuset.parse(text) if text else None


def cpuset_mems_of(message: Container | LinuxResources) -> frozenset[int] | None:
    """The numbers of the allowed memory nodes, None for all. Raises ValueError if the runtime's list is invalid."""
    text = _resources(message).cpu.mems
    return cpuset.parse(text) if text else None


def pids_limit_of(message: Container | LinuxResources) -> int | None:
    """The limit of processes and threads. Returns None for no limit."""
    limit = _resources(message).pids.limit
    return limit if limit > 0 else None


def _resources(message: Any) -> LinuxResources:
    """The resources of a container, or the argument itself if it is a resources message."""
    resources: LinuxResources = message.linux.resources if hasattr(message, "linux") else message
    return resources
