"""Files of recorded cases on a machine: where each of them is, and how the kernel's behave when they are written.

A line of one disk or resource leaves the others, a thread is in one group, and effective CPUs follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nri.host import Root

__all__ = ["KernelRoot", "RecordedTree"]

_TOP: Final = "sys/fs/cgroup"
_V1: Final = {
    "cpu": "cpu,cpuacct",
    "cpuset": "cpuset",
    "memory": "memory",
    "blkio": "blkio",
    "net_cls": "net_cls",
}
_RESCTRL: Final = "sys/fs/resctrl"
_CONTROLLERS: Final = "cpuset cpu io memory pids\n"
_DEVICE_LINES: Final = re.compile(r"/(blkio\.(throttle|cost)|io\.)[^/]*$")
#: Where the cases have files of the kernel that are no cgroup's, and where the machine has them.
_KERNEL: Final = {"/fs/resctrl": "sys/fs/resctrl", "/proc/": "proc/", "/kernel/debug/": "sys/kernel/debug/"}


class RecordedTree:
    """The places of a case's files.

    Args:
        v2: whether the cgroups are those of version 2.
    """

    def __init__(self, *, v2: bool) -> None:
        self.v2 = v2

    def place(self, name: str) -> str:
        """Return the place of a case's file below the machine's root."""
        for front, place in _KERNEL.items():
            if name.startswith(front):
                return place + name.removeprefix(front)
        first, _, remaining = name.lstrip("/").partition("/")
        return f"{_TOP}/{name.lstrip('/')}" if self.v2 else f"{_TOP}/{_V1[first]}/{remaining}"

    def recorded_path(self, place: str) -> str:
        """Return the case's path of a file of the machine."""
        inside = place.lstrip("/")
        for front, start in _KERNEL.items():
            if inside.startswith(start):
                return front + inside.removeprefix(start)
        inside = inside.removeprefix(f"{_TOP}/")
        if self.v2:
            return f"/{inside}"
        first, _, remaining = inside.partition("/")
        return f"/{next(name for name, folder in _V1.items() if folder == first)}/{remaining}"

    def files(self, recorded: Mapping[str, str | None]) -> dict[str, str]:
        """Return the files of a case with what else is in their cgroups, by place."""
        files = {self.place(name): text or "" for name, text in recorded.items()}
        if not self.v2:
            return {**{f"{_TOP}/{folder}/": "" for folder in _V1.values()}, **files}
        files[f"{_TOP}/cgroup.controllers"] = _CONTROLLERS
        for name in list(files):
            folder = name.rpartition("/")[0]
            while folder.startswith(f"{_TOP}/"):
                files.setdefault(f"{folder}/cgroup.controllers", _CONTROLLERS)
                folder = folder.rpartition("/")[0]
        return files


class KernelRoot(Root):
    """Files that behave as the kernel's, with the writes that changed something."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: list[tuple[str, str]] = []

    def write(self, path: str, text: str) -> None:
        before = self.read(path)
        after = self._after(path, before, text)
        if after.split() == before.split():
            return
        self.writes.append((path, text.strip()))
        super().write(path, after)
        if path.endswith("/cpuset.cpus") and self.exists(f"{path}.effective"):
            super().write(f"{path}.effective", text)

    def _after(self, path: str, before: str, text: str) -> str:
        if path.endswith("/schemata"):
            lines = {line.partition(":")[0].strip(): line.strip().rstrip(";") for line in before.splitlines()}
            lines |= {line.partition(":")[0].strip(): line.strip().rstrip(";") for line in text.splitlines()}
            return "\n".join(lines.values())
        if path.startswith(f"/{_RESCTRL}") and path.endswith("/tasks"):
            for group in ("", *self.names(f"/{_RESCTRL}")):
                other = f"/{_RESCTRL}/{group}/tasks".replace("//", "/")
                if other != path and self.exists(other):
                    tasks = [task for task in self.read(other).split() if task not in text.split()]
                    super().write(other, "\n".join(tasks))
            return "\n".join(dict.fromkeys([*before.split(), *text.split()]))
        if _DEVICE_LINES.search(path):
            lines = {words[0]: line for line in before.splitlines() if len(words := line.split()) > 1}
            for line in text.splitlines():
                lines[line.split()[0]] = line
                if line.split()[1] in (["0", "default"] if "cost" not in path or "weight" in path else []):
                    del lines[line.split()[0]]
            return "\n".join(lines.values())
        if path.endswith("/cpu.max") and len(text.split()) == 1:
            return f"{text.strip()} {[*before.split(), '100000', '100000'][1]}"
        return text
