"""Processes of the machine: their state, cgroups, start time and OOM score."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from nri.files import open_regular
from nri.host.outcome import Outcome, Result, explain
from nri.host.root import Root

#: The range of an OOM score; -1000 is never killed.
OOM_SCORES = range(-1000, 1001)
_NAME = "oom_score_adj"
#: Maximum number of bytes read from a file with one line.
_MAX_LINE_BYTES = 4096


class Process(NamedTuple):
    """A process, identified by pid and start time because pids are reused.

    Attributes:
        pid: the process id in the root's pid namespace.
        started: ticks from the machine's start to the start of the process.
    """

    pid: int
    started: int


class Stat(NamedTuple):
    """The used fields of /proc/PID/stat. `started` is 0 if the text is truncated."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int


def parse_stat(text: str) -> Stat:
    """Parse /proc/PID/stat, in which the name may contain blanks and parentheses. Raises ValueError if invalid."""
    number, opening, remainder = text.partition(" (")
    name, closing, after = remainder.rpartition(") ")
    words = after.split()
    if not opening or not closing or len(words) < 4 or len(words[0]) != 1:
        raise ValueError(f"{text[:80]!r} is not the content of /proc/PID/stat")
    parent, group, session = (int(word) for word in words[1:4])
    return Stat(int(number), name, words[0], parent, group, session, int(words[19]) if len(words) > 19 else 0)


def parse_cgroups(text: str) -> dict[str, str]:
    """Parse /proc/PID/cgroup: paths by controller; the key of cgroup v2 is ""."""
    rows = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {name: path for _, names, path in rows for name in names.split(",")}


def numbers(root: Root) -> list[int]:
    """The ids of all processes, ascending."""
    return sorted(int(name) for name in root.folders("/proc") if name.isascii() and name.isdigit())


def read_stat(root: Root, pid: int) -> Stat | None:
    """The current content of /proc/PID/stat. Returns None if the process has ended or the content is invalid."""
    return _stat(root, f"/proc/{pid}/stat")


def _stat(root: Root, path: str) -> Stat | None:
    text = root.find(path)
    try:
        return None if text is None else parse_stat(text)
    except ValueError:
        return None


def find(root: Root, pid: int) -> Process | None:
    """The process with this id, or None if it does not exist."""
    stat = read_stat(root, pid)
    return None if stat is None else Process(pid, stat.started)


def command_line(root: Root, pid: int) -> list[str]:
    """The arguments of a process. Returns an empty list if the process has ended."""
    text = root.find(f"/proc/{pid}/cmdline") or ""
    return text.removesuffix("\0").split("\0") if text else []


def environment(root: Root, pid: int) -> list[str] | None:
    """The initial environment of a process, as ``NAME=value``. Returns None if it cannot be read."""
    text = root.find(f"/proc/{pid}/environ")
    return None if text is None else text.removesuffix("\0").split("\0")


def io_bytes(root: Root, pid: int) -> int | None:
    """The number of bytes that a process has read and written. Returns None if the kernel does not report it."""
    rows = dict(line.split(": ", 1) for line in (root.find(f"/proc/{pid}/io") or "").splitlines() if ": " in line)
    values = [rows.get(key, "") for key in ("rchar", "wchar")]
    return sum(map(int, values)) if all(value.isdecimal() for value in values) else None


def has_socket(root: Root, pid: int, inode: str = "") -> bool:
    """Whether a process has an open socket (with this inode). Returns False if its descriptors cannot be read."""
    folder, prefix = f"/proc/{pid}/fd", f"socket:[{inode}]" if inode else "socket:"
    return any((root.link(f"{folder}/{name}") or "").startswith(prefix) for name in root.names(folder))


def thread_states(root: Root, pid: int) -> list[str]:
    """The states of all threads, each as a letter. Returns an empty list if the process has ended."""
    stats = (_stat(root, f"/proc/{pid}/task/{task}/stat") for task in root.folders(f"/proc/{pid}/task"))
    return [stat.state for stat in stats if stat is not None]


def children(root: Root, pid: int) -> list[int]:
    """The child processes of all threads of a process that have not been waited for."""
    texts = (root.find(f"/proc/{pid}/task/{task}/children") for task in root.folders(f"/proc/{pid}/task"))
    return [int(word) for text in texts for word in (text or "").split()]


def cgroups(root: Root, pid: int) -> dict[str, str] | None:
    """The cgroups of a process, by controller. Returns None if the process has ended."""
    text = root.find(f"/proc/{pid}/cgroup")
    return None if text is None else parse_cgroups(text)


def oom_score(root: Root, pid: int) -> int | None:
    """The OOM score adjustment of a process. Returns None if the process has ended."""
    text = root.find(f"/proc/{pid}/{_NAME}")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def set_oom_scores(root: Root, processes: Iterable[Process], score: int) -> list[Result]:
    """Set the OOM score of processes, -1000 to 1000. Returns a result for each process, without exceptions."""
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
            return Result(target, _NAME, score, Outcome.GONE, "another process has its id now")
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
    return Result(target, _NAME, score, Outcome.CLAMPED, f"the value reads back as {after}", before, after)


def _read(folder: int, name: str) -> str:
    with open(open_regular(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        return file.read(_MAX_LINE_BYTES).decode("utf-8", "surrogateescape")


def _write(folder: int, name: str, text: str) -> None:
    descriptor = open_regular(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_TRUNC, dir_fd=folder)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
