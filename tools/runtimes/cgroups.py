"""Values of a process's cgroup files, on either cgroup version."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def memory_limit(pid: int) -> str:
    """The memory limit in bytes of a process's cgroup; `max` or a huge number means unlimited."""
    return read(pid, "memory", "memory.limit_in_bytes", "memory.max")


def read(pid: int, controller: str, v1_file: str, v2_file: str) -> str:
    """One control file of a process's cgroup, by its name on each cgroup version."""
    folders = dict(_memberships(pid))
    if controller in folders:
        return (CGROUPS / controller / folders[controller] / v1_file).read_text().strip()
    return (CGROUPS / folders[""] / v2_file).read_text().strip()


def read_unified(pid: int, file: str) -> str:
    """One control file of a process's cgroup of version 2."""
    return (CGROUPS / dict(_memberships(pid))[""] / file).read_text().strip()


def is_v1(pid: int, controller: str) -> bool:
    """Whether that controller is on cgroup version 1."""
    return controller in dict(_memberships(pid))


def _memberships(pid: int) -> list[tuple[str, str]]:
    """(controller, folder) of a process; the version 2 hierarchy's controller is the empty text."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return [
        (controller, folder.lstrip("/"))
        for _, controllers, folder in (line.split(":", 2) for line in lines)
        for controller in controllers.split(",")
    ]
