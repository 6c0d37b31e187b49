"""Samples of the machine: what the node, its pods and their containers have used since the sample before.

Rules: reads only; a share of time is a difference of two counters, so the first sample of a cgroup has none, and one
that was made anew begins again. What is remembered is what the last sample has met, and nothing else. Next:
:mod:`nri.agent.loops.moment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nri.host import Hierarchies, Root, cgroup_usage, cpu_times
from nri.host.usage import CgroupUsage, CpuTimes, memory

__all__ = ["Sample", "Sampler", "Used"]

_MS_PER_NS = 1_000_000


class Used(NamedTuple):
    """The use of a cgroup. None: not known, or not yet.

    Attributes:
        milli: thousandths of a CPU, since the sample before.
        throttled: whether its quota was used up since then.
        memory: its working set in bytes.
    """

    milli: int | None = None
    throttled: bool | None = None
    memory: int | None = None


class Sample(NamedTuple):
    """One look at the machine.

    Attributes:
        at: monotonic seconds.
        cpus: how many there are.
        milli: thousandths of CPUs that are busy; None in the first sample.
        memory_total: bytes.
        memory_used: bytes that are not available to programs.
        cgroups: by folder, those that were asked for and are there.
    """

    at: float
    cpus: int
    milli: int | None
    memory_total: int
    memory_used: int
    cgroups: dict[str, Used]

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
        """Look at the machine and at these cgroups. Raises OSError or ValueError if the machine cannot be asked."""
        at, times = self._now(), cpu_times(self._root)
        sizes = memory(self._root)
        total = sizes.get("MemTotal", 0)
        busy = None if self._times is None else int(times.share(self._times) * cpus * 1000)
        self._times = times
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
        return Sample(at, cpus, busy, total, total - sizes.get("MemAvailable", total), found)


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
