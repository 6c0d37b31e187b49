"""Devices of the plugin's machine: their location, their interrupts, and the hints that they give for a container."""

from __future__ import annotations

from functools import cache

from nri.api import messages as m
from nri.host import Root
from nri.host.interrupts import read_interrupts
from nri.host.locality import folder_of_device, folder_of_path, localities_of
from nri.placement import masks
from nri.placement.containers import Container, Hint
from nri.placement.hints import Sources, sources_of
from nri.placement.policy import Devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The maximum number of mounts, and of devices, that are considered for one container.
_MAX_SOURCES = 256


class HostDevices(Devices):
    """The devices below a root path; the result of each look-up is cached.

    Args:
        warn: called with a message if /sys has no CPUs near a device.
    """

    def __init__(self, root: Root, warn: Callable[[str], None]) -> None:
        self._root, self._warn = root, warn
        self._cached_cpus_near = cache(self._read_near)

    def cpus_near(self, path: str) -> list[int]:
        """The masks of the CPUs near each part of a device; `path` is in /sys."""
        return self._cached_cpus_near(path)

    def _read_near(self, path: str) -> list[int]:
        cpus = [masks.parse(where.cpus) for where in localities_of(self._root, path).values() if where.cpus]
        if not cpus:
            self._warn(f"preferCloseToDevices: no CPUs near {path} found in /sys")
        return cpus

    def interrupts(self) -> Mapping[int, str]:
        """Descriptions of interrupts by number."""
        return read_interrupts(self._root)


def hints_of(container: Container, message: m.Container, root: Root) -> dict[str, Hint]:
    """Hints of a container's devices and disks, by the folder in /sys that has their location."""
    sources = sources_of(container)
    hints: dict[str, Hint] = {}
    for folder in _folders(sources, message, root):
        if sources.counts("/" + folder):
            for path, where in localities_of(root, folder).items():
                hints.setdefault(path, Hint(*where))
    return hints


def _folders(sources: Sources, message: m.Container, root: Root) -> Iterator[str]:
    for mount in message.mounts[:_MAX_SOURCES]:
        if sources.counts_mount(mount.source, mount.destination, list(mount.options)):
            folder = folder_of_path(root, mount.source) if mount.source.startswith("/") else None
            if folder is not None:
                yield folder
    for device in message.linux.devices[:_MAX_SOURCES] if sources.devices else ():
        if _is_writable(message, device) and device.type in ("b", "c", "block", "char"):
            folder = folder_of_device(root, device.type[0] == "b", device.major, device.minor)
            if folder is not None:
                yield folder


def _is_writable(message: m.Container, device: m.LinuxDevice) -> bool:
    """Whether a rule allows the container to write to a device. A device that is only read does not give a hint."""
    for rule in message.linux.resources.devices:
        any_device = rule.type in ("", "a") and not rule.major.value and not rule.minor.value
        same = (rule.type, rule.major.value, rule.minor.value) == (device.type, device.major, device.minor)
        if rule.allow and (any_device or same) and "w" in rule.access:
            return True
    return False
