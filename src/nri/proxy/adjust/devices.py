"""Devices of an adjustment in the CRI's words: nodes of the host, which the runtime copies into the container.

Rules: as `request`: what cannot be said comes back. The node is looked for at the path in the container, then at the
path that the kernel tells for the numbers; one that is not there cannot be said. Next: `nri.proxy.adjust.table`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nri.adaptation.merge.entries import Entry
from nri.api import messages as m
from nri.api.optional import get
from nri.api.removal import split
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust.paths import ByPath

__all__ = ["node_of", "say"]

_FOLDERS = {"b": "block", "c": "char", "u": "char"}
_ALL = "rwm"
_NO_NODE = "the host has no node of this device"
_OF_THE_NODE = "the CRI takes mode and owner of the host's node"
_NOT_THERE = "it is not in the request: runtimes add it, and the CRI cannot remove that"


def say(config: pb.ContainerConfig, entry: Entry) -> list[tuple[str, object, str]]:
    """Put devices into a container's configuration, in the order in which plugins gave them."""
    rest: list[tuple[str, object, str]] = []
    set_again, there = set(entry.sets), ByPath(config.devices)
    for device in entry.value:
        path, removed = split(device.path)
        if removed and path not in there and path not in set_again:
            rest.append((path, "removed", _NOT_THERE))
        node = "" if removed else node_of(device)
        if not (removed or node):
            rest.append((path, f"{device.type} {device.major}:{device.minor}", _NO_NODE))
            continue
        there.drop(path)
        if not removed:
            there.add(pb.Device(container_path=path, host_path=node, permissions=_ALL))
            if lost := _differs(device, node):
                rest.append((path, lost, _OF_THE_NODE))
    there.done()
    return rest


def node_of(device: m.LinuxDevice, root: Path = Path("/")) -> str:
    """The path of the host's node of a device; empty if there is none. `root` is where the host's files are."""
    if _is(root, device.path, device):
        return device.path
    folder = _FOLDERS.get(device.type)
    if folder is None:
        return ""
    try:
        text = (root / f"sys/dev/{folder}/{device.major}:{device.minor}/uevent").read_text()
    except OSError:
        return ""
    names = [line.removeprefix("DEVNAME=") for line in text.splitlines() if line.startswith("DEVNAME=")]
    path = f"/dev/{names[0]}" if names else ""
    return path if path and _is(root, path, device) else ""


def _is(root: Path, path: str, device: m.LinuxDevice) -> bool:
    try:
        found = os.stat(root / path.lstrip("/"))
    except (OSError, ValueError):
        return False
    kinds = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR}
    kind = kinds.get(device.type)
    numbers = os.major(found.st_rdev), os.minor(found.st_rdev)
    return kind is not None and kind(found.st_mode) and numbers == (device.major, device.minor)


def _differs(device: m.LinuxDevice, node: str) -> str:
    """Say what of a device's mode and owner the host's node has otherwise."""
    found = os.stat(node)
    rows = (
        ("file_mode", stat.S_IMODE(found.st_mode), "o"),
        ("uid", found.st_uid, "d"),
        ("gid", found.st_gid, "d"),
    )
    parts = []
    for name, is_so, form in rows:
        wanted = get(device, name)
        if wanted is not None and (stat.S_IMODE(wanted) if name == "file_mode" else wanted) != is_so:
            parts.append(f"{name} {wanted:{form}}")
    return ", ".join(parts)
