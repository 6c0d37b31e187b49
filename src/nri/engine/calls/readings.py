"""The present use of pods and containers: readings of their cgroups, networks and room on the disk.

One job: :class:`Readings`, which `stats` and `metrics` tell in their own words. Rules: what the kernel does not say is
None, never 0; rates come from two readings that are half a second apart at least; the room that a container has written
is walked once in ten seconds or less often, because that costs as much as there are files.
Next: `nri.engine.calls.stats`.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nri.engine.calls.container_removal import Containers
from nri.engine.calls.pod_creation import Pods
from nri.engine.images import ImageStore
from nri.engine.process import ContainerStats, Counters, InterfaceStats, read_counters, read_interfaces
from nri.engine.process.stats import CGROUPS, stats_v1, stats_v2
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.support.errors import EngineError
from nri.files import Usage
from nri.host.cgroups import expand_slice

__all__ = ["Reading", "Readings"]

_RATE_NS = 500_000_000
_ROOM_NS = 10_000_000_000
#: A container with many files, which take longer than the second, is walked more seldom: all of them together for this
#: part of the time at most, in turn.
_PATIENCE, _SLOW_NS = 20, 50_000_000
_log = logging.getLogger(__name__)
_V1 = ("cpuacct", "memory", "pids")
_COUNTED = (
    "cpu_usage_ns", "memory_usage_bytes", "working_set_bytes", "rss_bytes", "page_faults", "major_page_faults",
    "swap_usage_bytes", "processes",
)  # fmt: skip


class Reading(NamedTuple):
    """One reading. `stats` is None if nothing runs; `cores` is the use of processors in billionths of one."""

    at_ns: int
    stats: ContainerStats | None
    cores: int | None


class _Rate(NamedTuple):
    at_ns: int
    usage_ns: int
    cores: int | None


class _Room(NamedTuple):
    at_ns: int
    until_ns: int
    usage: Usage
    slow: bool


class Readings:
    """Reads, and keeps what rates need of what is still there."""

    def __init__(self, pods: Pods, containers: Containers, images: ImageStore, cgroups: Path = CGROUPS) -> None:
        self.pods, self.containers, self.images = pods, containers, images
        self._cgroups = cgroups
        self._lock = threading.Lock()
        self._rates: dict[str, _Rate] = {}
        self._rooms: dict[str, _Room] = {}
        self._slow_until_ns = 0

    def container(self, record: ContainerRecord) -> Reading:
        """A container's use."""
        stats = None
        if record.state is ContainerState.RUNNING:
            try:
                stats = self.containers.stats(record.id)
            except (EngineError, OSError):
                pass  # it has ended just now
        return self._reading(record.id, stats)

    def counters(self, record: ContainerRecord) -> Counters | None:
        """All that is counted for a container; None if it has ended just now."""
        try:
            return read_counters(record.pid, self._cgroups, record.cgroup_path) if record.pid else None
        except OSError:
            return None

    def pod(self, record: PodRecord, containers: list[ContainerStats]) -> Reading:
        """A pod's use: of its own cgroup if that is known, else the sum of its containers."""
        if record.state is not PodState.READY:
            return self._reading(record.id, None)
        return self._reading(record.id, self._own_cgroup(record) or total(containers))

    def interfaces(self, record: PodRecord) -> list[InterfaceStats]:
        """The counters of a pod's network; none for a pod on the node's, or if nothing runs in it."""
        if not record.ips:
            return []
        for each in self.containers.list(record.id):
            if each.pid and each.state is ContainerState.RUNNING:
                try:
                    return read_interfaces(each.pid)
                except OSError:
                    continue  # it has ended just now
        return []

    def room(self, container_id: str) -> tuple[int, Usage] | None:
        """The room that a container takes on disk, and when that was found; None if it has no file system any more."""
        now = time.time_ns()
        with self._lock:
            kept = self._rooms.get(container_id)
            due = kept is None or now > (self._slow_until_ns if kept.slow else kept.until_ns)
            if due and kept is not None and kept.slow:
                due = kept.at_ns <= min(each.at_ns for each in self._rooms.values() if each.slow)
        if due or kept is None:
            try:
                found = self.images.snapshots.usage(container_id)
            except (OSError, ValueError):
                with self._lock:
                    self._rooms.pop(container_id, None)  # else the others would wait for its turn
                return None
            if not found.whole and (kept is None or kept.usage.whole):
                _log.warning("container %s has more files than can be counted: it takes %d bytes or more",
                             container_id, found.size_bytes)  # fmt: skip
            cost_ns = time.time_ns() - now
            kept = _Room(now, now + max(_ROOM_NS, _PATIENCE * cost_ns), found, cost_ns > _SLOW_NS)
            with self._lock:
                self._rooms[container_id] = kept
                if kept.slow:
                    self._slow_until_ns = kept.until_ns
        return kept.at_ns, kept.usage

    def forget(self) -> None:
        """Let go of what is kept of pods and containers that are gone."""
        there = {each.id for each in self.containers.list()} | {each.id for each in self.pods.list()}
        with self._lock:
            for kept in (self._rates, self._rooms):
                for gone in kept.keys() - there:
                    del kept[gone]

    def _reading(self, identity: str, stats: ContainerStats | None) -> Reading:
        now = time.time_ns()
        if stats is None or stats.cpu_usage_ns is None:
            return Reading(now, stats, None)
        with self._lock:
            before = self._rates.get(identity)
            if before is None or stats.cpu_usage_ns < before.usage_ns:
                before = self._rates[identity] = _Rate(now, stats.cpu_usage_ns, None)
            elif now - before.at_ns >= _RATE_NS:
                cores = (stats.cpu_usage_ns - before.usage_ns) * 1_000_000_000 // (now - before.at_ns)
                before = self._rates[identity] = _Rate(now, stats.cpu_usage_ns, cores)
        return Reading(now, stats, before.cores)

    def _own_cgroup(self, record: PodRecord) -> ContainerStats | None:
        try:
            path = expand_slice(record.cgroup_parent)
        except ValueError:  # a name that systemd does not take
            return None
        if (self._cgroups / "cgroup.controllers").exists():
            folder = self._cgroups / path
            return stats_v2(folder) if path and folder.is_dir() else None
        paths = {name: self._cgroups / name / path for name in _V1}
        return stats_v1(paths) if path and paths["memory"].is_dir() else None


def total(parts: list[ContainerStats]) -> ContainerStats:
    """The sum of readings; None where no part has a value. Pure."""
    sums: dict[str, int] = {}
    for part in parts:
        for name in _COUNTED:
            value = getattr(part, name)
            if value is not None:
                sums[name] = sums.get(name, 0) + value
    return replace(ContainerStats(), **sums)
