"""The hints of a container's devices and mounts: where in the machine they are.

One job: :func:`hints_of`. Files that a container only reads are no hint. Next: `plugin_base`, which gives them to the
policy.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.host import Root
from nri.host.locality import folder_of_device, folder_of_path, near
from nri.placement.containers import Container, Hint
from nri.placement.hints import Sources, sources_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["hints_of"]

#: Mounts and devices of one container that are looked at.
_MOST = 256


def hints_of(container: Container, told: m.Container, root: Root) -> dict[str, Hint]:
    """Devices and disks of a container that are near to some CPUs, by the folders in /sys that say so."""
    sources = sources_of(container)
    found: dict[str, Hint] = {}
    for folder in _folders(sources, told, root):
        if sources.counts("/" + folder):
            for path, where in near(root, folder).items():
                found.setdefault(path, Hint(*where))
    return found


def _folders(sources: Sources, told: m.Container, root: Root) -> Iterator[str]:
    for mount in told.mounts[:_MOST]:
        if sources.counts_mount(mount.source, mount.destination, list(mount.options)):
            folder = folder_of_path(root, mount.source) if mount.source.startswith("/") else None
            if folder is not None:
                yield folder
    for device in told.linux.devices[:_MOST] if sources.devices else ():
        if _is_written(told, device) and device.type in ("b", "c", "block", "char"):
            folder = folder_of_device(root, device.type[0] == "b", device.major, device.minor)
            if folder is not None:
                yield folder


def _is_written(told: m.Container, device: m.LinuxDevice) -> bool:
    """Whether a rule lets the container write to a device."""
    for rule in told.linux.resources.devices:
        any_device = rule.type in ("", "a") and not rule.major.value and not rule.minor.value
        same = (rule.type, rule.major.value, rule.minor.value) == (device.type, device.major, device.minor)
        if rule.allow and (any_device or same) and "w" in rule.access:
            return True
    return False
