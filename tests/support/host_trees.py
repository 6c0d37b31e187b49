"""Root folders of machines that are not there: cgroups of version 1, 2 and both, made of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nri.host import Root

TOP = "sys/fs/cgroup"
V1 = ("cpu,cpuacct", "cpuset", "memory", "pids", "blkio", "net_cls")
#: The files of one cgroup, by controller on version 1.
FILES_V1 = {
    "cpu,cpuacct": {
        "cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpuacct.usage": "7",
    },
    "cpuset": {"cpuset.cpus": "0-3", "cpuset.mems": "0", "cpuset.effective_cpus": "0-3"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "8192"},
    "pids": {"pids.max": "max"},
    "blkio": {"blkio.throttle.read_bps_device": ""},
    "net_cls": {"net_cls.classid": "0"},
}  # fmt: skip
FILES_V2 = {
    "cpu.weight": "100", "cpu.max": "max 100000", "cpu.idle": "0", "cpuset.cpus": "", "cpuset.cpus.effective": "0-3",
    "memory.max": "max", "memory.low": "0", "pids.max": "max", "io.max": "", "cpu.pressure": "",
}  # fmt: skip


def write_files(folder: Path, files: Mapping[str, str]) -> Root:
    """A root with these files, by path below it; a path that ends in a slash is a folder."""
    for name, text in files.items():
        path = folder / name.lstrip("/")
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return Root(folder)


def v1(folder: Path, *cgroups: str, unified: bool = False) -> Root:
    """A machine with cgroup v1 and these cgroups; with `unified` also version 2, as systemd's hybrid layout has it."""
    files: dict[str, str] = {}
    for controllers in V1:
        for cgroup in ("", *cgroups):
            base = f"{TOP}/{controllers}/{cgroup}".rstrip("/")
            files |= {f"{base}/{name}": f"{text}\n" for name, text in FILES_V1[controllers].items()}
            files |= {f"{base}/cgroup.procs": "", f"{base}/tasks": ""}
    if unified:
        for cgroup in ("", *cgroups):
            base = f"{TOP}/unified/{cgroup}".rstrip("/")
            files |= {f"{base}/cgroup.controllers": "hugetlb\n", f"{base}/cgroup.procs": ""}
    return write_files(folder, files)


def v2(folder: Path, *cgroups: str) -> Root:
    """A machine with cgroup v2 and these cgroups."""
    controllers = "cpuset cpu io memory pids\n"
    files = {f"{TOP}/cgroup.controllers": controllers, f"{TOP}/cgroup.procs": ""}
    for cgroup in cgroups:
        base = f"{TOP}/{cgroup}"
        files |= {f"{base}/{name}": f"{text}\n" for name, text in FILES_V2.items()}
        files |= {f"{base}/cgroup.controllers": controllers, f"{base}/cgroup.procs": "", f"{base}/cgroup.threads": ""}
    return write_files(folder, files)
