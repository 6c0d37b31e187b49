"""Detect the features of this machine and of its OCI runtime on which OCI specs depend."""

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
#: The most files in a folder of devices.
_MAX_FILES = 100_000


def detect_machine(root: Path = Path("/")) -> Machine:
    """Detect the features of the kernel and of this process. `root` contains /proc and /sys."""
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
    """Add the features of an OCI runtime, as its command ``features`` prints them; {} if it has no such command."""
    options = features.get("mountOptions")
    idmap: Any = features
    for key in ("linux", "mountExtensions", "idmap", "enabled"):
        idmap = idmap.get(key) if isinstance(idmap, dict) else None
    rro = isinstance(options, list) and "rro" in options
    return replace(machine, recursive_read_only=rro, idmapped_mounts=idmap is True)


def find_devices(path: str) -> list[Device]:
    """The device at a path of this host; for a folder, all devices in it and below. Only `path` may be a link.

    Empty if there is none. Mounts below a folder are left out, for example /dev/pts. InvalidRequest for a folder with
    too many files.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            return [_device(path, status)] if stat.S_IFMT(status.st_mode) in _KINDS else []
        return sorted(_below(path), key=lambda device: device.path)
    except OSError:
        return []  # it has gone, or this user may not see it


def _below(path: str) -> Iterator[Device]:
    top = os.path.realpath(path)
    for number, entry in enumerate(walk(top)):
        if number >= _MAX_FILES:
            raise InvalidRequest(f"{path}: has more than {_MAX_FILES} files; name a folder of devices")
        if stat.S_IFMT(entry.found.st_mode) in _KINDS:
            try:
                folder = os.readlink(f"/proc/self/fd/{entry.folder}").removeprefix(top)
            except OSError:
                continue  # deeper than the longest path
            yield _device(f"{path.rstrip('/')}{folder}/{entry.name}", entry.found)


def _device(path: str, status: os.stat_result) -> Device:
    numbers = os.major(status.st_rdev), os.minor(status.st_rdev)
    kind = _KINDS[stat.S_IFMT(status.st_mode)]
    return Device(path, kind, *numbers, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def _limits_swap(root: Path, v2: bool) -> bool:
    """Whether cgroups can limit swap.

    On v2 the root cgroup never has the file, so check any other cgroup; without one, check whether the kernel knows
    swap.
    """
    if not v2:
        return (root / _CGROUPS / "memory/memory.memsw.limit_in_bytes").exists()
    limited = [path.parent for path in (root / _CGROUPS).glob("*/memory.max")]
    if not limited:
        return (root / "proc/swaps").exists()
    return any((folder / "memory.swap.max").exists() for folder in limited)


def _status(root: Path) -> dict[str, str]:
    """The lines of the engine's own /proc/self/status."""
    lines = _text(root / "proc/self/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
