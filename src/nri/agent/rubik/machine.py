"""Access of rubik's hooks and services to the machine: cgroup files, processors and disks.

Of this profile, only this module opens files; other modules call it, or read cgroups through the round.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Final

from nri.host import Hierarchies, Root, Unsupported, detect, probe, read_topology

#: The time in seconds after which a missing file is searched again: on cgroup v2 it may appear with the first pod.
_ABSENT_S: Final = 10.0


class Kernel:
    """The cgroup files of the kernel, its command line, and the processors of the machine.

    Args:
        root: the machine.
        now: returns monotonic seconds.
    """

    def __init__(self, root: Root, now: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, now
        self._hierarchies: Hierarchies | None = None
        #: Why a cgroup file is missing, and until when this answer is valid, by cgroup file.
        self._missing: dict[str, tuple[str, float]] = {}
        self._present: set[str] = set()
        self._cpus = 0

    def missing_reason(self, knob: str) -> str:
        """Return why the kernel lacks a cgroup file, or "" if the file exists."""
        if knob in self._present:
            return ""
        reason, until = self._missing.get(knob, ("", 0.0))
        if reason and self._clock() < until:
            return reason
        if self._hierarchies is None or self._hierarchies.mode == "none":
            self._hierarchies = detect(self._root)
        result = probe(self._hierarchies, knob)
        if isinstance(result, Unsupported):
            self._missing[knob] = result.reason, self._clock() + _ABSENT_S
            return result.reason
        self._present.add(knob)
        return ""

    def command_line(self) -> str:
        """Return the kernel's command line, or "" if it cannot be read."""
        return self._root.find("/proc/cmdline") or ""

    def cpus(self) -> int:
        """Return the number of processors, which is read once."""
        if not self._cpus:
            self._cpus = len(read_topology(self._root).cpus)
        return self._cpus


def block_device(root: Root, path: str) -> str:
    """Return the device number (`8:0`) of a block device, or "" if the path is not a block device."""
    try:
        descriptor = root.open(path, os.O_PATH)
    except (OSError, ValueError):
        return ""
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else ""
