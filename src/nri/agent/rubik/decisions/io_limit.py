"""Limits of block I/O by annotation: bytes and operations a second, of a pod's containers, by disk.

Next: `nri.agent.rubik.decisions.io_cost`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from nri.policies.formulas import UNLIMITED
from nri.policies.shapes import Items, Record, decode

__all__ = ["ANNOTATION", "KNOBS", "DiskLimits", "check", "disk_limits", "parse"]

ANNOTATION: Final = "volcano.sh/blkio-limit"
#: The knob of each key of the annotation.
_KEYS: Final = {
    "device_read_bps": "io.read_bps",
    "device_write_bps": "io.write_bps",
    "device_read_iops": "io.read_iops",
    "device_write_iops": "io.write_iops",
}
KNOBS: Final = tuple(_KEYS.values())
_SHAPE: Final = Record(dict.fromkeys(_KEYS, Items(Record({"device": str, "value": str}))))
_DISK: Final = re.compile(r"[0-9]{1,18}:[0-9]{1,18}")
_LIMIT: Final = re.compile(r"0{0,32}[0-9]{1,20}")
#: The rows of the annotation by key: device and value as they are written.
Rows = dict[str, list[tuple[str, str]]]


class DiskLimits(NamedTuple):
    """The limits that an annotation sets.

    Attributes:
        limits: bytes or operations a second, by knob and by the numbers of the disk (`8:0`); -1 is no limit.
        unclear: by knob the disks whose row has no number as its value: what they have stays.
        problems: a line for each row that has no effect.
    """

    limits: dict[str, dict[str, int]]
    unclear: dict[str, set[str]]
    problems: list[str]


def parse(annotations: Mapping[str, str]) -> Rows:
    """Return the rows of the annotation, none without one. Raises ValueError for what is not JSON of that shape."""
    found: Mapping[str, Any] = decode(annotations.get(ANNOTATION) or "{}", _SHAPE)
    return {key: [(row.get("device", ""), row.get("value", "")) for row in found.get(key, ())] for key in _KEYS}


def disk_limits(rows: Rows, lookup: Callable[[str], str]) -> DiskLimits:
    """Return the limits of the good rows; a row without effect costs the others nothing.

    Args:
        rows: as of `parse`.
        lookup: the numbers of a path below /dev if a block device is there, else "".
    """
    result = DiskLimits({}, {}, [])
    for key, pairs in rows.items():
        for device, value in pairs:
            disk = device if _DISK.fullmatch(device) else lookup(device) if device.startswith("/dev/") else ""
            if not disk:
                result.problems.append(f"{key}: {device[:80]!r} is not a block device; write /dev/NAME or MAJOR:MINOR")
            elif _LIMIT.fullmatch(value) is None or int(value) >= 1 << 64:
                result.problems.append(f"{key}: {value[:40]!r} of {device[:80]!r} is not a number of 64 bits")
                result.unclear.setdefault(_KEYS[key], set()).add(disk)
            else:
                result.limits.setdefault(_KEYS[key], {})[disk] = int(value) or UNLIMITED
    return result


def check(annotations: Mapping[str, str]) -> None:
    """Raise ValueError for the first row that cannot have an effect, whatever disks there are."""
    for problem in disk_limits(parse(annotations), lambda _path: "0:0").problems:
        raise ValueError(f"{ANNOTATION}: {problem}")
