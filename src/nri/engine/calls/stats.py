"""The statistics of containers and pods, as the kubelet and crictl read them.

Rules: a container that does not run has only the room that it has written; one that is asked for by its id has to be
there. Next: `nri.engine.calls.events`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, begins, chunks, labelled
from nri.engine.calls.images import usage_message
from nri.engine.calls.readings import Reading, Readings
from nri.engine.process import ContainerStats, InterfaceStats
from nri.engine.state import ContainerRecord, PodRecord

__all__ = ["StatsCalls"]

_DEFAULT_INTERFACE = "eth0"


class StatsCalls:
    """The calls that tell what is used."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def container_stats(self, request: pb.ContainerStatsRequest, call: Call) -> pb.ContainerStatsResponse:
        """One container's."""
        return pb.ContainerStatsResponse(stats=self._container(self._readings.containers.get(request.container_id)))

    def list_container_stats(self, request: pb.ListContainerStatsRequest, call: Call) -> pb.ListContainerStatsResponse:
        """Those of all containers, or of the filter's."""
        return pb.ListContainerStatsResponse(stats=self._containers(request.filter))

    def stream_container_stats(
        self, request: pb.StreamContainerStatsRequest, call: Call
    ) -> Iterator[pb.StreamContainerStatsResponse]:
        """The same in portions."""
        for stats in chunks(self._containers(request.filter)):
            yield pb.StreamContainerStatsResponse(container_stats=stats)

    def pod_sandbox_stats(self, request: pb.PodSandboxStatsRequest, call: Call) -> pb.PodSandboxStatsResponse:
        """One pod's, with those of its containers."""
        return pb.PodSandboxStatsResponse(stats=self._pod(self._readings.pods.get(request.pod_sandbox_id)))

    def list_pod_sandbox_stats(
        self, request: pb.ListPodSandboxStatsRequest, call: Call
    ) -> pb.ListPodSandboxStatsResponse:
        """Those of all pods, or of the filter's."""
        return pb.ListPodSandboxStatsResponse(stats=self._pods(request.filter))

    def stream_pod_sandbox_stats(
        self, request: pb.StreamPodSandboxStatsRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxStatsResponse]:
        """The same in portions."""
        for stats in chunks(self._pods(request.filter)):
            yield pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=stats)

    def _containers(self, wanted: pb.ContainerStatsFilter) -> list[pb.ContainerStats]:
        self._readings.forget()
        return [
            self._container(each)
            for each in self._readings.containers.list()
            if begins(each.id, wanted.id)
            and begins(each.pod_id, wanted.pod_sandbox_id)
            and labelled(each.labels, wanted.label_selector)
        ]

    def _pods(self, wanted: pb.PodSandboxStatsFilter) -> list[pb.PodSandboxStats]:
        self._readings.forget()
        return [
            self._pod(each)
            for each in self._readings.pods.list()
            if begins(each.id, wanted.id) and labelled(each.labels, wanted.label_selector)
        ]

    def _container(self, record: ContainerRecord, reading: Reading | None = None) -> pb.ContainerStats:
        reading = reading or self._readings.container(record)
        made = pb.ContainerStats(
            attributes=pb.ContainerAttributes(
                id=record.id,
                metadata=pb.ContainerMetadata(name=record.config["metadata"]["name"], attempt=record.attempt),
                labels=record.labels,
                annotations=record.annotations,
            )
        )
        if room := self._readings.room(record.id):
            made.writable_layer.CopyFrom(usage_message(self._readings.images, room[1]))
            made.writable_layer.timestamp = room[0]
        if reading.stats is not None:
            made.cpu.CopyFrom(cpu_message(reading))
            made.memory.CopyFrom(memory_message(reading.at_ns, reading.stats))
            made.swap.CopyFrom(swap_message(reading.at_ns, reading.stats))
        return made

    def _pod(self, record: PodRecord) -> pb.PodSandboxStats:
        containers = self._readings.containers.list(record.id)
        readings = [self._readings.container(each) for each in containers]
        reading = self._readings.pod(record, [each.stats for each in readings if each.stats is not None])
        made = pb.PodSandboxStats(
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
        made.linux.containers.extend(map(self._container, containers, readings))
        if reading.stats is not None:
            made.linux.cpu.CopyFrom(cpu_message(reading))
            made.linux.memory.CopyFrom(memory_message(reading.at_ns, reading.stats))
            made.linux.process.timestamp = reading.at_ns
            made.linux.process.process_count.value = reading.stats.processes or 0
        if interfaces := self._readings.interfaces(record):
            made.linux.network.CopyFrom(network_message(interfaces))
        return made


def cpu_message(reading: Reading) -> pb.CpuUsage:
    """Processor time. Pure."""
    assert reading.stats is not None
    return pb.CpuUsage(
        timestamp=reading.at_ns,
        usage_core_nano_seconds=_number(reading.stats.cpu_usage_ns),
        usage_nano_cores=_number(reading.cores),
    )


def memory_message(at_ns: int, stats: ContainerStats) -> pb.MemoryUsage:
    """Memory; what is available is the limit less the working set, if there is a limit. Pure."""
    return pb.MemoryUsage(
        timestamp=at_ns,
        working_set_bytes=_number(stats.working_set_bytes),
        available_bytes=_number(_rest(stats.memory_limit_bytes, stats.working_set_bytes)),
        usage_bytes=_number(stats.memory_usage_bytes),
        rss_bytes=_number(stats.rss_bytes),
        page_faults=_number(stats.page_faults),
        major_page_faults=_number(stats.major_page_faults),
    )


def swap_message(at_ns: int, stats: ContainerStats) -> pb.SwapUsage:
    """Swap. Pure."""
    return pb.SwapUsage(
        timestamp=at_ns,
        swap_available_bytes=_number(_rest(stats.swap_limit_bytes, stats.swap_usage_bytes)),
        swap_usage_bytes=_number(stats.swap_usage_bytes),
    )


def network_message(interfaces: list[InterfaceStats]) -> pb.NetworkUsage:
    """A pod's network; loopback is no traffic. Pure."""
    made = pb.NetworkUsage(timestamp=time.time_ns())
    for each in interfaces:
        row = pb.NetworkInterfaceUsage(
            name=each.name,
            rx_bytes=_number(each.rx_bytes),
            rx_errors=_number(each.rx_errors),
            tx_bytes=_number(each.tx_bytes),
            tx_errors=_number(each.tx_errors),
        )
        if each.name == _DEFAULT_INTERFACE:
            made.default_interface.CopyFrom(row)
        elif each.name != "lo":
            made.interfaces.append(row)
    return made


def _number(value: int | None) -> pb.UInt64Value | None:
    return None if value is None else pb.UInt64Value(value=value)


def _rest(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else max(whole - part, 0)
