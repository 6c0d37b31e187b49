"""Read the kernel's counters of a container, for metrics.

The names are the same for both cgroup versions. A counter that the kernel does not have is left out. A missing limit is
reported as 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nri.engine.process.stats import CGROUPS, cgroups_of

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: cgroup v1 writes a huge number for "no limit".
_NO_LIMIT = 1 << 62
_NONE = Path("/nonexistent")
#: The rows of a pressure file, and the names of their times.
_WAITS = {"some": "waiting", "full": "stalled"}
_OPEN_FILES = "Max open files"
#: The maximum number of descriptors that are counted, and of a container's cgroups that are read.
MAX_DESCRIPTORS, _MAX_CGROUPS = 50_000, 1000


class Transfer(NamedTuple):
    """Bytes and operations of a container on a block device. `device` is ``MAJOR:MINOR``."""

    device: str
    read_bytes: int = 0
    reads: int = 0
    write_bytes: int = 0
    writes: int = 0


class HugePages(NamedTuple):
    """A container's huge pages of one size, for example ``2MB``. `max_bytes` is None on cgroup v2."""

    size: str
    usage_bytes: int
    max_bytes: int | None


class Counters(NamedTuple):
    """One reading. `numbers` has times in nanoseconds, unless the name has another unit, and sizes in bytes."""

    numbers: dict[str, int]
    transfers: list[Transfer]
    huge_pages: Sequence[HugePages] = ()


def read_counters(pid: int, root: Path = CGROUPS, cgroup: str = "") -> Counters:
    """Read the counters of a container. Arguments and errors are those of `cgroups_of`.

    With too many descriptors to count, their number is a lower bound.
    """
    folders = cgroups_of(pid, root, cgroup)
    counters = counters_v1(folders) if "memory" in folders else counters_v2(folders[""])
    pids = _processes(folders["memory"] if "memory" in folders else folders[""])
    descriptors = sockets = 0
    for target in islice((target for process in pids for target in _descriptors(process)), MAX_DESCRIPTORS):
        descriptors += 1
        sockets += target.startswith("socket:")
    counters.numbers.update(processes=len(pids), file_descriptors=descriptors, sockets=sockets)
    if (limit := _open_files_limit(pid)) is not None:
        counters.numbers["open_files_limit"] = limit
    return counters


def counters_v1(paths: Mapping[str, Path]) -> Counters:
    """Read the counters of cgroup v1; `paths` are the folders of the controllers."""
    cpu, memory = paths.get("cpu", _NONE), paths.get("memory", _NONE)
    ticks, quota = _table(paths.get("cpuacct", _NONE) / "cpuacct.stat"), _table(cpu / "cpu.stat")
    table = _table(memory / "memory.stat")
    numbers = {
        "cpu_user": _scaled_value(ticks.get("user"), _NS_PER_TICK),
        "cpu_system": _scaled_value(ticks.get("system"), _NS_PER_TICK),
        "periods": quota.get("nr_periods"),
        "throttled_periods": quota.get("nr_throttled"),
        "throttled": quota.get("throttled_time"),
        "cpu_shares": _number(cpu / "cpu.shares"),
        "cpu_period_us": _number(cpu / "cpu.cfs_period_us"),
        "cpu_quota_us": 0 if _text(cpu / "cpu.cfs_quota_us").strip() == "-1" else _number(cpu / "cpu.cfs_quota_us"),
        "cache": table.get("total_cache"),
        "mapped": table.get("total_mapped_file"),
        "active_file": table.get("total_active_file"),
        "inactive_file": table.get("total_inactive_file"),
        "memory_reservation": _number(memory / "memory.soft_limit_in_bytes"),
        "memory_kernel": _number(memory / "memory.kmem.usage_in_bytes"),
        "memory_max": _number(memory / "memory.max_usage_in_bytes"),
        "memory_failures": _number(memory / "memory.failcnt"),
        "memory_limit": _number(memory / "memory.limit_in_bytes"),
        "swap_limit": _number(memory / "memory.memsw.limit_in_bytes"),
        "ooms": _table(memory / "memory.oom_control").get("oom_kill"),
        "page_faults": table.get("total_pgfault"),
        "major_page_faults": table.get("total_pgmajfault"),
        **_threads(paths.get("pids", _NONE)),
    }
    huge_pages = _huge_pages(paths.get("hugetlb", _NONE), "usage_in_bytes", "max_usage_in_bytes")
    return Counters(_without_none(numbers), _transfers_v1(paths.get("blkio", _NONE)), huge_pages)


def counters_v2(folder: Path) -> Counters:
    """Read the counters of cgroup v2."""
    cpu, table, events = (_table(folder / name) for name in ("cpu.stat", "memory.stat", "memory.events"))
    weight = _number(folder / "cpu.weight")
    quota = _text(folder / "cpu.max").split()
    numbers = {
        "cpu_user": _scaled_value(cpu.get("user_usec"), 1000),
        "cpu_system": _scaled_value(cpu.get("system_usec"), 1000),
        "periods": cpu.get("nr_periods"),
        "throttled_periods": cpu.get("nr_throttled"),
        "throttled": _scaled_value(cpu.get("throttled_usec"), 1000),
        # The linear scale that runtimes use: shares from 2 to 262144, weights from 1 to 10000.
        "cpu_shares": None if weight is None else (weight - 1) * 262142 // 9999 + 2,
        "cpu_period_us": int(quota[1]) if len(quota) == 2 else None,
        "cpu_quota_us": (0 if quota[0] == "max" else int(quota[0])) if len(quota) == 2 else None,
        "cache": table.get("file"),
        "mapped": table.get("file_mapped"),
        "active_file": table.get("active_file"),
        "inactive_file": table.get("inactive_file"),
        "memory_reservation": _number(folder / "memory.low"),
        "memory_kernel": table.get("kernel"),
        "memory_max": _number(folder / "memory.peak"),
        "memory_failures": events.get("max"),
        "memory_limit": _number(folder / "memory.max"),
        "swap_limit": _number(folder / "memory.swap.max"),
        "ooms": events.get("oom_kill"),
        "page_faults": table.get("pgfault"),
        "major_page_faults": table.get("pgmajfault"),
        **_threads(folder),
        **_pressure(folder),
    }
    transfers = _transfers_v2(_text(folder / "io.stat").splitlines())
    return Counters(_without_none(numbers), transfers, _huge_pages(folder, "current", ""))


def _pressure(folder: Path) -> dict[str, int]:
    """Return the times in which some processes, or all, waited for a resource; {} if the kernel does not count them."""
    numbers = {}
    for kind in ("cpu", "memory", "io"):
        for line in _text(folder / f"{kind}.pressure").splitlines():
            waiters, *pairs = line.split()
            total = dict(pair.split("=", 1) for pair in pairs if "=" in pair).get("total", "")
            if waiters in _WAITS and total.isdecimal():
                numbers[f"{kind}_{_WAITS[waiters]}"] = int(total) * 1000
    return numbers


def _huge_pages(folder: Path, usage: str, max_usage: str) -> list[HugePages]:
    """Return the use of each size of huge pages; `usage` and `max_usage` are the ends of the names of files."""
    rows = []
    for path in sorted(folder.glob(f"hugetlb.*.{usage}")):
        size = path.name.split(".")[1]
        number = _number(path)
        if number is not None and path.name == f"hugetlb.{size}.{usage}":
            rows.append(HugePages(size, number, _number(folder / f"hugetlb.{size}.{max_usage}") if max_usage else None))
    return rows


def _open_files_limit(pid: int) -> int | None:
    """Return a process's soft limit of open files; None without a limit."""
    line = next((line for line in _text(Path(f"/proc/{pid}/limits")).splitlines() if line.startswith(_OPEN_FILES)), "")
    words = line.removeprefix(_OPEN_FILES).split()
    return int(words[0]) if words and words[0].isdecimal() else None


def _threads(folder: Path) -> dict[str, int | None]:
    return {"threads": _number(folder / "pids.current"), "threads_max": _number(folder / "pids.max")}


def _transfers_v1(folder: Path) -> list[Transfer]:
    rows: dict[str, dict[str, int]] = {}
    for file, names in (
        ("blkio.throttle.io_service_bytes", {"Read": "read_bytes", "Write": "write_bytes"}),
        ("blkio.throttle.io_serviced", {"Read": "reads", "Write": "writes"}),
    ):
        for line in _text(folder / file).splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in names:
                rows.setdefault(words[0], {})[names[words[1]]] = int(words[2])
    return [Transfer(device, **row) for device, row in rows.items()]


def _transfers_v2(lines: Iterable[str]) -> list[Transfer]:
    transfers = []
    for device, *pairs in (line.split() for line in lines if line.strip()):
        row = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        numbers = (int(row.get(name, 0)) for name in ("rbytes", "rios", "wbytes", "wios"))
        transfers.append(Transfer(device, *numbers))
    return transfers


def _processes(folder: Path) -> list[str]:
    """Return the pids in a cgroup and in the cgroups below it. A container may create any number of cgroups."""
    pids, pending, count = list[str](), [folder], 0
    while pending and count < _MAX_CGROUPS:
        cgroup, count = pending.pop(), count + 1
        pids += _text(cgroup / "cgroup.procs").split()
        with suppress(OSError), os.scandir(cgroup) as entries:
            pending += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return pids


def _descriptors(pid: str) -> Iterator[str]:
    """Yield the targets of a process's open descriptors."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:  # the process may have ended
        for entry in entries:
            with suppress(OSError):  # the descriptor may have been closed
                yield os.readlink(entry.path)


def _without_none(numbers: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if value is not None}


def _scaled_value(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def _number(path: Path) -> int | None:
    """Return the number in a file, 0 for a limit that is not set, or None if there is no number."""
    text = _text(path).strip()
    if text == "max":
        return 0
    if not text.isdecimal():
        return None
    number = int(text)
    return number if number < _NO_LIMIT else 0


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
