"""ioLimit: block I/O of a pod's containers is limited by disk, as the annotation `volcano.sh/blkio-limit` says.

Limits are bytes and operations a second. A row of the annotation that cannot be read, or whose disk does not exist, is
reported and costs the other rows nothing; its disk keeps what it has. An annotation that is not JSON costs that pod the
service, is reported once, and the last valid one stays in force. A limit that is no longer asked for is removed; one
that somebody else has set, on another disk or of another value, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nri.agent.hooks import CREATE, Hook
from nri.agent.loops.round import KnobValue, Round
from nri.agent.model import Changes, Container, Decision, Pod, Setting
from nri.agent.rubik.machine import block_device
from nri.agent.rubik.service import Node, Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.shapes import Items, Record, decode

__all__ = ["ANNOTATION", "HOOK", "KNOBS", "DiskLimits", "IoLimit", "check", "disk_limits", "parse"]

NAME: Final = "ioLimit"
ANNOTATION: Final = "volcano.sh/blkio-limit"
#: The cgroup file of each key of the annotation.
_KNOB_BY_KEY: Final = {
    "device_read_bps": "io.read_bps",
    "device_write_bps": "io.write_bps",
    "device_read_iops": "io.read_iops",
    "device_write_iops": "io.write_iops",
}
KNOBS: Final = tuple(_KNOB_BY_KEY.values())
_SHAPE: Final = Record(dict.fromkeys(_KNOB_BY_KEY, Items(Record({"device": str, "value": str}))))
_DISK: Final = re.compile(r"[0-9]{1,18}:[0-9]{1,18}")
_LIMIT: Final = re.compile(r"0{0,32}[0-9]{1,20}")
#: The rows of the annotation by key: device and value as they are written.
Rows = dict[str, list[tuple[str, str]]]


class DiskLimits(NamedTuple):
    """The limits that an annotation sets.

    Attributes:
        limits: bytes or operations a second, by cgroup file and by the numbers of the disk (`8:0`); -1 is no limit.
        unclear: by cgroup file the disks whose row does not have a number as its value: they keep what they have.
        problems: a line for each row that has no effect.
    """

    limits: dict[str, dict[str, int]]
    unclear: dict[str, set[str]]
    problems: list[str]


def parse(annotations: Mapping[str, str]) -> Rows:
    """Return the rows of the annotation, none without one. Raises ValueError for what is not JSON of that shape."""
    tree: Mapping[str, Any] = decode(annotations.get(ANNOTATION) or "{}", _SHAPE)
    return {key: [(row.get("device", ""), row.get("value", "")) for row in tree.get(key, ())] for key in _KNOB_BY_KEY}


def disk_limits(rows: Rows, lookup: Callable[[str], str]) -> DiskLimits:
    """Return the limits of the valid rows; a row without effect costs the others nothing.

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
                result.unclear.setdefault(_KNOB_BY_KEY[key], set()).add(disk)
            else:
                result.limits.setdefault(_KNOB_BY_KEY[key], {})[disk] = int(value) or UNLIMITED
    return result


def check(annotations: Mapping[str, str]) -> None:
    """Raise ValueError for the first row that cannot have an effect, whichever disks exist."""
    for problem in disk_limits(parse(annotations), lambda _path: "0:0").problems:
        raise ValueError(f"{ANNOTATION}: {problem}")


def at_creation(container: Container, node: Node) -> Decision:
    """Give a new container the limits by disk that its pod asks for."""
    try:
        limits = disk_limits(parse(container.pod.annotations), node.disk).limits
    except ValueError:
        return Decision()  # the rounds report it
    values: dict[str, Setting] = {}
    for knob, by_disk in limits.items():
        limited = {disk: limit for disk, limit in by_disk.items() if limit != UNLIMITED}
        if limited and not container.sandbox and node.has(knob):
            values[knob] = limited
    return Decision(Changes(values), f"annotation {ANNOTATION}") if values else Decision()


HOOK: Final = Hook(NAME, False, (), (ANNOTATION,), {CREATE: at_creation})


class IoLimit(Service):
    """Keeps the limits of running containers as the annotations of their pods say."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        #: The disks with a limit that this service has set, by cgroup and cgroup file.
        self._limited_disks: dict[tuple[str, str], frozenset[str]] = {}

    def __len__(self) -> int:
        """The number of cgroup files with a limit that this service has set."""
        return len(self._limited_disks)

    def wants(self, rules: Services) -> bool:
        """Whether the file switches it on, or limits remain to be removed."""
        return super().wants(rules) or self.was_on

    def round(self, round_: Round[Services]) -> None:
        """Set the limits that pods ask for, and remove those that they no longer ask for."""
        limited: dict[tuple[str, str], frozenset[str]] = {}
        leftovers = self.leftovers(round_, ANNOTATION)
        for pod in round_.pods:
            has_leftovers = not leftovers.isdisjoint(container.folder for container in pod.containers)
            requested = self._limits(round_, pod) if self.on else DiskLimits({}, {}, [])
            stale = _stale_limits(round_, pod) if has_leftovers else {}
            for container in pod.containers:
                for knob in KNOBS:
                    place = (container.folder, knob)
                    limits = requested.limits.get(knob, {})
                    before = self._limited_disks.get(place, frozenset()) | _in_force(round_, place, stale.get(knob, {}))
                    unclear = before & requested.unclear.get(knob, set()) - limits.keys()
                    removed = dict.fromkeys(before - limits.keys() - unclear, UNLIMITED)
                    if limits or unclear:
                        limited[place] = frozenset(limits) | unclear
                    if limits or removed:
                        reason = f"annotation {ANNOTATION}" if limits else "it is no longer requested"
                        subject = pod.subject(container.name)
                        round_.values.append(KnobValue(subject, *place, "", NAME, reason, {**removed, **limits}))
        self._limited_disks = limited

    def _limits(self, round_: Round[Services], pod: Pod) -> DiskLimits:
        """Return the limits that a pod asks for, by cgroup file and disk."""
        annotations = readable(round_, pod, NAME, ANNOTATION, parse)
        requested = disk_limits(parse(annotations), lambda path: block_device(round_.parts.root, path))
        round_.errors += [f"{NAME}: {pod.key}: {ANNOTATION}: {problem}" for problem in requested.problems]
        return requested


def _stale_limits(round_: Round[Services], pod: Pod) -> dict[str, dict[str, int]]:
    """Return the limits that a pod asks for while the service is off, without reporting problems of the annotation."""
    try:
        return disk_limits(parse(pod.annotations), lambda path: block_device(round_.parts.root, path)).limits
    except ValueError:
        return {}


def _in_force(round_: Round[Services], place: tuple[str, str], limits: Mapping[str, int]) -> frozenset[str]:
    """Return the disks that have exactly these limits."""
    current = round_.read(*place) if limits else None
    return frozenset(disk for disk in limits if isinstance(current, Mapping) and current.get(disk) == limits[disk])
