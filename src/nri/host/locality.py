"""Where in the machine a device is: the CPUs, memory nodes or packages near to it, as /sys tells.

One job: :func:`near`, from the folder of a device in /sys, and the ways to that folder: by the number of a device, or
by a path whose file is on it. The nearest folder upwards that says something counts; a device made of others (RAID,
LVM, a VFIO group) is near to all of them. Rules: reads below a :class:`~nri.host.root.Root`; what cannot be read says
nothing; bounded in depth and in number. Next: `topology`, the machine as a whole.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import Final, NamedTuple

from nri.host.root import Root

__all__ = ["Locality", "folder_of_device", "folder_of_path", "near"]

_DEVICES = "sys/devices"
#: The files of a folder that have CPUs, in the order in which they are looked for.
_CPU_FILES = ("cpulist", "cpulistaffinity", "local_cpulist", "shared_cpu_list")
#: How many devices one may be made of, in all.
_MOST_PARTS: Final = 64
_MOST_LEVELS: Final = 32


class Locality(NamedTuple):
    """Lists of CPUs, memory nodes and packages, such as `0-3,8`; "" where nothing is known."""

    cpus: str = ""
    nodes: str = ""
    packages: str = ""


def folder_of_device(root: Root, block: bool, major: int, minor: int) -> str | None:
    """The folder of a device in /sys by its number, relative to the root; None if there is none."""
    return _followed(root, f"sys/dev/{'block' if block else 'char'}/{major}:{minor}")


def folder_of_path(root: Root, path: str) -> str | None:
    """The folder in /sys of a device node, or of the disk that a file is on; None for virtual file systems."""
    try:
        descriptor = root.open(path, os.O_PATH)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    block = not stat.S_ISCHR(found.st_mode)
    number = found.st_rdev if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode) else found.st_dev
    return folder_of_device(root, block, os.major(number), os.minor(number)) if os.major(number) else None


def near(root: Root, folder: str) -> dict[str, Locality]:
    """CPUs and memory nodes near to a device, by the paths of the folders that say so; several if it has parts."""
    found: dict[str, Locality] = {}
    seen: set[str] = set()
    waiting = [folder.lstrip("/")]
    while waiting and len(seen) < _MOST_PARTS:
        device = _followed(root, waiting.pop(0)) or ""
        if device in seen or not device.startswith(f"{_DEVICES}/"):
            continue
        seen.add(device)
        where = _upwards(root, device)
        if where is not None:
            found.setdefault(*where)
        waiting += [posixpath.join(device, "slaves", name) for name in root.names(f"{device}/slaves")]
        if device.startswith(f"{_DEVICES}/virtual/vfio/"):
            group = f"sys/kernel/iommu_groups/{posixpath.basename(device)}/devices"
            waiting += [posixpath.join(group, name) for name in root.names(group)]
    return found


def _upwards(root: Root, device: str) -> tuple[str, Locality] | None:
    """The nearest folder, the device's or one above, that says where it is; of no CPUs those above it are asked."""
    nodes = where = ""
    for _ in range(_MOST_LEVELS):
        if not device.startswith(f"{_DEVICES}/"):
            break
        cpus = next((text for name in _CPU_FILES if (text := _text(root, device, name))), "")
        here = _text(root, device, "numa_node")
        nodes = nodes or ("" if here == "-1" else here)
        if cpus or nodes:
            where = where or "/" + device
        if cpus:
            return where, Locality(cpus, nodes)
        device = posixpath.dirname(device)
    return (where, Locality(packages=nodes)) if nodes else None


def _text(root: Root, folder: str, name: str) -> str:
    return (root.find(f"{folder}/{name}") or "").strip()


def _followed(root: Root, path: str) -> str | None:
    """A path below the root without links; None if there is nothing."""
    parts = path.strip("/").split("/")
    done: list[str] = []
    links = 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1]
            continue
        target = root.link("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _MOST_LEVELS:
            return None
        done = [] if target.startswith("/") else done
        parts = [*target.strip("/").split("/"), *parts]
    found = "/".join(done)
    return found if root.exists(found) else None
