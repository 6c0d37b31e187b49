"""Find the CPUs, memory nodes or packages near a device in /sys.

The location is in the nearest folder above the device that has one. A device that consists of other devices (RAID, LVM,
a VFIO group) is near all these devices.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Final, NamedTuple

from nri.host.root import Root

_DEVICES = "sys/devices"
#: Files with lists of CPUs, in the order in which they are tried.
_CPU_FILES = ("cpulist", "cpulistaffinity", "local_cpulist", "shared_cpu_list")
#: Maximum number of devices that a device may consist of.
_MAX_PARTS: Final = 64
_MAX_LEVELS: Final = 32


class Locality(NamedTuple):
    """Lists of CPUs, memory nodes and packages, for example `0-3,8`; "" if unknown."""

    cpus: str = ""
    nodes: str = ""
    packages: str = ""


def folder_of_device(root: Root, block: bool, major: int, minor: int) -> str | None:
    """The folder of a device in /sys by its number, relative to the root, or None."""
    return _resolved_path(root, f"sys/dev/{'block' if block else 'char'}/{major}:{minor}")


def folder_of_path(root: Root, path: str) -> str | None:
    """The folder in /sys of a device node, or of a file's disk. Returns None for virtual file systems."""
    try:
        descriptor = root.open(path, os.O_PATH)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    block = not stat.S_ISCHR(status.st_mode)
    number = status.st_rdev if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode) else status.st_dev
    return folder_of_device(root, block, os.major(number), os.minor(number)) if os.major(number) else None


def localities_of(root: Root, folder: str) -> dict[str, Locality]:
    """CPUs and memory nodes near a device, by the folder with the location. A device of several devices has several."""
    localities: dict[str, Locality] = {}
    visited: set[str] = set()
    queue = [folder.lstrip("/")]
    while queue and len(visited) < _MAX_PARTS:
        device = _resolved_path(root, queue.pop(0)) or ""
        if device in visited or not device.startswith(f"{_DEVICES}/"):
            continue
        visited.add(device)
        where = _nearest_location(root, device)
        if where is not None:
            localities.setdefault(*where)
        queue += [posixpath.join(device, "slaves", name) for name in root.names(f"{device}/slaves")]
        if device.startswith(f"{_DEVICES}/virtual/vfio/"):
            group = f"sys/kernel/iommu_groups/{posixpath.basename(device)}/devices"
            queue += [posixpath.join(group, name) for name in root.names(group)]
    return localities


def _nearest_location(root: Root, device: str) -> tuple[str, Locality] | None:
    """The nearest folder with a location, at or above the device's folder, and the location."""
    nodes = where = ""
    for _ in range(_MAX_LEVELS):
        if not device.startswith(f"{_DEVICES}/"):
            break
        cpus = next((text for name in _CPU_FILES if (text := _text(root, device, name))), "")
        node = _text(root, device, "numa_node")
        nodes = nodes or ("" if node == "-1" else node)
        if cpus or nodes:
            where = where or "/" + device
        if cpus:
            return where, Locality(cpus, nodes)
        device = posixpath.dirname(device)
    return (where, Locality(packages=nodes)) if nodes else None


def _text(root: Root, folder: str, name: str) -> str:
    return (root.find(f"{folder}/{name}") or "").strip()


def _resolved_path(root: Root, path: str) -> str | None:
    """Resolve the links of a path below the root. Returns None if the path does not exist."""
    parts = path.strip("/").split("/")
    resolved: list[str] = []
    links = 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            resolved = resolved[:-1]
            continue
        target = root.link("/".join([*resolved, part]))
        if target is None:
            resolved.append(part)
            continue
        links += 1
        if links > _MAX_LEVELS:
            return None
        resolved = [] if target.startswith("/") else resolved
        parts = [*target.strip("/").split("/"), *parts]
    real_path = "/".join(resolved)
    return real_path if root.exists(real_path) else None
