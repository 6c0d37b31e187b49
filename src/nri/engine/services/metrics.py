"""The metrics of pods and containers, under the names that cAdvisor made known.

Rules: a table: name, kind, help, and where the number is from; the CRI's values are whole numbers, so seconds are, too;
a number that the kernel does not say has no metric. A kubelet with PodAndContainerStatsFromCRI scrapes these.
Next: `nri.engine.services.runtime_info`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.process import ContainerStats, InterfaceStats
from nri.engine.services.call import Call, chunks
from nri.engine.services.readings import Readings
from nri.engine.state import ContainerRecord, PodRecord

__all__ = ["MetricCalls"]

_S = 1_000_000_000
_LABELS = ("container", "id", "image", "name", "namespace", "pod")


class Row(NamedTuple):
    """A metric of the use of a container or pod."""

    name: str
    kind: pb.MetricType.ValueType
    help: str
    value: Callable[[ContainerStats], int | None]


class InterfaceRow(NamedTuple):
    """A metric of one interface of a pod's network."""

    name: str
    help: str
    value: Callable[[InterfaceStats], int]


USED = (
    Row("container_cpu_usage_seconds_total", pb.COUNTER, "Processor time used, in whole seconds.",
        lambda s: None if s.cpu_usage_ns is None else s.cpu_usage_ns // _S),
    Row("container_memory_usage_bytes", pb.GAUGE, "Memory used, with what the kernel can drop.",
        lambda s: s.memory_usage_bytes),
    Row("container_memory_working_set_bytes", pb.GAUGE, "Memory used, without what the kernel can drop first.",
        lambda s: s.working_set_bytes),
    Row("container_memory_rss", pb.GAUGE, "Anonymous memory.", lambda s: s.rss_bytes),
    Row("container_memory_swap", pb.GAUGE, "Swap used, in bytes.", lambda s: s.swap_usage_bytes),
    Row("container_spec_memory_limit_bytes", pb.GAUGE, "Memory limit.", lambda s: s.memory_limit_bytes),
    Row("container_page_faults_total", pb.COUNTER, "Page faults.", lambda s: s.page_faults),
    Row("container_major_page_faults_total", pb.COUNTER, "Page faults that needed the disk.",
        lambda s: s.major_page_faults),
    Row("container_processes", pb.GAUGE, "Processes and threads.", lambda s: s.processes),
)  # fmt: skip
STARTED = ("container_start_time_seconds", "When the container began to run, in seconds since 1970.")
WRITTEN = ("container_fs_usage_bytes", "Room that the container has written, on the disk.")
INODES = ("container_fs_inodes", "Files that the container has written.")
NETWORK = (
    InterfaceRow("container_network_receive_bytes_total", "Bytes received.", lambda i: i.rx_bytes),
    InterfaceRow("container_network_receive_errors_total", "Errors while receiving.", lambda i: i.rx_errors),
    InterfaceRow("container_network_transmit_bytes_total", "Bytes sent.", lambda i: i.tx_bytes),
    InterfaceRow("container_network_transmit_errors_total", "Errors while sending.", lambda i: i.tx_errors),
)


class MetricCalls:
    """The calls that give metrics."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def list_metric_descriptors(
        self, request: pb.ListMetricDescriptorsRequest, call: Call
    ) -> pb.ListMetricDescriptorsResponse:
        """Which metrics there are, and their labels in order."""
        rows = [*((row.name, row.help) for row in USED), STARTED, WRITTEN, INODES]
        made = [pb.MetricDescriptor(name=name, help=text, label_keys=_LABELS) for name, text in rows]
        labels = (*_LABELS, "interface")
        made += [pb.MetricDescriptor(name=row.name, help=row.help, label_keys=labels) for row in NETWORK]
        return pb.ListMetricDescriptorsResponse(descriptors=made)

    def list_pod_sandbox_metrics(
        self, request: pb.ListPodSandboxMetricsRequest, call: Call
    ) -> pb.ListPodSandboxMetricsResponse:
        """The metrics of all pods and containers."""
        return pb.ListPodSandboxMetricsResponse(pod_metrics=self._pods())

    def stream_pod_sandbox_metrics(
        self, request: pb.StreamPodSandboxMetricsRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxMetricsResponse]:
        """The same in portions."""
        for pods in chunks(self._pods()):
            yield pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=pods)

    def _pods(self) -> list[pb.PodSandboxMetrics]:
        self._readings.forget()
        return [self._pod(each) for each in self._readings.pods.list()]

    def _pod(self, record: PodRecord) -> pb.PodSandboxMetrics:
        containers = self._readings.containers.list(record.id)
        readings = [self._readings.container(each) for each in containers]
        own = self._readings.pod(record, [each.stats for each in readings if each.stats is not None])
        labels = ["", record.id, "", record.name, record.namespace, record.config["metadata"]["name"]]
        made = pb.PodSandboxMetrics(pod_sandbox_id=record.id)
        if own.stats is not None:
            made.metrics.extend(_used(own.stats, own.at_ns, labels))
        for interface in self._readings.interfaces(record):
            values = [*labels, interface.name]
            made.metrics.extend(
                _metric(row.name, own.at_ns, pb.COUNTER, values, row.value(interface)) for row in NETWORK
            )
        for each, reading in zip(containers, readings, strict=True):
            metrics = [] if reading.stats is None else _used(reading.stats, reading.at_ns, _labels(each, labels))
            metrics += self._others(each, reading.at_ns, _labels(each, labels))
            made.container_metrics.append(pb.ContainerMetrics(container_id=each.id, metrics=metrics))
        return made

    def _others(self, record: ContainerRecord, at_ns: int, labels: list[str]) -> list[pb.Metric]:
        made = []
        if record.started_at_ns:
            made.append(_metric(STARTED[0], at_ns, pb.GAUGE, labels, record.started_at_ns // _S))
        if room := self._readings.room(record.id):
            made.append(_metric(WRITTEN[0], room[0], pb.GAUGE, labels, room[1].size_bytes))
            made.append(_metric(INODES[0], room[0], pb.GAUGE, labels, room[1].inodes))
        return made


def _labels(record: ContainerRecord, pod: list[str]) -> list[str]:
    return [record.config["metadata"]["name"], record.id, record.image, record.name, *pod[4:]]


def _used(stats: ContainerStats, at_ns: int, labels: list[str]) -> list[pb.Metric]:
    found = ((row, row.value(stats)) for row in USED)
    return [_metric(row.name, at_ns, row.kind, labels, value) for row, value in found if value is not None]


def _metric(name: str, at_ns: int, kind: pb.MetricType.ValueType, labels: list[str], value: int) -> pb.Metric:
    return pb.Metric(
        name=name, timestamp=at_ns, metric_type=kind, label_values=labels, value=pb.UInt64Value(value=value)
    )
