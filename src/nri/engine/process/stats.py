"""Read the resource use of a container from its cgroup and /proc: processor time, memory, processes, network.

A value that the kernel does not report is None, never 0. The working set is the memory use without inactive file pages,
as in the kubelet.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nri.host.cgroups import expand
from nri.host.cgroups.hierarchies import inner_folder
from nri.host.process import cgroups
from nri.host.root import MACHINE
from nri.text import plain

CGROUPS = Path("/sys/fs/cgroup")
#: cgroup v1 writes the largest page-aligned number for "no limit".
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """One reading. A value is None if the kernel does not report it."""

    cpu_usage_ns: int | None = None
    memory_usage_bytes: int | None = None
    memory_limit_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    swap_usage_bytes: int | None = None
    swap_limit_bytes: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """The counters of one network interface."""

    name: str
    rx_bytes: int
    rx_errors: int
    tx_bytes: int
    tx_errors: int
    rx_packets: int = 0
    rx_dropped: int = 0
    tx_packets: int = 0
    tx_dropped: int = 0


def read_stats(pid: int, root: Path = CGROUPS, cgroup: str = "") -> ContainerStats:
    """Read the statistics of a container. Raises FileNotFoundError if its main process has ended.

    Args:
        pid: the main process.
        root: the mount point of cgroups.
        cgroup: see `cgroups_of`.
    """
    folders = cgroups_of(pid, root, cgroup)
    return stats_v1(folders) if "memory" in folders else stats_v2(folders[""])


def read_interfaces(pid: int) -> list[InterfaceStats]:
    """Read the network interfaces in a process's namespace. Raises FileNotFoundError if the process has ended."""
    return parse_interfaces(MACHINE.read(f"/proc/{pid}/net/dev"))


def cgroups_of(pid: int, root: Path = CGROUPS, cgroup: str = "") -> dict[str, Path]:
    """Return the folders of a container's cgroups by controller. With cgroup v2 the only key is "".

    Args:
        pid: the main process, which may have moved below the container's cgroup, as systemd does.
        root: the mount point of cgroups.
        cgroup: the container's cgroup, as the OCI runtime received it.

    Raises:
        FileNotFoundError: the process has ended.
    """
    paths = cgroups(MACHINE, pid)
    if paths is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{pid}")
    with suppress(ValueError):  # `cgroup` is not a valid path, so it cannot be compared
        top = f"/{expand(cgroup)}/"
        paths = {name: top if f"{path}/".startswith(top) else path for name, path in paths.items()}
    if "memory" not in paths:
        return {"": Path(inner_folder(MACHINE, str(root / paths.get("", "").strip("/"))))}
    return {name: root / name / path.strip("/") for name, path in paths.items() if name}


def parse_interfaces(text: str) -> list[InterfaceStats]:
    """Parse /proc/PID/net/dev, which starts with two heading lines."""
    interfaces = []
    for line in text.split("\n")[2:]:
        name, _, numbers = plain(line).partition(":")  # containers choose the names
        row = [int(word) for word in numbers.split()]
        if len(row) >= 12:
            interfaces.append(
                InterfaceStats(name.strip(), row[0], row[2], row[8], row[10], row[1], row[3], row[9], row[11])
            )
    return interfaces


def stats_v1(paths: Mapping[str, Path]) -> ContainerStats:
    """Read the statistics of cgroup v1; `paths` are the folders of the controllers."""
    memory = paths.get("memory", Path("/nonexistent"))
    table = _table(memory / "memory.stat")
    usage = _number(memory / "memory.usage_in_bytes")
    with_swap = _number(memory / "memory.memsw.usage_in_bytes")
    limit, swap_limit = _limit(memory / "memory.limit_in_bytes"), _limit(memory / "memory.memsw.limit_in_bytes")
    return ContainerStats(
        cpu_usage_ns=_number(paths.get("cpuacct", Path("/nonexistent")) / "cpuacct.usage"),
        memory_usage_bytes=usage,
        memory_limit_bytes=limit,
        working_set_bytes=_difference(usage, table.get("total_inactive_file", 0)),
        rss_bytes=table.get("total_rss"),
        page_faults=table.get("total_pgfault"),
        major_page_faults=table.get("total_pgmajfault"),
        swap_usage_bytes=_difference(with_swap, usage),
        swap_limit_bytes=_difference(swap_limit, limit),
        processes=_number(paths.get("pids", Path("/nonexistent")) / "pids.current"),
    )


def stats_v2(folder: Path) -> ContainerStats:
    """Read the statistics of cgroup v2."""
    table = _table(folder / "memory.stat")
    usage = _number(folder / "memory.current")
    micros = _table(folder / "cpu.stat").get("usage_usec")
    return ContainerStats(
        cpu_usage_ns=None if micros is None else micros * 1000,
        memory_usage_bytes=usage,
        memory_limit_bytes=_limit(folder / "memory.max"),
        working_set_bytes=_difference(usage, table.get("inactive_file", 0)),
        rss_bytes=table.get("anon"),
        page_faults=table.get("pgfault"),
        major_page_faults=table.get("pgmajfault"),
        swap_usage_bytes=_number(folder / "memory.swap.current"),
        swap_limit_bytes=_limit(folder / "memory.swap.max"),
        processes=_number(folder / "pids.current"),
    )


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _limit(path: Path) -> int | None:
    limit = _number(path)
    return None if limit is None or limit >= _NO_LIMIT else limit


def _difference(total: int | None, part: int | None) -> int | None:
    return None if total is None or part is None else max(total - part, 0)


def _table(path: Path) -> dict[str, int]:
    """Parse a file of names and numbers; empty if it does not exist."""
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
