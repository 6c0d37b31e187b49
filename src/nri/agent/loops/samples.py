"""Samples of the machine: what the node, its pods and containers used since the previous sample.

Rates are differences of counters, so the first sample of a cgroup has none. An unavailable value is None with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from nri.host import Hierarchies, Root, cgroup_usage, cpu_times
from nri.host.usage import CgroupUsage, CpuTimes, memory
from nri.text import plain

__all__ = ["Sample", "Sampler", "Used"]

_MS_PER_NS = 1_000_000
_TIMES, _SIZES = "/proc/stat", "/proc/meminfo"


class Used(NamedTuple):
    """The use of a cgroup; None if unknown.

    Attributes:
        milli: thousandths of a CPU, since the sample before.
        throttled: whether its quota was used up since then.
        memory: its working set in bytes.
    """

    milli: float | None = None
    throttled: bool | None = None
    memory: int | None = None


class Sample(NamedTuple):
    """A sample of the machine.

    Attributes:
        at: monotonic seconds.
        cpus: the number of CPUs.
        milli: busy CPU time in thousandths of CPUs; None in the first sample, or if unknown.
        memory_total: bytes; None if unknown.
        memory_used: bytes that are not available to programs; None if unknown.
        cgroups: the use of the requested cgroups that exist, by folder.
        no_cpu: why the use of CPUs is unknown; "" if it is known.
        no_memory: why the use of memory is unknown; "" if it is known.
        times: the counters of all CPUs; None if they cannot be read.
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
        """Return the use of a cgroup; all unknown if it was not sampled."""
        return self.cgroups.get(folder, Used())


class _Before(NamedTuple):
    at: float
    usage: CgroupUsage


class Sampler:
    """Takes samples.

    Args:
        root: the machine.
        hierarchies: its cgroups.
        now: monotonic seconds.
    """

    def __init__(self, root: Root, hierarchies: Hierarchies, now: Callable[[], float]) -> None:
        self._root, self._hierarchies, self._now = root, hierarchies, now
        self._times: CpuTimes | None = None
        self._before: dict[str, _Before] = {}

    def __len__(self) -> int:
        """The number of cgroups that are remembered."""
        return len(self._before)

    def take(self, folders: Iterable[str], cpus: int) -> Sample:
        """Look at the machine and at these cgroups."""
        at = self._now()
        busy, no_cpu = self._busy(cpus)
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
            used_by_folder[folder] = _since(self._before.get(folder), fresh[folder])
        self._before = fresh
        return Sample(at, cpus, busy, total, used, used_by_folder, no_cpu, no_memory, self._times, sizes)

    def _busy(self, cpus: int) -> tuple[int | None, str]:
        """Busy thousandths of CPUs since the previous sample, and the reason if unknown."""
        before, self._times = self._times, None
        if not cpus:
            return None, "/sys/devices/system/cpu names no CPU"
        try:
            self._times = cpu_times(self._root)
        except (OSError, ValueError) as error:
            return None, _why(_TIMES, error)
        return (None if before is None else int(self._times.share(before) * cpus * 1000)), ""

    def _sizes(self) -> tuple[dict[str, int], str]:
        """The machine's amounts of memory, and why they cannot be read."""
        try:
            return memory(self._root), ""
        except (OSError, ValueError) as error:
            return {}, _why(_SIZES, error)


def _memory(sizes: Mapping[str, int], why: str) -> tuple[int | None, int | None, str]:
    """The machine's memory and its use in bytes, and the reason if unknown."""
    if why:
        return None, None, why
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is None or free is None:
        return total, None, f"{_SIZES} has no {'MemTotal' if total is None else 'MemAvailable'}"
    return total, total - free, ""


def _why(path: str, error: OSError | ValueError) -> str:
    """Return the reason why a file of the machine cannot be used, in one line with its name."""
    words = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return plain(words if path in words else f"{path}: {words}", 200)


def _since(before: _Before | None, now: _Before) -> Used:
    """The use between two looks; a counter that went back belongs to another cgroup."""
    size = now.usage.working_set_bytes
    if before is None or now.at <= before.at:
        return Used(memory=size)
    spent, throttled = _more(before.usage.cpu_ns, now.usage.cpu_ns), _more(before.usage.throttled, now.usage.throttled)
    milli = None if spent is None else int(spent / ((now.at - before.at) * _MS_PER_NS))
    return Used(milli, None if throttled is None else throttled > 0, size)


def _more(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or now < before else now - before
