"""The abilities of this machine, this engine and its OCI runtime, found out once: the values that specs need.

Rules: read only; what cannot be read counts as not there. Next: `nri.engine.spec.inputs`, the values.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.engine.spec.capabilities import KNOWN
from nri.engine.spec.inputs import Device, Machine

__all__ = ["find_devices", "look", "with_features"]

_CGROUPS = Path("sys/fs/cgroup")
_RESOURCE = "CAP_SYS_RESOURCE"


def look(root: Path = Path("/")) -> Machine:
    """Find out what kernel and engine can do. `root` is where /proc and /sys are looked for."""
    status = _status(root)
    held = int(status.get("CapBnd", "0"), 16) & int(status.get("CapPrm", "0"), 16)
    capabilities = tuple(name for number, name in enumerate(KNOWN) if held >> number & 1)
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
    """The machine with an OCI runtime on it, of what its command ``features`` prints; {} if it has no such command."""
    options = features.get("mountOptions") or ()
    extensions = (features.get("linux") or {}).get("mountExtensions") or {}
    idmap = (extensions.get("idmap") or {}).get("enabled")
    return replace(machine, recursive_read_only="rro" in options, idmapped_mounts=bool(idmap))


def find_devices(path: str) -> list[Device]:
    """The device at a path of this host; of a folder, all devices in it and below. Links are followed for `path` only.

    An empty list where there is none.
    """
    return list(_below(path, os.stat)) if os.path.exists(path) else []


def _below(path: str, look_at: Any) -> Iterator[Device]:
    try:
        found = look_at(path)
        if stat.S_ISDIR(found.st_mode):
            for name in sorted(os.listdir(path)):
                yield from _below(f"{path.rstrip('/')}/{name}", os.lstat)
            return
    except OSError:
        return  # gone, or not ours to see
    kinds = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}
    if kind := kinds.get(stat.S_IFMT(found.st_mode)):
        yield Device(
            path,
            kind,
            os.major(found.st_rdev),
            os.minor(found.st_rdev),
            stat.S_IMODE(found.st_mode),
            found.st_uid,
            found.st_gid,
        )


def _limits_swap(root: Path, v2: bool) -> bool:
    """Whether cgroups can limit swap.

    On v2 the root cgroup never has the file, so any cgroup below it shows; before there is one, whether the kernel
    knows swap.
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
