"""Files of a cgroup on either cgroup version, by their names on version 1 and in its words.

Rules: one table. What the tests ask for has a row; a controller that is on version 1 has its file there, also on a
hybrid machine. Next: :mod:`tests.agent.node`, whose cgroups these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.runtimes.cgroups import CGROUPS, read

#: Whether cgroups have version 2 alone.
UNIFIED: Final = (CGROUPS / "cgroup.controllers").exists()


@dataclass(frozen=True, slots=True)
class File:
    """A file: its controller, its name on version 2, and both directions between the words of the versions."""

    controller: str
    v2_name: str
    said: Callable[[str], str] = str
    written: Callable[[str], str] = str


def weight(shares: int) -> int:
    """CPU shares as a weight of version 2, by the formula of KEP-2254."""
    return 1 + (shares - 2) * 9999 // 262142


#: Several shares have the same weight: these are the ones that tests ask for.
_SHARES = {str(weight(shares)): str(shares) for shares in (2, 10, 200, 300, 512, 1024)}


def _quota(text: str) -> str:
    """The quota of `cpu.max`, which has the period as well."""
    quota = text.split(maxsplit=1)[0]
    return "-1" if quota == "max" else quota


FILES: Final = {
    "cpu.shares": File(
        "cpu",
        "cpu.weight",
        lambda text: _SHARES.get(text, f"weight {text}"),
        lambda text: str(weight(int(text))),
    ),
    "cpu.cfs_quota_us": File("cpu", "cpu.max", _quota, lambda text: "max" if text == "-1" else text),
    "cpu.idle": File("cpu", "cpu.idle"),
    "memory.limit_in_bytes": File("memory", "memory.max"),
    # On version 2 an empty one has what the cgroup above has.
    "cpuset.cpus": File("cpuset", "cpuset.cpus.effective"),
}
#: What a container's process writes down of itself.
_RECORDED: Final = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")


def of_process(pid: int, name: str) -> str:
    """A file of a process's cgroup."""
    file = FILES[name]
    text = read(pid, file.controller, name, file.v2_name)
    return file.said(text) if UNIFIED else text


def of_cgroup(folder: str, name: str) -> str:
    """A file of a cgroup by its path, without the leading slash."""
    text = _path(folder, name).read_text().strip()
    return FILES[name].said(text) if UNIFIED else text


def overwrite(folder: str, name: str, text: str) -> None:
    """Write a file of a cgroup, as somebody else."""
    _path(folder, name).write_text(FILES[name].written(text) if UNIFIED else text)


def record(*more: str) -> tuple[str, ...]:
    """A command that first of all writes down its shares, quota and memory, then what more there is, and stays."""
    paths = [f"/sys/fs/cgroup/{_below(name)}" for name in _RECORDED]
    return ("sh", "-c", "; ".join([f"cat {' '.join(paths)}", *more, "sleep 1000"]))


def recorded(lines: list[str]) -> list[str]:
    """What such a command has written down."""
    if not UNIFIED:
        return lines
    return [*(FILES[name].said(line) for name, line in zip(_RECORDED, lines, strict=False)), *lines[len(_RECORDED) :]]


def tops() -> list[Path]:
    """The root cgroup of each hierarchy."""
    if UNIFIED:
        return [CGROUPS]
    return [top for top in CGROUPS.iterdir() if (top / "cgroup.procs").exists() and not top.is_symlink()]


def make_cgroup(top: Path, cgroup: str) -> None:
    """Make a cgroup and those above it in one hierarchy; each may use all that the one above may, as a kubelet's."""
    at = top
    for name in cgroup.split("/"):
        above, at = at, at / name
        if UNIFIED:
            controllers = (above / "cgroup.controllers").read_text().split()
            (above / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))
        at.mkdir(exist_ok=True)
        for file in () if UNIFIED else ("cpuset.cpus", "cpuset.mems"):
            if (at / file).exists() and not (at / file).read_text().strip():
                (at / file).write_text((above / file).read_text())


def _below(name: str) -> str:
    """Where a file is in the folder of a container's hierarchies."""
    return FILES[name].v2_name if UNIFIED else f"{FILES[name].controller}/{name}"


def _path(folder: str, name: str) -> Path:
    file = FILES[name]
    return CGROUPS / folder / file.v2_name if UNIFIED else CGROUPS / file.controller / folder / name
