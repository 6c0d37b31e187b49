"""Block I/O of a class or pod: limits of operations and bytes per second for each disk, and its weight.

Values are by device (`8:0`); 0 in NodeSLO takes a limit away. Which disk a volume or device is, the machine's side
knows. Next: `nri.policies.koordinator.loops.cpu_suppress`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from nri.policies.koordinator.formulas import UNLIMITED
from nri.policies.koordinator.shapes import Items, Record, fit

__all__ = ["DiskLimits", "parse", "values"]

_IO = Record({"readIOPS": int, "writeIOPS": int, "readBPS": int, "writeBPS": int, "ioWeightPercent": int})
_SHAPE = Record({"enable": bool, "blocks": Items(Record({"name": str, "type": str, "ioCfg": _IO}))})
_KNOBS: Final = {
    "read_iops": "io.read_iops",
    "write_iops": "io.write_iops",
    "read_bps": "io.read_bps",
    "write_bps": "io.write_bps",
    "weight": "io.cost_weight",
}


class DiskLimits(NamedTuple):
    """Limits of one disk. `kind` is device, volumegroup or podvolume, and `name` what that calls it."""

    name: str
    kind: str
    read_iops: int = 0
    write_iops: int = 0
    read_bps: int = 0
    write_bps: int = 0
    weight: int = 100


def parse(given: Any) -> list[DiskLimits]:
    """Read a class's `blkioQOS`; nothing of it while it is off. Raises ValueError for what cannot be."""
    found = fit({} if given is None else given, _SHAPE, "blkioQOS")
    if not found.get("enable", False):
        return []
    disks = []
    for block in found.get("blocks", ()):
        limits = block.get("ioCfg", {})
        disk = DiskLimits(
            name=block.get("name", ""),
            kind=block.get("type", "device"),
            read_iops=limits.get("readIOPS", 0),
            write_iops=limits.get("writeIOPS", 0),
            read_bps=limits.get("readBPS", 0),
            write_bps=limits.get("writeBPS", 0),
            weight=limits.get("ioWeightPercent", 100),
        )
        if min(disk[2:6]) < 0 or not 1 <= disk.weight <= 100:
            raise ValueError(f"blkioQOS: disk {disk.name} has a negative limit, or a weight that is not from 1 to 100")
        disks.append(disk)
    return disks


def values(disks: Iterable[tuple[str, DiskLimits]]) -> dict[str, dict[str, int]]:
    """Return what each knob is set to, by device (`8:0`); -1 is no limit."""
    listed = list(disks)
    return {
        knob: {number: getattr(limits, name) or UNLIMITED for number, limits in listed} for name, knob in _KNOBS.items()
    }
