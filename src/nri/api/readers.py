"""Readers of the containers that a runtime shows to plugins.

One job: turn the lists of a `Container` message into the dictionaries that a plugin asks. Rules: nothing is changed; of
two entries with one key the last counts, as it does for the kernel; removal marks have no meaning here.
Next: `nri.api.optional.get` reads the optional scalars, `nri.api.annotations.effective` the annotations of a pod.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import Container, LinuxDevice, Mount

__all__ = ["devices_of", "env_of", "mounts_of", "namespaces_of", "rlimits_of"]


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
