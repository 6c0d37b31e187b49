"""Limits of block I/O by annotation: bytes and operations a second, of a pod's containers, by disk.

Next: `nri.policies.rubik.io_cost`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from nri.policies.formulas import UNLIMITED
from nri.policies.shapes import Items, Record, decode

__all__ = [
    "ANNOTATION",
    "KEYS",
    "KNOBS",
    "Change",
    "asked",
    "by_knob",
    "change",
    "device_number",
    "numbers",
    "parse",
    "present",
]

ANNOTATION: Final = "volcano.sh/blkio-limit"
#: The knob of each key of the annotation.
KEYS: Final = {
    "device_read_bps": "io.read_bps",
    "device_write_bps": "io.write_bps",
    "device_read_iops": "io.read_iops",
    "device_write_iops": "io.write_iops",
}
KNOBS: Final = tuple(KEYS.values())
_SHAPE: Final = Record(dict.fromkeys(KEYS, Items(Record({"device": str, "value": str}))))
_NUMBER: Final = re.compile(r"[0-9]{1,18}:[0-9]{1,18}")
#: Limits by key: device and value as they are written.
Limits = dict[str, list[tuple[str, str]]]


class Change(NamedTuple):
    """The devices of one knob whose limit goes, and those that get one, with its text; 0 is no limit."""

    clear: list[str]
    set: list[tuple[str, str]]


def asked(before: Mapping[str, str], annotations: Mapping[str, str]) -> Limits | None:
    """Return the limits that a pod's annotations ask for: none of any if it asked before and no longer does, else None.

    Raises:
        ValueError: the annotation cannot be read; what is in force stays.
    """
    text = annotations.get(ANNOTATION) or ("{}" if before.get(ANNOTATION) else "")
    return parse(text) if text else None


def parse(text: str) -> Limits:
    """Read the annotation. Raises ValueError."""
    found: Mapping[str, Any] = decode(text, _SHAPE)
    return {key: [(each.get("device", ""), each.get("value", "")) for each in found.get(key, ())] for key in KEYS}


def device_number(device: str, lookup: Callable[[str], str]) -> str:
    """Return the numbers (`8:0`) of a device that is named by them or by its path.

    Args:
        device: the name.
        lookup: the numbers of a path below /dev if a block device is there, else "".

    Raises:
        ValueError: it is neither.
    """
    if _NUMBER.fullmatch(device):
        return device
    found = lookup(device) if device.startswith("/dev/") else ""
    if not found:
        raise ValueError(f"{device!r} is no block device: say /dev/NAME or MAJOR:MINOR")
    return found


def numbers(annotations: Mapping[str, str]) -> Limits:
    """Return the limits that annotations ask for. Raises ValueError, also for a limit that is not a number."""
    found = asked({}, annotations) or {}
    for key, rows in found.items():
        for device, value in rows:
            if not (value.isascii() and value.isdecimal() and len(value) < 20 and int(value) < 1 << 63):
                raise ValueError(f"{ANNOTATION}: {key}: {value[:40]!r} of {device[:80]!r} is not a number from 0 on")
    return found


def by_knob(limits: Limits, lookup: Callable[[str], str]) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Return the limits of each knob by the numbers of its disk, and what is wrong with others; 0 is no limit.

    Args:
        limits: as of `numbers`.
        lookup: as of `device_number`.
    """
    found: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    for key, rows in limits.items():
        for device, value in rows:
            try:
                found.setdefault(KEYS[key], {})[device_number(device, lookup)] = int(value) or UNLIMITED
            except ValueError as error:
                wrong.append(str(error))
    return {knob: devices for knob, devices in found.items() if devices}, wrong


def present(text: str) -> list[str]:
    """Return the devices that a file names."""
    return [words[0] for line in text.splitlines() if len(words := line.split()) > 1]


def change(limits: Limits, present: Mapping[str, list[str]], lookup: Callable[[str], str]) -> dict[str, Change]:
    """Return what becomes of each knob of a container: what is in force goes, what is asked for comes.

    A device that is not there, and one without a value, is left out.
    """
    found = {}
    for key, knob in KEYS.items():
        wanted = []
        for device, value in limits.get(key, ()):
            try:
                wanted.append((device_number(device, lookup), value))
            except ValueError:
                continue
        found[knob] = Change(present.get(knob, []), [pair for pair in wanted if pair[1]])
    return found
