"""All that the kernel counts for a container, for metrics: more than the few numbers that statistics have.

Both cgroup versions give the same names; what a kernel does not count is left out, never 0; a limit that is none
is 0. Pure parsers under one function that reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nri.engine.process.stats import CGROUPS, cgroups_of

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_NO_LIMIT = 1 << 62
_NONE = Path("/nonexistent")
#: So many descriptors of a container are counted, and so many of its cgroups looked into.
MOST_DESCRIPTORS, _MOST_CGROUPS = 50_000, 1000


class Transfer(NamedTuple):
    """Bytes and operations between a container and one block device, given as ``major:minor``."""

    device: str
    read_bytes: int = 0
    reads: int = 0
    write_bytes: int = 0
    writes: int = 0


class Counters(NamedTuple):
    """One reading. `numbers` by name: times in nanoseconds unless the name says otherwise, sizes in bytes."""

    numbers: dict[str, int]
    transfers: list[Transfer]


def read_counters(pid: int, root: Path = CGROUPS, own: str = "") -> Counters:
    """Read what is counted for a container; the words, and the error, are those of `cgroups_of`.

    Of one with more descriptors than can be counted at each reading there are at least as many as it says.
    """
    folders = cgroups_of(pid, root, own)
    found = counters_v1(folders) if "memory" in folders else counters_v2(folders[""])
    pids = _processes(folders["memory"] if "memory" in folders else folders[""])
    descriptors = sockets = 0
    for target in islice((target for each in pids for target in _descriptors(each)), MOST_DESCRIPTORS):
        descriptors += 1
        sockets += target.startswith("socket:")
    found.numbers.update(processes=len(pids), file_descriptors=descriptors, sockets=sockets)
    return found


def counters_v1(paths: Mapping[str, Path]) -> Counters:
    """A reading of cgroup v1; `paths` are the folders of the controllers."""
    cpu, memory = paths.get("cpu", _NONE), paths.get("memory", _NONE)
    ticks, quota = _table(paths.get("cpuacct", _NONE) / "cpuacct.stat"), _table(cpu / "cpu.stat")
    table = _table(memory / "memory.stat")
    numbers = {
        "cpu_user": _times(ticks.get("user"), _NS_PER_TICK),
        "cpu_system": _times(ticks.get("system"), _NS_PER_TICK),
        "periods": quota.get("nr_periods"),
        "throttled_periods": quota.get("nr_throttled"),
        "throttled": quota.get("throttled_time"),
        "cpu_shares": _number(cpu / "cpu.shares"),
        "cpu_period_us": _number(cpu / "cpu.cfs_period_us"),
        "cache": table.get("total_cache"),
        "mapped": table.get("total_mapped_file"),
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
    return Counters(_there(numbers), _transfers_v1(paths.get("blkio", _NONE)))


def counters_v2(folder: Path) -> Counters:
    """A reading of cgroup v2."""
    cpu, table, events = (_table(folder / name) for name in ("cpu.stat", "memory.stat", "memory.events"))
    weight = _number(folder / "cpu.weight")
    period = _text(folder / "cpu.max").split()
    numbers = {
        "cpu_user": _times(cpu.get("user_usec"), 1000),
        "cpu_system": _times(cpu.get("system_usec"), 1000),
        "periods": cpu.get("nr_periods"),
        "throttled_periods": cpu.get("nr_throttled"),
        "throttled": _times(cpu.get("throttled_usec"), 1000),
        # The same line that runtimes draw between the two scales: shares 2 to 262144, weights 1 to 10000.
        "cpu_shares": None if weight is None else (weight - 1) * 262142 // 9999 + 2,
        "cpu_period_us": int(period[1]) if len(period) == 2 else None,
        "cache": table.get("file"),
        "mapped": table.get("file_mapped"),
        "memory_kernel": table.get("kernel"),
        "memory_max": _number(folder / "memory.peak"),
        "memory_failures": events.get("max"),
        "memory_limit": _number(folder / "memory.max"),
        "swap_limit": _number(folder / "memory.swap.max"),
        "ooms": events.get("oom_kill"),
        "page_faults": table.get("pgfault"),
        "major_page_faults": table.get("pgmajfault"),
        **_threads(folder),
    }
    return Counters(_there(numbers), _transfers_v2(_text(folder / "io.stat").splitlines()))


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
    found = []
    for device, *pairs in (line.split() for line in lines if line.strip()):
        row = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        numbers = (int(row.get(name, 0)) for name in ("rbytes", "rios", "wbytes", "wios"))
        found.append(Transfer(device, *numbers))
    return found


def _processes(folder: Path) -> list[str]:
    """The processes of a cgroup and of those below it, of which a container may have made any number."""
    found, waiting, looked = list[str](), [folder], 0
    while waiting and looked < _MOST_CGROUPS:
        below, looked = waiting.pop(), looked + 1
        found += _text(below / "cgroup.procs").split()
        with suppress(OSError), os.scandir(below) as entries:
            waiting += [Path(each.path) for each in entries if each.is_dir(follow_symlinks=False)]
    return found


def _descriptors(pid: str) -> Iterator[str]:
    """The targets of a process's open descriptors; none if it is gone."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:  # it may end just now
        for entry in entries:
            with suppress(OSError):  # closed just now
                yield os.readlink(entry.path)


def _there(numbers: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if value is not None}


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def _number(path: Path) -> int | None:
    """The number in a file; 0 for a limit that is none."""
    text = _text(path).strip()
    if text == "max":
        return 0
    return None if not text.isdecimal() else int(text) if int(text) < _NO_LIMIT else 0


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
