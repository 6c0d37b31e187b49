"""Processes of the machine: their cgroups, their groups, when they began, their OOM score.

Rules: a process is its number and the tick at which it began, because numbers are given again; a write goes to the
folder of /proc that was opened and compared before, so that it never meets another process. Reading one that has
ended is None. Next: :mod:`nri.host.core_sched`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from nri.files import open_regular
from nri.host.outcome import Outcome, Result, explain
from nri.host.root import Root

__all__ = [
    "OOM_SCORES",
    "Process",
    "Stat",
    "cgroups",
    "children",
    "command_line",
    "environment",
    "find",
    "has_socket",
    "numbers",
    "oom_score",
    "parse_cgroups",
    "parse_stat",
    "read_stat",
    "set_oom_scores",
    "thread_states",
]

#: The range of an OOM score; -1000 is never killed.
OOM_SCORES = range(-1000, 1001)
_NAME = "oom_score_adj"
#: Bytes that are read of a file with one line.
_LINE = 4096


class Process(NamedTuple):
    """A process that is not another one later.

    Attributes:
        pid: its number, as the root sees it.
        started: the ticks from the machine's start to its own.
    """

    pid: int
    started: int


class Stat(NamedTuple):
    """The part of /proc/PID/stat that is used here. `started` is 0 in a text that does not go that far."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int


def parse_stat(text: str) -> Stat:
    """Read /proc/PID/stat; the name in it may have blanks and parentheses. Raises ValueError."""
    number, opening, rest = text.partition(" (")
    name, closing, after = rest.rpartition(") ")
    words = after.split()
    if not opening or not closing or len(words) < 4 or len(words[0]) != 1:
        raise ValueError(f"{text[:80]!r} is not what /proc/PID/stat says")
    parent, group, session = (int(word) for word in words[1:4])
    return Stat(int(number), name, words[0], parent, group, session, int(words[19]) if len(words) > 19 else 0)


def parse_cgroups(text: str) -> dict[str, str]:
    """/proc/PID/cgroup: controller to path; the path of cgroup v2 has the empty name."""
    rows = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {name: path for _, names, path in rows for name in names.split(",")}


def numbers(root: Root) -> list[int]:
    """The numbers of all processes, ascending."""
    return sorted(int(name) for name in root.folders("/proc") if name.isascii() and name.isdigit())


def read_stat(root: Root, pid: int) -> Stat | None:
    """The present content of /proc/PID/stat; None of a process that has ended, or if it is not understood."""
    return _stat(root, f"/proc/{pid}/stat")


def _stat(root: Root, path: str) -> Stat | None:
    text = root.find(path)
    try:
        return None if text is None else parse_stat(text)
    except ValueError:
        return None


def find(root: Root, pid: int) -> Process | None:
    """The process that has this number now; None if none has, or its entry is not understood."""
    stat = read_stat(root, pid)
    return None if stat is None else Process(pid, stat.started)


def command_line(root: Root, pid: int) -> list[str]:
    """The words of a process's command line; none of one that has ended."""
    text = root.find(f"/proc/{pid}/cmdline") or ""
    return text.removesuffix("\0").split("\0") if text else []


def environment(root: Root, pid: int) -> list[str] | None:
    """The environment that a process was started with, as ``NAME=value``; None if it ended or is not for us."""
    text = root.find(f"/proc/{pid}/environ")
    return None if text is None else text.removesuffix("\0").split("\0")


def has_socket(root: Root, pid: int, inode: str = "") -> bool:
    """Whether a process has a socket open, or the one with this inode; false also where we may not know."""
    folder, wanted = f"/proc/{pid}/fd", f"socket:[{inode}]" if inode else "socket:"
    return any((root.link(f"{folder}/{name}") or "").startswith(wanted) for name in root.names(folder))


def thread_states(root: Root, pid: int) -> list[str]:
    """The states of all threads, a letter each; none of a process that has ended."""
    stats = (_stat(root, f"/proc/{pid}/task/{task}/stat") for task in root.folders(f"/proc/{pid}/task"))
    return [stat.state for stat in stats if stat is not None]


def children(root: Root, pid: int) -> list[int]:
    """The processes that the threads of a process have started and that have not been waited for."""
    texts = (root.find(f"/proc/{pid}/task/{task}/children") for task in root.folders(f"/proc/{pid}/task"))
    return [int(word) for text in texts for word in (text or "").split()]


def cgroups(root: Root, pid: int) -> dict[str, str] | None:
    """The cgroups of a process, by controller; None if it has ended."""
    text = root.find(f"/proc/{pid}/cgroup")
    return None if text is None else parse_cgroups(text)


def oom_score(root: Root, pid: int) -> int | None:
    """The badness by which the kernel chooses a process to kill when memory runs out; None if it has ended."""
    text = root.find(f"/proc/{pid}/{_NAME}")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def set_oom_scores(root: Root, processes: Iterable[Process], score: int) -> list[Result]:
    """Set the OOM score of processes, -1000 to 1000; one result for each, never an error."""
    return [_set_oom_score(root, process, score) for process in processes]


def _set_oom_score(root: Root, process: Process, score: int) -> Result:
    target = f"process {process.pid}"
    if score not in OOM_SCORES:
        return Result(target, _NAME, score, Outcome.REFUSED, f"{score} is not between -1000 and 1000")
    try:
        folder = root.open(f"/proc/{process.pid}", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        return Result(target, _NAME, score, *explain(error))
    try:
        if parse_stat(_read(folder, "stat")).started != process.started:
            return Result(target, _NAME, score, Outcome.GONE, "another process has its number now")
        before = int(_read(folder, _NAME))
        if before == score:
            return Result(target, _NAME, score, Outcome.UNCHANGED, before=before, after=before)
        _write(folder, _NAME, str(score))
        after = int(_read(folder, _NAME))
    except OSError as error:
        return Result(target, _NAME, score, *explain(error))
    except ValueError as error:
        return Result(target, _NAME, score, Outcome.UNSUPPORTED, str(error))
    finally:
        os.close(folder)
    if after == score:
        return Result(target, _NAME, score, Outcome.APPLIED, before=before, after=after)
    return Result(target, _NAME, score, Outcome.CLAMPED, f"it reads back as {after}", before, after)


def _read(folder: int, name: str) -> str:
    with open(open_regular(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        return file.read(_LINE).decode("utf-8", "surrogateescape")


def _write(folder: int, name: str, text: str) -> None:
    descriptor = open_regular(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_TRUNC, dir_fd=folder)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
