"""Samples of the machine: what the node, its pods and their containers have used since the sample before.

Rules: reads only; a share of time is a difference of two counters, so the first sample of a cgroup has none, and one
that was made again begins again. A value that the machine does not have is None with the reason, and costs no other
value of the sample. Only the last sample's cgroups are remembered. Next:
:mod:`nri.agent.loops.round`.
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
    """The use of a cgroup. None: not known, or not yet.

    Attributes:
        milli: thousandths of a CPU, since the sample before.
        throttled: whether its quota was used up since then.
        memory: its working set in bytes.
    """

    milli: float | None = None
    throttled: bool | None = None
    memory: int | None = None


class Sample(NamedTuple):
    """One look at the machine.

    Attributes:
        at: monotonic seconds.
        cpus: how many there are.
        milli: thousandths of CPUs that are busy; None in the first sample, and where that cannot be known.
        memory_total: bytes; None if that cannot be known.
        memory_used: bytes that are not available to programs; None if that cannot be known.
        cgroups: by folder, those that were asked for and are there.
        no_cpu: why the use of CPUs cannot be known; "" if it can.
        no_memory: why the use of memory cannot be known; "" if it can.
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
        """Return the use of a cgroup; nothing is known of one that is not there."""
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
        found: dict[str, Used] = {}
        for folder in folders:
            try:
                usage = cgroup_usage(self._hierarchies, folder)
            except (OSError, ValueError):
                continue
            fresh[folder] = _Before(at, usage)
            found[folder] = _since(self._before.get(folder), fresh[folder])
        self._before = fresh
        return Sample(at, cpus, busy, total, used, found, no_cpu, no_memory, self._times, sizes)

    def _busy(self, cpus: int) -> tuple[int | None, str]:
        """Thousandths of CPUs that are busy since the look before, and why that cannot be known."""
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
    """The machine's memory and its use in bytes, and why that cannot be known."""
    if why:
        return None, None, why
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is None or free is None:
        return total, None, f"{_SIZES} has no {'MemTotal' if total is None else 'MemAvailable'}"
    return total, total - free, ""


def _why(path: str, error: OSError | ValueError) -> str:
    """Say why a file of the machine tells nothing, in one line that names it."""
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
