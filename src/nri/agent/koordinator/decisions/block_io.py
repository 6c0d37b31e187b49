"""Block I/O of a class or pod: limits of operations and bytes per second for each disk, and its weight.

Values are by device (`8:0`); 0 in NodeSLO takes a limit away. Which disk a volume or device is, the machine's side
knows. Next: `nri.agent.koordinator.decisions.cpu_suppress`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from nri.policies.formulas import UNLIMITED
from nri.policies.shapes import Items, Record, Word, fit

__all__ = [
    "ANNOTATION_BLOCK_IO",
    "ROOT_OFF",
    "ROOT_SHAPE",
    "SHAPE",
    "DiskLimits",
    "RootDisk",
    "parse",
    "parse_root",
    "wanted",
]

ANNOTATION_BLOCK_IO: Final = "koordinator.sh/blkioQOS"
_KIND: Final = Word(("device", "volumegroup", "podvolume"))
_IO = Record({"readIOPS": int, "writeIOPS": int, "readBPS": int, "writeBPS": int, "ioWeightPercent": int})
SHAPE = Record({"enable": bool, "blocks": Items(Record({"name": str, "type": _KIND, "ioCfg": _IO}))})
_KNOBS: Final = {
    "read_iops": "io.read_iops",
    "write_iops": "io.write_iops",
    "read_bps": "io.read_bps",
    "write_bps": "io.write_bps",
    "weight": "io.device_weight",
}


#: The line of `io.cost.qos` for a disk that is no longer asked for.
ROOT_OFF: Final = "enable=0"
_LATENCIES: Final = {
    "rpct": ("readLatencyPercent", 95),
    "rlat": ("readLatency", 3000),
    "wpct": ("writeLatencyPercent", 95),
    "wlat": ("writeLatency", 3000),
}
_MODEL: Final = {
    "rbps": "modelReadBPS",
    "rseqiops": "modelReadSeqIOPS",
    "rrandiops": "modelReadRandIOPS",
    "wbps": "modelWriteBPS",
    "wseqiops": "modelWriteSeqIOPS",
    "wrandiops": "modelWriteRandIOPS",
}
_ROOT_IO: Final = Record(
    {
        "enableUserModel": bool,
        **{name: int for name, _ in _LATENCIES.values()},
        **dict.fromkeys(_MODEL.values(), int),
    }
)
ROOT_SHAPE: Final = Record({"enable": bool, "blocks": Items(Record({"name": str, "type": _KIND, "ioCfg": _ROOT_IO}))})


class DiskLimits(NamedTuple):
    """Limits of one disk. `kind` is device, volumegroup or podvolume, and `name` what that calls it."""

    name: str
    kind: str
    read_iops: int = 0
    write_iops: int = 0
    read_bps: int = 0
    write_bps: int = 0
    weight: int = 100


def parse(given: Any, where: str = "blkioQOS") -> list[DiskLimits]:
    """Read a class's `blkioQOS`; nothing of it while it is off.

    Raises ValueError for what cannot be, with its place, which begins with `where`.
    """
    found = fit({} if given is None else given, SHAPE, where)
    if not found.get("enable", False):
        return []
    disks = []
    for number, block in enumerate(found.get("blocks", ())):
        limits = block.get("ioCfg", {})
        for key, value in limits.items():
            least, most = (1, 100) if key == "ioWeightPercent" else (0, None)
            if value < least or (most is not None and value > most):
                bound = f"not from {least} to {most}" if most is not None else f"below {least}"
                raise ValueError(f"{where}.blocks[{number}].ioCfg.{key}: {value} is {bound}")
        disks.append(
            DiskLimits(
                name=block.get("name", ""),
                kind=block.get("type", "device"),
                read_iops=limits.get("readIOPS", 0),
                write_iops=limits.get("writeIOPS", 0),
                read_bps=limits.get("readBPS", 0),
                write_bps=limits.get("writeBPS", 0),
                weight=limits.get("ioWeightPercent", 100),
            )
        )
    return disks


def wanted(disks: Iterable[tuple[str, DiskLimits]], present: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return what each knob is set to, by device (`8:0`); -1 is no limit.

    Args:
        disks: those that have limits, by device; of one that is named twice the last word counts.
        present: devices that have any limit or weight in force, which goes where none is asked for.
    """
    limits = {**{device: DiskLimits("", "device") for device in present}, **dict(disks)}
    return {
        knob: {device: getattr(each, name) or UNLIMITED for device, each in limits.items()}
        for name, knob in _KNOBS.items()
    }


class RootDisk(NamedTuple):
    """Latencies of one disk for the whole machine, and its model: `words` are those of io.cost.qos and .model.

    A model of the user's own counts only if it is whole; without one the kernel has its own.
    """

    name: str
    kind: str
    qos: str
    model: str


def parse_root(given: Any, where: str = "cgroupRoot.blkioQOS") -> list[RootDisk]:
    """Read `blkioQOS` of `cgroupRoot`; nothing of it while it is off. Raises ValueError for what cannot be."""
    found = fit({} if given is None else given, ROOT_SHAPE, where)
    if not found.get("enable", False):
        return []
    disks = []
    for block in found.get("blocks", ()):
        io = block.get("ioCfg", {})
        latency = {key: io.get(name, default) for key, (name, default) in _LATENCIES.items()}
        qos = "enable=1 ctrl=user " + " ".join(f"{key}={value}" for key, value in latency.items())
        numbers = {key: io.get(name, 0) for key, name in _MODEL.items()}
        model = "ctrl=auto"
        if io.get("enableUserModel", False):
            whole = all(value > 0 for value in numbers.values())
            model = "ctrl=user model=linear " + " ".join(f"{key}={value}" for key, value in numbers.items())
            model = model if whole else ""
        disks.append(RootDisk(block.get("name", ""), block.get("type", "device"), qos, model))
    return disks
