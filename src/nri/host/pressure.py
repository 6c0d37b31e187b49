"""Pressure stall information: the percentage of time in which tasks wait for processors, memory or block I/O."""

from __future__ import annotations

import errno
from typing import Literal, NamedTuple

from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.outcome import Unsupported
from nri.host.root import Root

Resource = Literal["cpu", "memory", "io", "irq"]
_OFF = "the kernel does not measure pressure: boot with psi=1"


class Stall(NamedTuple):
    """Percentages of the last 10, 60 and 300 seconds, and total microseconds, in which tasks waited."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


class Pressure(NamedTuple):
    """Stalls in which at least one task waits (`some`), or all non-idle tasks wait (`full`). None if not reported."""

    some: Stall | None
    full: Stall | None


def parse_pressure(text: str) -> Pressure:
    """Parse a pressure file. Unknown lines are ignored. Raises ValueError if a line is invalid."""
    rows: dict[str, Stall] = {}
    for line in text.splitlines():
        kind, _, words = line.partition(" ")
        if not line.startswith(Pressure._fields):
            continue
        pairs = dict(word.split("=", 1) for word in words.split() if "=" in word)
        try:
            avg10, avg60, avg300 = (float(pairs[key]) for key in ("avg10", "avg60", "avg300"))
            rows[kind] = Stall(avg10, avg60, avg300, int(pairs["total"]))
            if rows[kind].total_us >> 64:
                raise ValueError
        except (KeyError, ValueError):
            raise ValueError(f"{line[:80]!r} is not a line of a pressure file") from None
    return Pressure(rows.get("some"), rows.get("full"))


def machine_pressure(root: Root, resource: Resource) -> Pressure | Unsupported:
    """The pressure on the machine. Raises ValueError if the file is invalid."""
    try:
        return parse_pressure(root.read(f"/proc/pressure/{resource}"))
    except OSError:
        return Unsupported(f"/proc/pressure/{resource} cannot be read: {_OFF}")


def cgroup_pressure(hierarchies: Hierarchies, cgroup: str, resource: Resource) -> Pressure | Unsupported:
    """The pressure on a cgroup: from cgroup v2, or from the cpuacct hierarchy of a kernel with pressure on v1.

    Raises:
        FileNotFoundError: the cgroup does not exist.
        ValueError: the path leads out of the hierarchy, or the file is invalid.
    """
    reason = "on cgroup v1, only openEuler's kernels report pressure: boot such a kernel with psi_v1=1"
    for controller in ("", "cpuacct"):
        folder = hierarchies.folder(controller, cgroup)
        if folder is None or not hierarchies.files.exists(folder):
            continue
        try:
            return parse_pressure(hierarchies.files.read(f"{folder}/{resource}.pressure"))
        except OSError:
            reason = f"{resource}.pressure of {cgroup or '/'} cannot be read" + ("" if controller else f": {_OFF}")
    if not hierarchies.exists(cgroup):
        raise FileNotFoundError(errno.ENOENT, "the cgroup does not exist", cgroup)
    return Unsupported(reason)
