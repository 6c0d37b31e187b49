"""Read processor time and memory use of the machine and its cgroups.

Counters count since the start. A value that the kernel does not report is None, never 0. As in the kubelet, the working
set is the usage without the inactive file cache, which the kernel reclaims first.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from nri.host.cgroups.hierarchies import Hierarchies
from nri.host.root import Root

#: Columns of /proc/stat with busy time: user, nice, system, irq, softirq, steal. User time includes guest time.
_BUSY = (0, 1, 2, 5, 6, 7)
#: Columns of /proc/stat with idle time: idle, iowait.
_IDLE = (3, 4)
#: Controllers and files of a `Processor` reading by version; the first file changes whenever the cgroup has run.
_FILES_V1 = (
    ("cpuacct", "cpuacct.usage"),
    ("cpu", "cpu.stat"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.cfs_period_us"),
)
_FILES_V2 = (("cpu", "cpu.stat"), ("cpu", "cpu.max"))


class CpuTimes(NamedTuple):
    """Ticks of all processors since the start. `idle` includes `io_wait`, the time spent waiting for block I/O."""

    busy: int
    idle: int
    io_wait: int

    def share(self, earlier: CpuTimes) -> float:
        """The busy share, 0 to 1, of the time since an earlier reading. Returns 0 if no time has passed."""
        busy, idle = self.busy - earlier.busy, self.idle - earlier.idle
        return min(max(busy / (busy + idle), 0.0), 1.0) if busy + idle > 0 else 0.0


class CgroupUsage(NamedTuple):
    """A reading of a cgroup, including all cgroups below it.

    Attributes:
        cpu_ns: nanoseconds of processor time.
        periods: the number of periods of its quota.
        throttled: the number of periods in which the quota was used up.
        throttled_ns: nanoseconds in which it did not run because of its quota.
    """

    cpu_ns: int | None
    periods: int | None
    throttled: int | None
    throttled_ns: int | None
    memory_bytes: int | None
    working_set_bytes: int | None


def cpu_times(root: Root) -> CpuTimes:
    """The processor time of the machine. Raises OSError if /proc/stat cannot be read, ValueError if it is invalid."""
    return parse_cpu_times(root.read("/proc/stat"))


def parse_cpu_times(text: str) -> CpuTimes:
    """Parse /proc/stat. Raises ValueError if it is invalid."""
    first = text.partition("\n")[0].split()
    if len(first) < 11 or first[0] != "cpu":
        raise ValueError("/proc/stat does not begin with the times of all processors")
    if not all(word.isdecimal() for word in first[1:]):  # `int` accepts a sign, which the kernel does not write
        raise ValueError("/proc/stat does not begin with the times of all processors")
    ticks = [int(word) for word in first[1:]]
    return CpuTimes(sum(ticks[i] for i in _BUSY), sum(ticks[i] for i in _IDLE), ticks[4])


def memory(root: Root) -> dict[str, int]:
    """The values of /proc/meminfo in bytes by name, such as MemAvailable. Raises OSError if it cannot be read."""
    return parse_memory(root.read("/proc/meminfo"))


def node_memory_used(root: Root, number: int) -> int:
    """The used bytes of a memory node. Returns 0 if they are not reported."""
    text = root.find(f"/sys/devices/system/node/node{number}/meminfo") or ""
    return parse_memory(text).get(f"Node {number} MemUsed", 0)


def parse_memory(text: str) -> dict[str, int]:
    """Parse /proc/meminfo: sizes, which are in kilobytes, and numbers of huge pages. Other lines are ignored."""
    rows = (line.partition(":") for line in text.splitlines())
    return {
        name: int(words[0]) * (1 if name.startswith("HugePages_") else 1024)
        for name, _, value in rows
        if (words := value.split()) and words[0].isdigit() and len(words[0]) < 19
    }


def cgroup_usage(hierarchies: Hierarchies, cgroup: str, *, processor_only: bool = False) -> CgroupUsage:
    """Read the usage of a cgroup. With `processor_only`, the two files of its memory are not read.

    Raises:
        FileNotFoundError: the cgroup does not exist.
        ValueError: the path leads out of the hierarchy.
    """
    if not hierarchies.exists(cgroup):
        raise FileNotFoundError(errno.ENOENT, "the cgroup does not exist", cgroup)
    statistics = _table(hierarchies, "cpu", cgroup, "cpu.stat")
    first = hierarchies.of("cpuacct")
    if first is not None and first.version == 1:
        cpu_ns = _number(hierarchies, "cpuacct", cgroup, "cpuacct.usage")
    else:
        cpu_ns = _microseconds_to_ns(_table(hierarchies, "", cgroup, "cpu.stat").get("usage_usec"))
    used, working_set = (None, None) if processor_only else _memory(hierarchies, cgroup)
    return CgroupUsage(
        cpu_ns=cpu_ns,
        periods=statistics.get("nr_periods"),
        throttled=statistics.get("nr_throttled"),
        throttled_ns=statistics.get("throttled_time", _microseconds_to_ns(statistics.get("throttled_usec"))),
        memory_bytes=used,
        working_set_bytes=working_set,
    )


def _memory(hierarchies: Hierarchies, cgroup: str) -> tuple[int | None, int | None]:
    """The memory of a cgroup, and its working set."""
    row = hierarchies.of("memory")
    v1 = row is not None and row.version == 1
    used = _number(hierarchies, "memory", cgroup, "memory.usage_in_bytes" if v1 else "memory.current")
    droppable = _table(hierarchies, "memory", cgroup, "memory.stat").get(
        "total_inactive_file" if v1 else "inactive_file", 0
    )
    return used, None if used is None else max(used - droppable, 0)


def _microseconds_to_ns(micros: int | None) -> int | None:
    return None if micros is None else micros * 1000


def _text(hierarchies: Hierarchies, controller: str, cgroup: str, file: str) -> str:
    folder = hierarchies.folder(controller, cgroup)
    try:
        return "" if folder is None else hierarchies.files.read(f"{folder}/{file}")
    except OSError:
        return ""


def _number(hierarchies: Hierarchies, controller: str, cgroup: str, file: str) -> int | None:
    text = _text(hierarchies, controller, cgroup, file).strip()
    return int(text) if text.isdigit() else None


def _table(hierarchies: Hierarchies, controller: str, cgroup: str, file: str) -> dict[str, int]:
    """The numbers in a file by word. Returns an empty dict if the file does not exist."""
    try:
        return parse_flat_keyed(_text(hierarchies, controller, cgroup, file))
    except ValueError:
        return {}


class Processor(NamedTuple):
    """A reading of a cgroup's processor time, with its quota (-1 for no quota) and period in microseconds."""

    quota_us: int
    period_us: int
    throttled: int
    throttled_ns: int
    cpu_ns: int


class ProcessorFiles:
    """The files of a cgroup for :class:`Processor`. They stay open, so that a reading takes microseconds.

    Raises:
        OSError: the cgroup does not exist, or lacks a file.
        ValueError: the path leads out of the hierarchy, or a cgroup controller is not mounted.
    """

    def __init__(self, hierarchies: Hierarchies, root: Root, cgroup: str) -> None:
        row = hierarchies.of("cpu")
        self._v1 = row is not None and row.version == 1
        self._descriptors: list[int] = []
        #: The content of the first file, and the reading that it belongs to.
        self._cached_processor: tuple[bytes, Processor | None] = b"", None
        try:
            for controller, file in _FILES_V1 if self._v1 else _FILES_V2:
                folder = hierarchies.folder(controller, cgroup)
                if folder is None:
                    raise ValueError(f"the cgroup controller {controller} is not mounted")
                self._descriptors.append(root.open(f"{folder}/{file}"))
        except BaseException:
            self.close()
            raise

    def read(self, *, resting: bool = False) -> Processor | None:
        """Read all files. Returns None if the cgroup no longer exists, or if its files are incomplete.

        Args:
            resting: return the previous reading if the cgroup has not run since, according to the first file.
        """
        try:
            first = os.pread(self._descriptors[0], 4096, 0)
            if resting and first == self._cached_processor[0]:
                return self._cached_processor[1]
            reading = self._reading(
                [first.split(), *(os.pread(descriptor, 4096, 0).split() for descriptor in self._descriptors[1:])]
            )
        except (OSError, ValueError, IndexError, KeyError):
            return None
        self._cached_processor = first, reading
        return reading

    def _reading(self, texts: list[list[bytes]]) -> Processor:
        """The reading from the words of all files."""
        words = texts[1] if self._v1 else texts[0]
        table = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        throttled = table.get(b"nr_throttled", 0)
        if self._v1:
            quota, period = int(texts[2][0]), int(texts[3][0])
            return Processor(quota, period, throttled, table.get(b"throttled_time", 0), int(texts[0][0]))
        quota = -1 if texts[1][0] == b"max" else int(texts[1][0])
        stalled = table.get(b"throttled_usec", 0) * 1000
        return Processor(quota, int(texts[1][1]), throttled, stalled, table[b"usage_usec"] * 1000)

    def close(self) -> None:
        """Close the files. Calling it again has no effect."""
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)


def parse_flat_keyed(text: str) -> dict[str, int]:
    """Parse a file of words and 64-bit numbers, such as cpu.stat. Raises ValueError if it is invalid."""
    rows = [line.split() for line in text.splitlines()]
    if any(len(row) != 2 for row in rows):
        raise ValueError("a line is not a word and a number")
    table = {row[0]: int(row[1]) for row in rows}
    if any(value >> 64 for value in table.values() if value >= 0):
        raise ValueError("a number has more than 64 bits")
    return table
