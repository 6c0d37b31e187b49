"""The service ioLimit: limits of block I/O by disk, from the pod annotation `volcano.sh/blkio-limit`.

Limits are bytes and operations per second. A row of the annotation that is unreadable, or names a missing disk, is
reported without effect on other rows; the disk keeps its limit. An annotation that is not JSON is reported once, and
the last valid annotation stays in force. Limits that are no longer requested are removed. A limit that another program
has set, on another disk or with another value, is not changed.
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
#: The rows of the annotation by key, as unparsed pairs of device and value.
Rows = dict[str, list[tuple[str, str]]]


class DiskLimits(NamedTuple):
    """The limits that an annotation sets.

    Attributes:
        limits: bytes or operations per second, by cgroup file and device number (`8:0`); -1 means no limit.
        unclear: the disks with a malformed value, by cgroup file; they keep their limits.
        problems: a line for each row without effect.
    """

    limits: dict[str, dict[str, int]]
    unclear: dict[str, set[str]]
    problems: list[str]


def parse(annotations: Mapping[str, str]) -> Rows:
    """Return the rows of the annotation. Raises ValueError if the annotation is not JSON of this shape."""
    tree: Mapping[str, Any] = decode(annotations.get(ANNOTATION) or "{}", _SHAPE)
    return {key: [(row.get("device", ""), row.get("value", "")) for row in tree.get(key, ())] for key in _KNOB_BY_KEY}


def disk_limits(rows: Rows, lookup: Callable[[str], str]) -> DiskLimits:
    """Return the limits of the valid rows. A row without effect does not affect the other rows.

    Args:
        rows: the rows that `parse` returned.
        lookup: returns the device number of a path below /dev, or "" if there is no block device.
    """
    result = DiskLimits({}, {}, [])
    for key, pairs in rows.items():
        for device, value in pairs:
            disk = device if _DISK.fullmatch(device) else lookup(device) if device.startswith("/dev/") else ""
            if not disk:
                result.problems.append(f"{key}: {device[:80]!r} is not a block device; write /dev/NAME or MAJOR:MINOR")
            elif _LIMIT.fullmatch(value) is None or int(value) >= 1 << 64:
                result.problems.append(f"{key}: {value[:40]!r} of {device[:80]!r} is not a 64-bit number")
                result.unclear.setdefault(_KNOB_BY_KEY[key], set()).add(disk)
            else:
                result.limits.setdefault(_KNOB_BY_KEY[key], {})[disk] = int(value) or UNLIMITED
    return result


def check(annotations: Mapping[str, str]) -> None:
    """Raise ValueError if a row cannot have an effect, regardless of which disks exist."""
    for problem in disk_limits(parse(annotations), lambda _path: "0:0").problems:
        raise ValueError(f"{ANNOTATION}: {problem}")


def at_creation(container: Container, node: Node) -> Decision:
    """Give a new container the limits that its pod requests."""
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
    """The service that sets the limits of running containers from their pods' annotations."""

    name = NAME
    runs_on_pod_changes = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        #: The disks with a limit of this service, by cgroup and cgroup file.
        self._limited_disks: dict[tuple[str, str], frozenset[str]] = {}

    def __len__(self) -> int:
        """The number of cgroup files with a limit of this service."""
        return len(self._limited_disks)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or limits must be removed."""
        return super().is_needed(rules) or self.was_on

    def round(self, round_: Round[Services]) -> None:
        """Set the requested limits, and remove limits that are no longer requested."""
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
                        reason = f"annotation {ANNOTATION}" if limits else "the limit is no longer requested"
                        subject = pod.subject(container.name)
                        round_.values.append(KnobValue(subject, *place, "", NAME, reason, {**removed, **limits}))
        self._limited_disks = limited

    def _limits(self, round_: Round[Services], pod: Pod) -> DiskLimits:
        """Return the limits that a pod requests, by cgroup file and disk."""
        annotations = readable(round_, pod, NAME, ANNOTATION, parse)
        requested = disk_limits(parse(annotations), lambda path: block_device(round_.parts.root, path))
        round_.errors += [f"{NAME}: {pod.key}: {ANNOTATION}: {problem}" for problem in requested.problems]
        return requested


def _stale_limits(round_: Round[Services], pod: Pod) -> dict[str, dict[str, int]]:
    """Return the limits that a pod requests, without reporting problems of the annotation."""
    try:
        return disk_limits(parse(pod.annotations), lambda path: block_device(round_.parts.root, path)).limits
    except ValueError:
        return {}


def _in_force(round_: Round[Services], place: tuple[str, str], limits: Mapping[str, int]) -> frozenset[str]:
    """Return the disks with exactly these limits."""
    current = round_.read(*place) if limits else None
    return frozenset(disk for disk in limits if isinstance(current, Mapping) and current.get(disk) == limits[disk])
