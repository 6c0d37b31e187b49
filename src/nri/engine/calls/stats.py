"""Report the CRI's statistics of containers and pods. `metrics` uses the same readings.

A number that the kernel does not report is None, never 0.
"""

from __future__ import annotations

import logging
import os
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

#: The name of a pod's main network interface.
_DEFAULT_INTERFACE = "eth0"
#: One processor in `Reading.cores`.
_CORE = 1_000_000_000
#: The minimum time over which a rate is measured.
_RATE_NS = 500_000_000
#: The minimum time between two measurements of a container's disk space. The cost grows with the number of files.
_DISK_SPACE_NS = 10_000_000_000
#: A container is slow if its measurement takes longer than _SLOW_NS. The slow containers are measured in turn, for at
#: most one _SLOW_FACTOR-th of the time.
_SLOW_FACTOR, _SLOW_NS = 20, 50_000_000
_log = logging.getLogger(__name__)
#: The hierarchies of cgroup v1 that are read for a pod.
_V1 = ("cpuacct", "memory", "pids")
#: The fields of `ContainerStats` that `total` adds up.
_SUMMED = (
    "cpu_usage_ns", "memory_usage_bytes", "working_set_bytes", "rss_bytes", "page_faults", "major_page_faults",
    "swap_usage_bytes", "processes",
)  # fmt: skip


class StatsCalls:
    """Answers the calls for statistics."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def container_stats(self, request: pb.ContainerStatsRequest, call: Call) -> pb.ContainerStatsResponse:
        """Report the statistics of a container."""
        container = self._readings.inventory.container(request.container_id)
        return pb.ContainerStatsResponse(stats=self._container(container.record))

    def list_container_stats(self, request: pb.ListContainerStatsRequest, call: Call) -> pb.ListContainerStatsResponse:
        """Report the statistics of the containers that match the filter."""
        return pb.ListContainerStatsResponse(stats=self._containers(request.filter))

    def stream_container_stats(
        self, request: pb.StreamContainerStatsRequest, call: Call
    ) -> Iterator[pb.StreamContainerStatsResponse]:
        """Stream the statistics of the containers that match the filter."""
        for stats in chunks(self._containers(request.filter)):
            yield pb.StreamContainerStatsResponse(container_stats=stats)

    def pod_sandbox_stats(self, request: pb.PodSandboxStatsRequest, call: Call) -> pb.PodSandboxStatsResponse:
        """Report the statistics of a pod and its containers."""
        pod = self._readings.inventory.pod(request.pod_sandbox_id)
        return pb.PodSandboxStatsResponse(stats=self._pod(pod.record))

    def list_pod_sandbox_stats(
        self, request: pb.ListPodSandboxStatsRequest, call: Call
    ) -> pb.ListPodSandboxStatsResponse:
        """Report the statistics of the pods that match the filter."""
        return pb.ListPodSandboxStatsResponse(stats=self._pods(request.filter))

    def stream_pod_sandbox_stats(
        self, request: pb.StreamPodSandboxStatsRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxStatsResponse]:
        """Stream the statistics of the pods that match the filter."""
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
        reading = self._readings.pod(record, readings)
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
    """Return the CRI's message for the use of processors."""
    assert reading.stats is not None
    return pb.CpuUsage(
        timestamp=reading.at_ns,
        usage_core_nano_seconds=_number(reading.stats.cpu_usage_ns),
        usage_nano_cores=_number(reading.cores),
    )


def memory_message(at_ns: int, stats: ContainerStats) -> pb.MemoryUsage:
    """Return the CRI's message for the use of memory. Without a limit the available memory is not reported."""
    return pb.MemoryUsage(
        timestamp=at_ns,
        working_set_bytes=_number(stats.working_set_bytes),
        available_bytes=_number(_remaining_bytes(stats.memory_limit_bytes, stats.working_set_bytes)),
        usage_bytes=_number(stats.memory_usage_bytes),
        rss_bytes=_number(stats.rss_bytes),
        page_faults=_number(stats.page_faults),
        major_page_faults=_number(stats.major_page_faults),
    )


def swap_message(at_ns: int, stats: ContainerStats) -> pb.SwapUsage:
    """Return the CRI's message for the use of swap."""
    return pb.SwapUsage(
        timestamp=at_ns,
        swap_available_bytes=_number(_remaining_bytes(stats.swap_limit_bytes, stats.swap_usage_bytes)),
        swap_usage_bytes=_number(stats.swap_usage_bytes),
    )


def network_message(interfaces: list[InterfaceStats]) -> pb.NetworkUsage:
    """Return the CRI's message for a pod's network, without the loopback interface."""
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


def _remaining_bytes(limit: int | None, used: int | None) -> int | None:
    return None if limit is None or used is None else max(limit - used, 0)


class Reading(NamedTuple):
    """One reading of a pod or container.

    Attributes:
        at_ns: the time of the reading.
        stats: the statistics, or None if no process is running.
        cores: the use of processors in billionths of a core, or None if it is not known yet.
    """

    at_ns: int
    stats: ContainerStats | None
    cores: int | None


class _Rate(NamedTuple):
    """A rate, measured at `at_ns` (monotonic)."""

    at_ns: int
    usage_ns: int
    cores: int | None


class _DiskSpace(NamedTuple):
    """A measurement: its time, and the time until which it is valid (monotonic)."""

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
        """Read the statistics of a container."""
        stats = None
        if record.state is ContainerState.RUNNING:
            try:
                stats = self._containers.stats(record.id)
            except (EngineError, OSError):
                pass  # it has just ended
        elapsed_ns = time.time_ns() - record.started_at_ns if record.started_at_ns else 0
        average = None
        if stats is not None and stats.cpu_usage_ns is not None and elapsed_ns > 0:
            # Bounded, because the clock may have been set since the start.
            average = min(stats.cpu_usage_ns * _CORE // elapsed_ns, (os.cpu_count() or 1) * _CORE)
        return self._reading(record.id, stats, average)

    def counters(self, record: ContainerRecord) -> Counters | None:
        """Read all counters of a container. Returns None if the container has ended."""
        try:
            return read_counters(record.pid, self._cgroups, record.cgroup_path) if record.pid else None
        except OSError:
            return None

    def pod(self, record: PodRecord, containers: list[Reading]) -> Reading:
        """Read the statistics of a pod from its cgroup, or add up those of its containers if it has no cgroup.

        The first rate is the sum of the containers' rates, because the cgroup may be older than the pod.
        """
        if record.state is not PodState.READY:
            return self._reading(record.id, None, None)
        stats = self._own_cgroup(record) or total([row.stats for row in containers if row.stats is not None])
        rates = [row.cores for row in containers if row.cores is not None]
        return self._reading(record.id, stats, sum(rates) if rates else None)

    def interfaces(self, record: PodRecord) -> list[InterfaceStats]:
        """Read the counters of a pod's network interfaces.

        Returns [] if the pod uses the node's network, or if no container is running.
        """
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
        """Return the disk space of a container's writable layer, and the time of the measurement.

        Returns None if the container has no root file system.
        """
        at_ns, now = time.time_ns(), time.monotonic_ns()
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
                    self._disk_spaces.pop(
                        container_id, None
                    )  # otherwise the other slow containers would wait for its turn
                return None
            if not usage.whole and (entry is None or entry.usage.whole):
                _log.warning("container %s has too many files to count all: they take at least %d bytes",
                             container_id, usage.size_bytes)  # fmt: skip
            cost_ns = time.monotonic_ns() - now
            entry = _DiskSpace(at_ns, now + max(_DISK_SPACE_NS, _SLOW_FACTOR * cost_ns), usage, cost_ns > _SLOW_NS)
            with self._lock:
                self._disk_spaces[container_id] = entry
                if entry.is_slow:
                    self._slow_until_ns = entry.until_ns
        return entry.at_ns, entry.usage

    def forget(self) -> None:
        """Drop the earlier readings of pods and containers that no longer exist."""
        present = {container.id for container in self.inventory.containers()}
        present |= {pod.id for pod in self.inventory.pods()}
        with self._lock:
            for table in (self._rates, self._disk_spaces):
                for identity in table.keys() - present:
                    del table[identity]

    def _reading(self, identity: str, stats: ContainerStats | None, first_cores: int | None) -> Reading:
        """Return a reading with a rate, which is `first_cores` until there is an earlier reading."""
        at_ns, now = time.time_ns(), time.monotonic_ns()
        if stats is None or stats.cpu_usage_ns is None:
            return Reading(at_ns, stats, None)
        with self._lock:
            before = self._rates.get(identity)
            if before is None or stats.cpu_usage_ns < before.usage_ns:
                before = self._rates[identity] = _Rate(now, stats.cpu_usage_ns, first_cores)
            elif now - before.at_ns >= _RATE_NS:
                cores = (stats.cpu_usage_ns - before.usage_ns) * _CORE // (now - before.at_ns)
                before = self._rates[identity] = _Rate(now, stats.cpu_usage_ns, cores)
        return Reading(at_ns, stats, before.cores)

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


def total(rows: list[ContainerStats]) -> ContainerStats:
    """Add up the statistics of containers. A number that is None in all rows stays None."""
    sums: dict[str, int] = {}
    for row in rows:
        for name in _SUMMED:
            value = getattr(row, name)
            if value is not None:
                sums[name] = sums.get(name, 0) + value
    return replace(ContainerStats(), **sums)
