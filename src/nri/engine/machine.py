"""Detect the features of this machine and its OCI runtimes that determine the content of OCI specs."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.engine.spec.inputs import Device, Machine
from nri.engine.support.capabilities import KNOWN
from nri.engine.support.errors import InvalidRequest
from nri.files import walk

_CGROUPS = Path("sys/fs/cgroup")
_RESOURCE = "CAP_SYS_RESOURCE"
_KINDS = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}
#: The maximum number of files that are searched for devices in a requested folder.
_MAX_FILES = 100_000


def detect_machine(root: Path = Path("/")) -> Machine:
    """Detect the features of the kernel and the rights of this process. `root` is the folder with /proc and /sys."""
    status = _status(root)
    granted = int(status.get("CapBnd", "0"), 16) & int(status.get("CapPrm", "0"), 16)
    capabilities = tuple(name for number, name in enumerate(KNOWN) if granted >> number & 1)
    v2 = (root / _CGROUPS / "cgroup.controllers").exists()
    controllers = _text(root / _CGROUPS / "cgroup.controllers").split()
    return Machine(
        architecture=platform.machine(),
        hostname=platform.node(),
        cgroup_v2=v2,
        hugetlb="hugetlb" in controllers if v2 else (root / _CGROUPS / "hugetlb").is_dir(),
        swap_limit=_limits_swap(root, v2),
        capabilities=capabilities,
        oom_score_floor=-1000 if _RESOURCE in capabilities else int(_text(root / "proc/self/oom_score_adj") or 0),
        seccomp="Seccomp" in status,
        apparmor=_text(root / "sys/module/apparmor/parameters/enabled").strip() == "Y",
        selinux=(root / "sys/fs/selinux/enforce").exists(),
    )


def with_features(machine: Machine, features: Mapping[str, Any]) -> Machine:
    """Add the features of an OCI runtime. `features` is the output of its command ``features``, or {} without one."""
    options = features.get("mountOptions")
    idmap: Any = features
    for key in ("linux", "mountExtensions", "idmap", "enabled"):
        idmap = idmap.get(key) if isinstance(idmap, dict) else None
    rro = isinstance(options, list) and "rro" in options
    return replace(machine, recursive_read_only=rro, idmapped_mounts=idmap is True)


def find_devices(path: str) -> list[Device]:
    """Return the device at `path`, or all devices below `path` if it is a folder. The list may be empty.

    `path` may be a symbolic link; links below it are not followed. File systems that are mounted below `path`, for
    example /dev/pts, are left out. Raises InvalidRequest if the folder has too many files.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            return [_device(path, status)] if stat.S_IFMT(status.st_mode) in _KINDS else []
        return sorted(_devices_below(path), key=lambda device: device.path)
    except OSError:
        return []  # the file was removed, or this user may not read the folder


def _devices_below(path: str) -> Iterator[Device]:
    top = os.path.realpath(path)
    for number, entry in enumerate(walk(top)):
        if number >= _MAX_FILES:
            raise InvalidRequest(f"{path}: the folder has more than {_MAX_FILES} files; request a folder of devices")
        if stat.S_IFMT(entry.status.st_mode) in _KINDS:
            try:
                folder = os.readlink(f"/proc/self/fd/{entry.folder}").removeprefix(top)
            except OSError:
                continue  # the path is longer than the kernel's limit
            yield _device(f"{path.rstrip('/')}{folder}/{entry.name}", entry.status)


def _device(path: str, status: os.stat_result) -> Device:
    numbers = os.major(status.st_rdev), os.minor(status.st_rdev)
    kind = _KINDS[stat.S_IFMT(status.st_mode)]
    return Device(path, kind, *numbers, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def _limits_swap(root: Path, v2: bool) -> bool:
    """Return whether cgroups can limit swap.

    With cgroup v2 the root cgroup never has memory.swap.max, so the other cgroups are searched for it. If there is no
    other cgroup, the answer is whether the kernel supports swap.
    """
    if not v2:
        return (root / _CGROUPS / "memory/memory.memsw.limit_in_bytes").exists()
    limited = [path.parent for path in (root / _CGROUPS).glob("*/memory.max")]
    if not limited:
        return (root / "proc/swaps").exists()
    return any((folder / "memory.swap.max").exists() for folder in limited)


def _status(root: Path) -> dict[str, str]:
    """Return the values in the engine's /proc/self/status by their names."""
    lines = _text(root / "proc/self/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
