"""The machine under rubik's hooks and services: its kernel's cgroup files, its processors and its disks.

This is the module of the profile that opens files; all others ask it, or read cgroups through the round.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Final

from nri.host import Hierarchies, Root, Unsupported, detect, probe, read_topology

__all__ = ["Kernel", "block_device"]

#: Pause in seconds before a missing file is looked for again: on cgroup v2 it may come with the first pod.
_ABSENT_S: Final = 10.0


class Kernel:
    """The cgroup files that the kernel has, its command line, and the processors of a machine.

    Args:
        root: the machine.
        now: monotonic seconds.
    """

    def __init__(self, root: Root, now: Callable[[], float] = time.monotonic) -> None:
        self._root, self._now = root, now
        self._hierarchies: Hierarchies | None = None
        #: By cgroup file why it is missing, and until when this is believed.
        self._missing: dict[str, tuple[str, float]] = {}
        self._present: set[str] = set()
        self._cpus = 0

    def lacks(self, knob: str) -> str:
        """Return why the kernel does not have a cgroup file; "" if it has it."""
        if knob in self._present:
            return ""
        reason, until = self._missing.get(knob, ("", 0.0))
        if reason and self._now() < until:
            return reason
        if self._hierarchies is None or self._hierarchies.mode == "none":
            self._hierarchies = detect(self._root)
        result = probe(self._hierarchies, knob)
        if isinstance(result, Unsupported):
            self._missing[knob] = result.reason, self._now() + _ABSENT_S
            return result.reason
        self._present.add(knob)
        return ""

    def command_line(self) -> str:
        """Return the kernel's command line; "" if it cannot be read."""
        return self._root.find("/proc/cmdline") or ""

    def cpus(self) -> int:
        """Return the number of processors, which are counted once."""
        if not self._cpus:
            self._cpus = len(read_topology(self._root).cpus)
        return self._cpus


def block_device(root: Root, path: str) -> str:
    """Return the numbers (`8:0`) of the block device at a path of the machine; "" if there is no such device."""
    try:
        descriptor = root.open(path, os.O_PATH)
    except (OSError, ValueError):
        return ""
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else ""
