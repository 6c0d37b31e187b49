"""Samples of the machine: usage of the node, of pods and of containers since the previous sample.

Rates are differences of counters, so the first sample of a cgroup has no rates. An unknown value is None, with a
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nri.host import Hierarchies, Root, cgroup_usage, cpu_times
from nri.host.usage import CgroupUsage, CpuTimes, memory
from nri.text import plain

_MS_PER_NS = 1_000_000
_TIMES, _SIZES = "/proc/stat", "/proc/meminfo"


class Used(NamedTuple):
    """The usage of a cgroup. Unknown values are None.

    Attributes:
        milli: CPU usage since the previous sample, in thousandths of a CPU.
        throttled: whether the cgroup was throttled since the previous sample.
        memory: the working set in bytes.
    """

    milli: float | None = None
    throttled: bool | None = None
    memory: int | None = None


class Sample(NamedTuple):
    """A sample of the machine.

    Attributes:
        at: monotonic seconds.
        cpus: the number of CPUs.
        milli: CPU usage of the machine in thousandths of CPUs; None in the first sample, or if unknown.
        memory_total: the memory of the machine in bytes; None if unknown.
        memory_used: the bytes that are not available to programs; None if unknown.
        cgroups: the usage of the existing requested cgroups, by folder.
        no_cpu: why the CPU usage is unknown; "" if it is known.
        no_memory: why the memory usage is unknown; "" if it is known.
        times: the time counters of all CPUs; None if they cannot be read.
        sizes: the amounts of memory in bytes, by their names in /proc/meminfo; empty if they cannot be read.
    """

    at: float
    cpus: int
    milli: float | None
    memory_total: int | None
    memory_used: int | None
    cgroups: dict[str, Used]
    no_cpu: str = ""
    no_memory: str = ""
    times: CpuTimes | None = None
    sizes: Mapping[str, int] = MappingProxyType({})

    def of(self, folder: str) -> Used:
        """Return the usage of a cgroup; all values are None if it was not sampled."""
        return self.cgroups.get(folder, Used())


class _Before(NamedTuple):
    at: float
    usage: CgroupUsage


class Sampler:
    """Takes samples of the machine and of cgroups.

    Args:
        root: the machine.
        hierarchies: the cgroup hierarchies of the machine.
        now: returns monotonic seconds.
    """

    def __init__(self, root: Root, hierarchies: Hierarchies, now: Callable[[], float]) -> None:
        self._root, self._hierarchies, self._clock = root, hierarchies, now
        self._times: CpuTimes | None = None
        self._earlier_usage: dict[str, _Before] = {}

    def __len__(self) -> int:
        """The number of cgroups in the last sample."""
        return len(self._earlier_usage)

    def take(self, folders: Iterable[str], cpus: int) -> Sample:
        """Take a sample of the machine and of these cgroups."""
        at = self._clock()
        busy, no_cpu = self._node_cpu_usage(cpus)
        sizes, no_memory = self._sizes()
        total, used, no_memory = _memory(sizes, no_memory)
        fresh: dict[str, _Before] = {}
        used_by_folder: dict[str, Used] = {}
        for folder in folders:
            try:
                usage = cgroup_usage(self._hierarchies, folder)
            except (OSError, ValueError):
                continue
            fresh[folder] = _Before(at, usage)
            used_by_folder[folder] = _usage_between(self._earlier_usage.get(folder), fresh[folder])
        self._earlier_usage = fresh
        return Sample(at, cpus, busy, total, used, used_by_folder, no_cpu, no_memory, self._times, sizes)

    def _node_cpu_usage(self, cpus: int) -> tuple[int | None, str]:
        """Return the CPU usage since the previous sample in thousandths of CPUs, and the reason if it is unknown."""
        before, self._times = self._times, None
        if not cpus:
            return None, "/sys/devices/system/cpu lists no CPU"
        try:
            self._times = cpu_times(self._root)
        except (OSError, ValueError) as error:
            return None, _unusable_file_reason(_TIMES, error)
        return (None if before is None else int(self._times.share(before) * cpus * 1000)), ""

    def _sizes(self) -> tuple[dict[str, int], str]:
        """Return the amounts of memory of the machine, and the reason if they cannot be read."""
        try:
            return memory(self._root), ""
        except (OSError, ValueError) as error:
            return {}, _unusable_file_reason(_SIZES, error)


def _memory(sizes: Mapping[str, int], why: str) -> tuple[int | None, int | None, str]:
    """Return the memory of the machine and its usage in bytes, and the reason if a value is unknown."""
    if why:
        return None, None, why
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is None or free is None:
        return total, None, f"{_SIZES} has no {'MemTotal' if total is None else 'MemAvailable'}"
    return total, total - free, ""


def _unusable_file_reason(path: str, error: OSError | ValueError) -> str:
    """Return the reason why a file of the machine cannot be used, in one line with its name."""
    words = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return plain(words if path in words else f"{path}: {words}", 200)


def _usage_between(before: _Before | None, now: _Before) -> Used:
    """Return the usage between two samples. A counter that decreased belongs to a new cgroup."""
    size = now.usage.working_set_bytes
    if before is None or now.at <= before.at:
        return Used(memory=size)
    spent, throttled = (
        _increase(before.usage.cpu_ns, now.usage.cpu_ns),
        _increase(before.usage.throttled, now.usage.throttled),
    )
    milli = None if spent is None else int(spent / ((now.at - before.at) * _MS_PER_NS))
    return Used(milli, None if throttled is None else throttled > 0, size)


def _increase(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before
