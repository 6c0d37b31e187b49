"""`/proc/PID/stat`, and the process groups of a container's processes.

Next: `nri.testing.hook_cases.original.sched_features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Stat", "parse_stat", "process_groups"]


class Stat(NamedTuple):
    """The beginning of a process's stat file."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int


def parse_stat(text: str) -> Stat:
    """Read a stat file; a name in parentheses may hold anything but a closing one. Raises ValueError."""
    before, mark, after = text.partition(")")
    number, opening, comm = before.partition("(")
    fields = after.split()
    if not mark or not opening or len(fields) < 3 or len(fields[0]) != 1:
        raise ValueError(f"{text[:40]!r} is no stat file of a process")
    return Stat(_number(number.strip()), comm, fields[0], _number(fields[1]), _number(fields[2]))


def process_groups(stats: Mapping[int, Stat | None]) -> list[int]:
    """Return the groups of processes, ascending; one whose leader is not among them stands for itself.

    `stats` is None for a process that is gone, which is passed over.
    """
    return sorted({stat.pgrp if stat.pgrp in stats else pid for pid, stat in stats.items() if stat is not None})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 32:
        raise ValueError(f"{text[:40]!r} is no process id")
    return int(text)
