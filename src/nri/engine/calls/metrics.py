"""ListMetricDescriptors and ListPodSandboxMetrics: metrics of pods and containers under cAdvisor's names.

A kubelet with the feature PodAndContainerStatsFromCRI requests these metrics. If the kernel does not report a number,
the metric is left out. A missing limit is reported as 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, chunks
from nri.engine.calls.stats import Readings
from nri.engine.process import ContainerStats, Counters, InterfaceStats, Transfer
from nri.engine.state import ContainerRecord, PodRecord

#: Nanoseconds per second.
_S = 1_000_000_000
#: The labels of every metric.
_LABELS = ("container", "id", "image", "name", "namespace", "pod")
_FAULTS = ("failure_type", "scope")
_DEVICE = ("device",)
_BLOCK = ("device", "major", "minor", "operation")
_INTERFACE = ("interface",)
_C, _G = pb.COUNTER, pb.GAUGE


class Row(NamedTuple):
    """A metric. The value is the number `key` of a reading, divided by `unit`. `labels` are additional labels."""

    name: str
    kind: pb.MetricType.ValueType
    help: str
    key: str
    unit: int = 1
    labels: Sequence[str] = ()


#: Metrics of pods and containers. `key` is a field of `ContainerStats`. The CRI's values are integers.
USED = (
    Row("container_cpu_usage_seconds_total", _C, "Processor time used, in whole seconds.", "cpu_usage_ns", _S),
    Row(
        "container_memory_usage_bytes",
        _G,
        "Memory used, including pages that the kernel can drop.",
        "memory_usage_bytes",
    ),
    Row("container_memory_working_set_bytes", _G, "Memory used, without inactive pages of files.", "working_set_bytes"),
    Row("container_memory_rss", _G, "Anonymous memory, in bytes.", "rss_bytes"),
    Row("container_memory_swap", _G, "Swap used, in bytes.", "swap_usage_bytes"),
)
#: Metrics of containers only. `key` is a name in `Counters`.
COUNTED = (
    Row("container_cpu_user_seconds_total", _C, "Processor time in user mode.", "cpu_user", _S),
    Row("container_cpu_system_seconds_total", _C, "Processor time in kernel mode.", "cpu_system", _S),
    Row("container_cpu_cfs_periods_total", _C, "Periods of the processor quota.", "periods"),
    Row(
        "container_cpu_cfs_throttled_periods_total", _C, "Periods in which the quota was used up.", "throttled_periods"
    ),
    Row("container_cpu_cfs_throttled_seconds_total", _C, "Time that the quota made processes wait.", "throttled", _S),
    Row("container_memory_cache", _G, "Pages of files, in bytes.", "cache"),
    Row("container_memory_mapped_file", _G, "Mapped files, in bytes.", "mapped"),
    Row("container_memory_kernel_usage", _G, "Kernel memory, in bytes.", "memory_kernel"),
    Row("container_memory_max_usage_bytes", _G, "The highest memory use, in bytes.", "memory_max"),
    Row("container_memory_failcnt", _C, "Times that memory reached its limit.", "memory_failures"),
    Row("container_oom_events_total", _C, "Processes killed because memory was exhausted.", "ooms"),
    Row("container_processes", _G, "Processes.", "processes"),
    Row("container_threads", _G, "Threads.", "threads"),
    Row("container_threads_max", _G, "Limit of threads; 0 means no limit.", "threads_max"),
    Row("container_file_descriptors", _G, "Open descriptors.", "file_descriptors"),
    Row("container_sockets", _G, "Open sockets.", "sockets"),
    Row("container_spec_cpu_period", _G, "Length of a period of the processor quota, in us.", "cpu_period_us"),
    Row("container_spec_cpu_shares", _G, "Processor shares.", "cpu_shares"),
    Row("container_memory_total_active_file_bytes", _G, "Pages of files that were used recently.", "active_file"),
    Row("container_memory_total_inactive_file_bytes", _G, "Other pages of files.", "inactive_file"),
    Row("container_spec_cpu_quota", _G, "Processor quota in a period, in us; 0 means no limit.", "cpu_quota_us"),
    Row(
        "container_spec_memory_reservation_limit_bytes",
        _G,
        "Protected memory (cgroup v2) or soft limit (v1), in bytes; 0 means none.",
        "memory_reservation",
    ),
    *(
        Row(
            f"container_pressure_{kind}_{state}_seconds_total",
            _C,
            f"Time that {who} waited for {what}.",
            f"{kind}_{state}",
            _S,
        )
        for kind, what in (("cpu", "processors"), ("memory", "memory"), ("io", "devices"))
        for state, who in (("waiting", "some processes"), ("stalled", "all processes"))
    ),
    Row("container_spec_memory_limit_bytes", _G, "Memory limit, in bytes; 0 means no limit.", "memory_limit"),
    Row(
        "container_spec_memory_swap_limit_bytes",
        _G,
        "Limit of memory and swap, in bytes; 0 means no limit.",
        "swap_limit",
    ),
)
FAULTS = (
    Row("container_memory_failures_total", _C, "Page faults.", "page_faults", 1, _FAULTS),
    Row("container_memory_failures_total", _C, "Page faults.", "major_page_faults", 1, _FAULTS),
)
#: Metrics of times and disk space, which do not come from a cgroup.
UNCOUNTED = (
    Row("container_start_time_seconds", _G, "When the container began to run, in seconds since 1970.", "started", _S),
    Row("container_last_seen", _G, "When the container was last seen, in seconds since 1970.", "seen", _S),
    Row("container_fs_usage_bytes", _G, "Disk space of the container's writable layer, in bytes.", "written"),
    Row("container_fs_limit_bytes", _G, "Size of the writable layer's file system, in bytes.", "room"),
    Row("container_fs_inodes_total", _G, "Inodes of the writable layer's file system.", "inodes"),
    Row("container_fs_inodes_free", _G, "Free inodes of the writable layer's file system.", "inodes_free"),
)
#: Metrics of each block device. `key` is a field of `Transfer`.
TRANSFERRED = (
    Row("container_fs_reads_bytes_total", _C, "Bytes read.", "read_bytes", 1, _DEVICE),
    Row("container_fs_reads_total", _C, "Reads.", "reads", 1, _DEVICE),
    Row("container_fs_writes_bytes_total", _C, "Bytes written.", "write_bytes", 1, _DEVICE),
    Row("container_fs_writes_total", _C, "Writes.", "writes", 1, _DEVICE),
)
#: Metrics of each size of huge pages. `key` is a field of `HugePages`.
HUGE_PAGES = (
    Row("container_hugetlb_usage_bytes", _G, "Huge pages used, in bytes.", "usage_bytes", 1, ("pagesize",)),
    Row("container_hugetlb_max_usage_bytes", _G, "The highest use of huge pages.", "max_bytes", 1, ("pagesize",)),
)
#: The limit of the container's first process, with cAdvisor's name of the limit as a label.
ULIMIT = Row("container_ulimits_soft", _G, "Soft limit of the first process.", "open_files_limit", 1, ("ulimit",))
BLOCK = Row("container_blkio_device_usage_total", _C, "Bytes read and written.", "", 1, _BLOCK)
#: Metrics of each network interface of a pod. `key` is a field of `InterfaceStats`.
NETWORK = tuple(
    Row(f"container_network_{way}_{what}_total", _C, f"{text}, {way}.", f"{side}_{key}", 1, _INTERFACE)
    for way, side in (("receive", "rx"), ("transmit", "tx"))
    for what, key, text in (
        ("bytes", "bytes", "Bytes"),
        ("errors", "errors", "Errors"),
        ("packets", "packets", "Packets"),
        ("packets_dropped", "dropped", "Packets dropped"),
    )
)
TABLE = {
    row.name: row for row in (*USED, *COUNTED, *FAULTS, *UNCOUNTED, *TRANSFERRED, *HUGE_PAGES, ULIMIT, BLOCK, *NETWORK)
}


class MetricCalls:
    """Answers the calls for metrics."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def list_metric_descriptors(
        self, request: pb.ListMetricDescriptorsRequest, call: Call
    ) -> pb.ListMetricDescriptorsResponse:
        """List the available metrics, with their labels in order."""
        rows = TABLE.values()
        descriptors = [
            pb.MetricDescriptor(name=row.name, help=row.help, label_keys=[*_LABELS, *row.labels]) for row in rows
        ]
        return pb.ListMetricDescriptorsResponse(descriptors=descriptors)

    def list_pod_sandbox_metrics(
        self, request: pb.ListPodSandboxMetricsRequest, call: Call
    ) -> pb.ListPodSandboxMetricsResponse:
        """Report the metrics of all pods and containers."""
        return pb.ListPodSandboxMetricsResponse(pod_metrics=self._pods())

    def stream_pod_sandbox_metrics(
        self, request: pb.StreamPodSandboxMetricsRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxMetricsResponse]:
        """Stream the metrics of all pods and containers."""
        for pods in chunks(self._pods()):
            yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=pods)

    def _pods(self) -> list[pb.PodSandboxMetrics]:
        self._readings.forget()
        return [self._pod(pod.record) for pod in self._readings.inventory.pods()]

    def _pod(self, record: PodRecord) -> pb.PodSandboxMetrics:
        containers = [container.record for container in self._readings.inventory.containers(record.id)]
        readings = [self._readings.container(container) for container in containers]
        reading_of_pod = self._readings.pod(record, readings)
        labels = ["", record.id, "", record.name, record.namespace, record.config["metadata"]["name"]]
        metrics = Metrics(reading_of_pod.at_ns, labels)
        metrics.add_used(reading_of_pod.stats)
        for interface in self._readings.interfaces(record):
            metrics.add_network(interface)
        message = pb.PodSandboxMetrics(pod_sandbox_id=record.id, metrics=metrics.rows)
        for container, reading in zip(containers, readings, strict=True):
            name = container.config["metadata"]["name"]
            metrics = Metrics(reading.at_ns, [name, container.id, container.image, container.name, *labels[4:]])
            metrics.add_used(reading.stats)
            if reading.stats is not None and (counters := self._readings.counters(container)) is not None:
                metrics.add_counted(counters)
            metrics.add(UNCOUNTED, self._times_and_limits(container, reading.at_ns))
            message.container_metrics.append(pb.ContainerMetrics(container_id=container.id, metrics=metrics.rows))
        return message

    def _times_and_limits(self, record: ContainerRecord, at_ns: int) -> dict[str, int]:
        numbers = {"seen": at_ns}
        if record.started_at_ns:
            numbers["started"] = record.started_at_ns
        if space := self._readings.disk_space(record.id):
            disk = os.statvfs(self._readings.images.root)
            numbers |= {"written": space[1].size_bytes, "room": disk.f_blocks * disk.f_frsize}
            numbers |= {"inodes": disk.f_files, "inodes_free": disk.f_ffree}
        return numbers


class Metrics:
    """Collects the metrics of one pod or container in `rows`. Every metric gets `labels`."""

    def __init__(self, at_ns: int, labels: Sequence[str]) -> None:
        self.rows: list[pb.Metric] = []
        self._at_ns, self._labels = at_ns, labels

    def add_used(self, stats: ContainerStats | None) -> None:
        """Add the metrics of a cgroup, unless the container is not running and `stats` is None."""
        if stats is not None:
            numbers = {row.key: getattr(stats, row.key) for row in USED}
            self.add(USED, {key: value for key, value in numbers.items() if value is not None})

    def add_counted(self, counters: Counters) -> None:
        """Add the metrics of a running container."""
        self.add(COUNTED, counters.numbers)
        for row, kind in zip(FAULTS, ("pgfault", "pgmajfault"), strict=True):
            self.add([row], counters.numbers, kind, "container")
        self.add([ULIMIT], counters.numbers, "max_open_files")
        for pages in counters.huge_pages:
            self.add(
                HUGE_PAGES, {key: value for key, value in pages._asdict().items() if value is not None}, pages.size
            )
        for transfer in counters.transfers:
            self.add(TRANSFERRED, transfer._asdict(), device_name(transfer.device))
            self._add_block_device(transfer)

    def add_network(self, interface: InterfaceStats) -> None:
        """Add the metrics of a network interface."""
        self.add(NETWORK, {row.key: getattr(interface, row.key) for row in NETWORK}, interface.name)

    def add(self, rows: Sequence[Row], numbers: Mapping[str, int], *labels: str) -> None:
        """Add the metrics of `rows` that have a number."""
        self.rows += [self._metric(row, numbers[row.key], *labels) for row in rows if row.key in numbers]

    def _add_block_device(self, transfer: Transfer) -> None:
        major, _, minor = transfer.device.partition(":")
        for operation, value in (("Read", transfer.read_bytes), ("Write", transfer.write_bytes)):
            self.rows.append(self._metric(BLOCK, value, device_name(transfer.device), major, minor, operation))

    def _metric(self, row: Row, value: int, *labels: str) -> pb.Metric:
        return pb.Metric(
            name=row.name,
            timestamp=self._at_ns,
            metric_type=row.kind,
            label_values=[*self._labels, *labels],
            value=pb.UInt64Value(value=value // row.unit),
        )


def device_name(numbers: str) -> str:
    """Return the path of a block device with the numbers ``MAJOR:MINOR``, or the numbers if it no longer exists."""
    try:
        return f"/dev/{Path(os.readlink(f'/sys/dev/block/{numbers}')).name}"
    except OSError:
        return numbers
