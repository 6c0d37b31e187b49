"""The files of a case: a dict that writes are applied to, as the machine's side would, and nothing else.

Names are those of cgroup v1 unless the case says v2. A file that is not there is not made, and a value that the kernel
refuses is not written. Next: `tests.hook_cases.cpu`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any

from nri.agent.model import Write
from nri.host.cgroups.units import shares_to_weight

__all__ = ["SCHED_FEATURES", "Tree", "container_id_of", "is_container_path"]

SCHED_FEATURES = "/kernel/debug/sched_features"
_CONTAINER = re.compile(r"(?:docker|cri-containerd|crio)-(.*)\.scope|crio-(.*)", re.DOTALL)

#: Hierarchy and file on v1, and the file on v2, by knob.
_FILES = {
    "cpu.shares": ("cpu", "cpu.shares", "cpu.weight"),
    "cpu.cfs_quota": ("cpu", "cpu.cfs_quota_us", "cpu.max"),
    "cpu.idle": ("cpu", "cpu.idle", "cpu.idle"),
    "cpu.bvt": ("cpu", "cpu.bvt_warp_ns", "cpu.bvt_warp_ns"),
    "cpuset.cpus": ("cpuset", "cpuset.cpus", "cpuset.cpus"),
    "memory.limit": ("memory", "memory.limit_in_bytes", "memory.max"),
    "net_cls.classid": ("net_cls", "net_cls.classid", "net_cls.classid"),
    "cgroup.procs": ("cpu", "cgroup.procs", "cgroup.procs"),
}
_RANGES = {"cpu.bvt": (-1, 2), "cpu.idle": (0, 1), "cpu.shares": (2, 262144)}
_SYSCTLS = "/proc/sys/kernel/"


class Tree:
    """Files by path below the case's root."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.files: dict[str, str] = {name: text or "" for name, text in (case.get("files") or {}).items()}
        self.v2 = bool(case.get("cgroup_v2"))

    def path(self, folder: str, knob: str) -> str:
        """Return the file of a knob."""
        hierarchy, old, new = _FILES[knob]
        inside = folder.strip("/")
        return f"/{inside}/{new}" if self.v2 else f"/{hierarchy}/{inside}/{old}"

    def read(self, folder: str, knob: str) -> str | None:
        """Return a knob's text, None if there is no such file."""
        return self.files.get(self.path(folder, knob))

    def number(self, folder: str, knob: str) -> int | None:
        """Return a knob's value as a number."""
        text = self.read(folder, knob)
        return None if not text else int(text)

    def write(self, writes: Iterable[Write]) -> None:
        """Apply writes in order."""
        for write in writes:
            path = self.path(write.folder, write.knob)
            if path not in self.files:
                continue
            least, maximum = _RANGES.get(write.knob, (-(1 << 63), (1 << 63) - 1))
            if write.knob in _RANGES and not least <= int(write.value) <= maximum:
                continue
            self.files[path] = self._text(write)

    def _text(self, write: Write) -> str:
        if self.v2 and write.knob == "cpu.shares":
            return str(shares_to_weight(int(write.value)))
        if self.v2 and write.value == "-1" and write.knob in ("cpu.cfs_quota", "memory.limit"):
            return "max"
        return write.value

    def folders(self, knob: str) -> list[str]:
        """Return every folder that has a knob."""
        hierarchy, old, new = _FILES[knob]
        front, end = ("/", f"/{new}") if self.v2 else (f"/{hierarchy}/", f"/{old}")
        return [
            path[len(front) : -len(end)]
            for path in self.files
            if path.startswith(front) and path.endswith(end) and len(path) > len(front) + len(end)
        ]

    def children(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder of CPU sets."""
        front = f"/{folder.strip('/')}/" if self.v2 else f"/cpuset/{folder.strip('/')}/"
        inside = (path[len(front) :] for path in self.files if path.startswith(front))
        return sorted({remaining.split("/", 1)[0] for remaining in inside if "/" in remaining})

    def processes(self, folder: str) -> list[int]:
        """Return the ids in a folder's `cgroup.procs`; none if it is not there. ValueError: it is not a list of ids."""
        return [int(line) for line in (self.read(folder, "cgroup.procs") or "").splitlines() if line.strip()]

    def sysctl(self, name: str) -> str | None:
        """Return a sysctl of the kernel (`kernel.sched_core`), None if it has none."""
        return self.files.get(_SYSCTLS + name.removeprefix("kernel."))

    def set_sysctl(self, name: str, value: str) -> None:
        """Write a sysctl of the kernel."""
        self.files[_SYSCTLS + name.removeprefix("kernel.")] = value


def container_id_of(folder: str) -> str:
    """The container's hash in the name of a folder that systemd made. Raises ValueError if it is no container's."""
    actual = _CONTAINER.fullmatch(folder)
    if actual is None:
        raise ValueError(f"{folder!r} is not a folder of a container")
    return actual[1] or actual[2] or ""


def is_container_path(path: str) -> bool:
    """Whether the last folder of a path is a container's."""
    return _CONTAINER.fullmatch(posixpath.basename(path.rstrip("/"))) is not None
