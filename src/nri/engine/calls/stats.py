"""Statistics of containers and pods, and the readings behind them, which `metrics` reports, too.

A number that the kernel does not report is None, never 0.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, chunks, has_labels, matches_id
from nri.engine.calls.execution import RunningContainers
from nri.engine.calls.images import usage_message
from nri.engine.images import ImageStore
from nri.engine.lifecycle.inventory import Inventory
from nri.engine.process import ContainerStats, Counters, InterfaceStats, read_counters, read_interfaces
from nri.engine.process.stats import CGROUPS, stats_v1, stats_v2
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.engine.support.errors import EngineError
from nri.files import Usage
from nri.host.cgroups import expand_slice

_DEFAULT_INTERFACE = "eth0"
#: The least time between two readings of a rate.
_RATE_NS = 500_000_000
#: The least time between two measurements of a container's disk space, whose cost grows with the number of files.
_DISK_SPACE_NS = 10_000_000_000
#: A container whose measurement takes longer than _SLOW_NS is measured more rarely: all slow ones take turns, and use
#: at most one _SLOW_FACTOR-th of the time.
_SLOW_FACTOR, _SLOW_NS = 20, 50_000_000
_log = logging.getLogger(__name__)
_V1 = ("cpuacct", "memory", "pids")
_COUNTED = (
    "cpu_usage_ns", "memory_usage_bytes", "working_set_bytes", "rss_bytes", "page_faults", "major_page_faults",
    "swap_usage_bytes", "processes",
)  # fmt: skip


class StatsCalls:
    """The calls that report statistics."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def container_stats(self, request: pb.ContainerStatsRequest, call: Call) -> pb.ContainerStatsResponse:
        """The statistics of a container."""
        container = self._readings.inventory.container(request.container_id)
        return pb.ContainerStatsResponse(stats=self._container(container.record))

    def list_container_stats(self, request: pb.ListContainerStatsRequest, call: Call) -> pb.ListContainerStatsResponse:
        """The statistics of all containers, or of those that match the filter."""
        return pb.ListContainerStatsResponse(stats=self._containers(request.filter))

    def stream_container_stats(
        self, request: pb.StreamContainerStatsRequest, call: Call
    ) -> Iterator[pb.StreamContainerStatsResponse]:
        """Stream the statistics of containers."""
        for stats in chunks(self._containers(request.filter)):
            yield pb.StreamContainerStatsResponse(container_stats=stats)

    def pod_sandbox_stats(self, request: pb.PodSandboxStatsRequest, call: Call) -> pb.PodSandboxStatsResponse:
        """The statistics of a pod, with those of its containers."""
        pod = self._readings.inventory.pod(request.pod_sandbox_id)
        return pb.PodSandboxStatsResponse(stats=self._pod(pod.record))

    def list_pod_sandbox_stats(
        self, request: pb.ListPodSandboxStatsRequest, call: Call
    ) -> pb.ListPodSandboxStatsResponse:
        """The statistics of all pods, or of those that match the filter."""
        return pb.ListPodSandboxStatsResponse(stats=self._pods(request.filter))

    def stream_pod_sandbox_stats(
        self, request: pb.StreamPodSandboxStatsRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxStatsResponse]:
        """Stream the statistics of pods."""
        for stats in chunks(self._pods(request.filter)):
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=stats)

    def _containers(self, filter_: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        self._readings.forget()
        return [
            self._container(container.record)
            for container in self._readings.inventory.containers()
            if matches_id(container.id, filter_.id)
            and matches_id(container.record.pod_id, filter_.pod_sandbox_id)
            and has_labels(container.record.labels, filter_.label_selector)
        ]

    def _pods(self, filter_: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        self._readings.forget()
        return [
            self._pod(pod.record)
            for pod in self._readings.inventory.pods()
            if matches_id(pod.id, filter_.id) and has_labels(pod.record.labels, filter_.label_selector)
        ]

    def _container(self, record: ContainerRecord, reading: Reading | None = None) -> pb.ContainerStats:
        reading = reading or self._readings.container(record)
        message = pb.ContainerStats(
            attributes=pb.ContainerAttributes(
                id=record.id,
                metadata=pb.ContainerMetadata(name=record.config["metadata"]["name"], attempt=record.attempt),
                labels=record.labels,
                annotations=record.annotations,
            )
        )
        if space := self._readings.disk_space(record.id):
            message.writable_layer.CopyFrom(usage_message(self._readings.images, space[1]))
            message.writable_layer.timestamp = space[0]
        if reading.stats is not None:
            message.cpu.CopyFrom(cpu_message(reading))
            message.memory.CopyFrom(memory_message(reading.at_ns, reading.stats))
            message.swap.CopyFrom(swap_message(reading.at_ns, reading.stats))
        return message

    def _pod(self, record: PodRecord) -> pb.PodSandboxStats:
        containers = [container.record for container in self._readings.inventory.containers(record.id)]
        readings = [self._readings.container(container) for container in containers]
        reading = self._readings.pod(record, [row.stats for row in readings if row.stats is not None])
        message = pb.PodSandboxStats(
            attributes=pb.PodSandboxAttributes(
                id=record.id,
                metadata=pb.PodSandboxMetadata(
                    name=record.config["metadata"]["name"],
                    uid=record.uid,
                    namespace=record.namespace,
                    attempt=record.attempt,
                ),
                labels=record.labels,
                annotations=record.annotations,
            )
        )
        message.linux.containers.extend(map(self._container, containers, readings))
        if reading.stats is not None:
            message.linux.cpu.CopyFrom(cpu_message(reading))
            message.linux.memory.CopyFrom(memory_message(reading.at_ns, reading.stats))
            message.linux.process.timestamp = reading.at_ns
            message.linux.process.process_count.value = reading.stats.processes or 0
        if interfaces := self._readings.interfaces(record):
            message.linux.network.CopyFrom(network_message(interfaces))
        return message


def cpu_message(reading: Reading) -> pb.CpuUsage:
    """The CRI's message for the use of processors."""
    assert reading.stats is not None
    return pb.CpuUsage(
        timestamp=reading.at_ns,
        usage_core_nano_seconds=_number(reading.stats.cpu_usage_ns),
        usage_nano_cores=_number(reading.cores),
    )


def memory_message(at_ns: int, stats: ContainerStats) -> pb.MemoryUsage:
    """The CRI's message for the use of memory; the available memory is known only with a limit."""
    return pb.MemoryUsage(
        timestamp=at_ns,
        working_set_bytes=_number(stats.working_set_bytes),
        available_bytes=_number(_remaining(stats.memory_limit_bytes, stats.working_set_bytes)),
        usage_bytes=_number(stats.memory_usage_bytes),
        rss_bytes=_number(stats.rss_bytes),
        page_faults=_number(stats.page_faults),
        major_page_faults=_number(stats.major_page_faults),
    )


def swap_message(at_ns: int, stats: ContainerStats) -> pb.SwapUsage:
    """The CRI's message for the use of swap."""
    return pb.SwapUsage(
        timestamp=at_ns,
        swap_available_bytes=_number(_remaining(stats.swap_limit_bytes, stats.swap_usage_bytes)),
        swap_usage_bytes=_number(stats.swap_usage_bytes),
    )


def network_message(interfaces: list[InterfaceStats]) -> pb.NetworkUsage:
    """The CRI's message for a pod's network; loopback is left out."""
    message = pb.NetworkUsage(timestamp=time.time_ns())
    for interface in interfaces:
        row = pb.NetworkInterfaceUsage(
            name=interface.name,
            rx_bytes=_number(interface.rx_bytes),
            rx_errors=_number(interface.rx_errors),
            tx_bytes=_number(interface.tx_bytes),
            tx_errors=_number(interface.tx_errors),
        )
        if interface.name == _DEFAULT_INTERFACE:
            message.default_interface.CopyFrom(row)
        elif interface.name != "lo":
            message.interfaces.append(row)
    return message


def _number(value: int | None) -> pb.UInt64Value | None:
    return None if value is None else pb.UInt64Value(value=value)


def _remaining(limit: int | None, used: int | None) -> int | None:
    return None if limit is None or used is None else max(limit - used, 0)


class Reading(NamedTuple):
    """One reading. `stats` is None if nothing runs; `cores` is the use of processors in billionths of a core."""

    at_ns: int
    stats: ContainerStats | None
    cores: int | None


class _Rate(NamedTuple):
    at_ns: int
    usage_ns: int
    cores: int | None


class _DiskSpace(NamedTuple):
    at_ns: int
    until_ns: int
    usage: Usage
    is_slow: bool


class Readings:
    """Reads statistics, and keeps earlier readings for rates."""

    def __init__(
        self, inventory: Inventory, containers: RunningContainers, images: ImageStore, cgroups: Path = CGROUPS
    ) -> None:
        self.inventory, self.images = inventory, images
        self._containers = containers
        self._cgroups = cgroups
        self._lock = threading.Lock()
        self._rates: dict[str, _Rate] = {}
        self._disk_spaces: dict[str, _DiskSpace] = {}
        self._slow_until_ns = 0

    def container(self, record: ContainerRecord) -> Reading:
        """A reading of a container."""
        stats = None
        if record.state is ContainerState.RUNNING:
            try:
                stats = self._containers.stats(record.id)
            except (EngineError, OSError):
                pass  # it has just ended
        return self._reading(record.id, stats)

    def counters(self, record: ContainerRecord) -> Counters | None:
        """All counters of a container; None if it has just ended."""
        try:
            return read_counters(record.pid, self._cgroups, record.cgroup_path) if record.pid else None
        except OSError:
            return None

    def pod(self, record: PodRecord, containers: list[ContainerStats]) -> Reading:
        """A reading of a pod: of its cgroup if that is known, otherwise the sum of its containers."""
        if record.state is not PodState.READY:
            return self._reading(record.id, None)
        return self._reading(record.id, self._own_cgroup(record) or total(containers))

    def interfaces(self, record: PodRecord) -> list[InterfaceStats]:
        """The counters of a pod's network; empty if the pod uses the node's network, or if nothing runs in it."""
        if not record.ips:
            return []
        for container in self.inventory.containers(record.id):
            if container.record.pid and container.record.state is ContainerState.RUNNING:
                try:
                    return read_interfaces(container.record.pid)
                except OSError:
                    continue  # it has just ended
        return []

    def disk_space(self, container_id: str) -> tuple[int, Usage] | None:
        """The time of the measurement, and the disk space of a container; None if it has no file system."""
        now = time.time_ns()
        with self._lock:
            entry = self._disk_spaces.get(container_id)
            is_due = entry is None or now > (self._slow_until_ns if entry.is_slow else entry.until_ns)
            if is_due and entry is not None and entry.is_slow:
                is_due = entry.at_ns <= min(other.at_ns for other in self._disk_spaces.values() if other.is_slow)
        if is_due or entry is None:
            try:
                usage = self.images.snapshots.usage(container_id)
            except (OSError, ValueError):
                with self._lock:
                    self._disk_spaces.pop(container_id, None)  # otherwise the slow ones would wait for its turn
                return None
            if not usage.whole and (entry is None or entry.usage.whole):
                _log.warning("container %s has too many files to count: it takes at least %d bytes",
                             container_id, usage.size_bytes)  # fmt: skip
            cost_ns = time.time_ns() - now
            entry = _DiskSpace(now, now + max(_DISK_SPACE_NS, _SLOW_FACTOR * cost_ns), usage, cost_ns > _SLOW_NS)
            with self._lock:
                self._disk_spaces[container_id] = entry
                if entry.is_slow:
                    self._slow_until_ns = entry.until_ns
        return entry.at_ns, entry.usage

    def forget(self) -> None:
        """Drop what is kept for pods and containers that no longer exist."""
        present = {container.id for container in self.inventory.containers()}
        present |= {pod.id for pod in self.inventory.pods()}
        with self._lock:
            for table in (self._rates, self._disk_spaces):
                for identity in table.keys() - present:
                    del table[identity]

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
        except ValueError:  # systemd rejects the name
            return None
        if (self._cgroups / "cgroup.controllers").exists():
            folder = self._cgroups / path
            return stats_v2(folder) if path and folder.is_dir() else None
        paths = {name: self._cgroups / name / path for name in _V1}
        return stats_v1(paths) if path and paths["memory"].is_dir() else None


def total(parts: list[ContainerStats]) -> ContainerStats:
    """The sum of readings; a number that no part has stays None."""
    sums: dict[str, int] = {}
    for part in parts:
        for name in _COUNTED:
            value = getattr(part, name)
            if value is not None:
                sums[name] = sums.get(name, 0) + value
    return replace(ContainerStats(), **sums)
