"""Devices of the machine that runs the plugin: where they are, their interrupts, and the hints of a container.

A file that a container only reads is not a hint.
"""

from __future__ import annotations

from functools import cache

from nri.api import messages as m
from nri.host import Root
from nri.host.interrupts import read_interrupts
from nri.host.locality import folder_of_device, folder_of_path, near
from nri.placement import masks
from nri.placement.containers import Container, Hint
from nri.placement.hints import Sources, sources_of
from nri.placement.policy import Devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Mounts and devices of one container that are looked at.
_MOST = 256


class HostDevices(Devices):
    """The devices below a root path, each looked up once. `warn` is called for a device that is near to no CPUs."""

    def __init__(self, root: Root, warn: Callable[[str], None]) -> None:
        self._root, self._warn = root, warn
        self._near = cache(self._read_near)

    def cpus_near(self, path: str) -> list[int]:
        """The masks of CPUs near to a device by its path in /sys, several if it has several parts."""
        return self._near(path)

    def _read_near(self, path: str) -> list[int]:
        cpus = [masks.parse(where.cpus) for where in near(self._root, path).values() if where.cpus]
        if not cpus:
            self._warn(f"preferCloseToDevices: nothing in /sys says which CPUs are near to {path}")
        return cpus

    def interrupts(self) -> Mapping[int, str]:
        """The interrupts by number, with their descriptions."""
        return read_interrupts(self._root)


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
