"""Every control of cgroup v2 that a plugin can set: how, and what the container's file then says.

Rules: all of them fit into one container, and each has a second value for an update; the setters are those that
Adjustment and Update share. The texts are the kernel's own. Controls of cgroup v1 are in controls_v1.py, and what is no
control of a cgroup in `nri.conformance.fields`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
#: Setter -> its one argument, or a list of calls with their arguments, in order or by name.
Setters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Control:
    """A file, what to call for it and what it says: at creation and after an update."""

    file: str
    setters: Setters
    text: str
    update: Setters
    updated: str


def unified(file: str, text: str, updated: str, says: str = "{}") -> Control:
    """A control by its file's own name."""
    calls = [{"add_unified": [[file, value]]} for value in (text, updated)]
    return Control(file, calls[0], says.format(text), calls[1], says.format(updated))


def disk_path() -> str:
    """A disk of this machine; empty without one."""
    return next(iter(sorted(map(str, Path("/dev").glob("[vs]d[a-z]")))), "")


def disk() -> str:
    """The number of that disk, as io.max wants it; `0:0` without one."""
    number = os.stat(disk_path()).st_rdev if disk_path() else 0
    return f"{os.major(number)}:{os.minor(number)}"


CONTROLS = {
    # An update lowers it: the sum of memory and swap stays what it was, and runc refuses a higher limit.
    "memory.max": Control(
        "memory.max", {"set_memory_limit": 96 * MIB}, str(96 * MIB), {"set_memory_limit": 90 * MIB}, str(90 * MIB)
    ),
    "memory.high": unified("memory.high", str(80 * MIB), str(88 * MIB)),
    "memory.low": unified("memory.low", str(16 * MIB), str(24 * MIB)),
    "memory.min": unified("memory.min", str(4 * MIB), str(8 * MIB)),
    # Shares become weights: 1 + (shares - 2) * 9999 / 262142.
    "cpu.weight": Control("cpu.weight", {"set_cpu_shares": 512}, "20", {"set_cpu_shares": 2048}, "79"),
    "cpu.max": Control(
        "cpu.max",
        {"set_cpu_quota": 30_000, "set_cpu_period": 60_000},
        "30000 60000",
        {"set_cpu_quota": 40_000, "set_cpu_period": 80_000},
        "40000 80000",
    ),
    "cpuset.cpus": Control("cpuset.cpus", {"set_cpuset_cpus": "1"}, "1", {"set_cpuset_cpus": "0-1"}, "0-1"),
    "cpuset.mems": Control("cpuset.mems", {"set_cpuset_mems": "1"}, "1", {"set_cpuset_mems": "0-1"}, "0-1"),
    "pids.max": Control("pids.max", {"set_pids_limit": 55}, "55", {"set_pids_limit": 66}, "66"),
    "hugetlb.2MB.max": Control(
        "hugetlb.2MB.max",
        {"add_hugepage_limit": [["2MB", 4 * MIB]]},
        str(4 * MIB),
        {"add_hugepage_limit": [["2MB", 8 * MIB]]},
        str(8 * MIB),
    ),
    "io.weight": unified("io.weight", "default 200", "default 300"),
    "io.max": unified("io.max", f"{disk()} rbps={MIB}", f"{disk()} rbps={2 * MIB}", "{} wbps=max riops=max wiops=max"),
}
"""Control by its file."""


def together(part: str, controls: Mapping[str, Control] = CONTROLS) -> Setters:
    """All `setters`, or all `update`s, as one."""
    setters: Setters = {}
    for control in controls.values():
        for name, value in getattr(control, part).items():
            setters[name] = [*setters.get(name, []), *value] if isinstance(value, list) else value
    return setters


def call(builder: Any, setters: Setters) -> Any:
    """Call an Adjustment's or an Update's setters; returns it."""
    for name, value in setters.items():
        for arguments in value if isinstance(value, list) else [[value]]:
            setter = getattr(builder, name)
            setter(**arguments) if isinstance(arguments, dict) else setter(*arguments)
    return builder
