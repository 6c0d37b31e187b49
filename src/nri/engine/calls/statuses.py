"""PodSandboxStatus, ListPodSandbox, ContainerStatus, ListContainers, and their streams."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, chunks, has_labels, matches_id
from nri.engine.lifecycle.inventory import STATES, ContainerEntry, Inventory, PodEntry, container_status, pod_status
from nri.engine.state import ContainerRecord, PodRecord, PodState


class StatusCalls:
    """Answers the calls for lists and statuses of pods and containers."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    # --- pods ---

    def pod_sandbox_status(self, request: pb.PodSandboxStatusRequest, call: Call) -> pb.PodSandboxStatusResponse:
        """Report the status of a pod and its containers. `timestamp` is the time of the report."""
        pod = self._inventory.pod(request.pod_sandbox_id)
        return pb.PodSandboxStatusResponse(
            status=pod_status(pod),
            containers_statuses=[container_status(entry) for entry in self._inventory.containers(pod.id)],
            timestamp=time.time_ns(),
            info={"info": json.dumps(pod_info(pod))} if request.verbose else {},
        )

    def list_pod_sandbox(self, request: pb.ListPodSandboxRequest, call: Call) -> pb.ListPodSandboxResponse:
        """List the pods that match the filter."""
        return pb.ListPodSandboxResponse(items=self._pods(request.filter))

    def stream_pod_sandboxes(
        self, request: pb.StreamPodSandboxesRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxesResponse]:
        """Stream the pods that match the filter."""
        for items in chunks(self._pods(request.filter)):
            yield pb.StreamPodSandboxesResponse(pod_sandboxes=items)

    def _pods(self, filter_: pb.PodSandboxFilter) -> list[pb.PodSandbox]:
        items = []
        for pod in self._inventory.pods():
            if matches_id(pod.id, filter_.id) and has_labels(pod.record.labels, filter_.label_selector):
                item = pod_item(pod.record)
                if not filter_.HasField("state") or item.state == filter_.state.state:
                    items.append(item)
        return items

    # --- containers ---

    def container_status(self, request: pb.ContainerStatusRequest, call: Call) -> pb.ContainerStatusResponse:
        """Report the status of a container."""
        container = self._inventory.container(request.container_id)
        info = {"info": json.dumps(container_info(container))} if request.verbose else {}
        return pb.ContainerStatusResponse(status=container_status(container), info=info)

    def list_containers(self, request: pb.ListContainersRequest, call: Call) -> pb.ListContainersResponse:
        """List the containers that match the filter."""
        return pb.ListContainersResponse(containers=self._containers(request.filter))

    def stream_containers(
        self, request: pb.StreamContainersRequest, call: Call
    ) -> Iterator[pb.StreamContainersResponse]:
        """Stream the containers that match the filter."""
        for items in chunks(self._containers(request.filter)):
            yield pb.StreamContainersResponse(containers=items)

    def _containers(self, filter_: pb.ContainerFilter) -> list[pb.Container]:
        items = []
        for container in self._inventory.containers():
            record = container.record
            matches = matches_id(record.id, filter_.id) and matches_id(record.pod_id, filter_.pod_sandbox_id)
            if matches and has_labels(record.labels, filter_.label_selector):
                item = container_item(record)
                if not filter_.HasField("state") or item.state == filter_.state.state:
                    items.append(item)
        return items


def pod_item(record: PodRecord) -> pb.PodSandbox:
    """Return the message of a pod in lists."""
    name = record.config["metadata"]["name"]
    return pb.PodSandbox(
        id=record.id,
        metadata=pb.PodSandboxMetadata(name=name, uid=record.uid, namespace=record.namespace, attempt=record.attempt),
        state=pb.SANDBOX_READY if record.state is PodState.READY else pb.SANDBOX_NOTREADY,
        created_at=record.created_at_ns,
        labels=record.labels,
        annotations=record.annotations,
        runtime_handler=record.requested_handler,
    )


def pod_info(pod: PodEntry) -> dict[str, Any]:
    """Return the details of a pod for verbose requests. Details that containerd reports, too, have its names."""
    record = pod.record
    return {
        "pid": record.pid,
        "state": record.state,
        "runtimeHandler": record.runtime_handler,
        "cgroupPath": record.cgroup_path,
        "namespaces": record.namespace_paths,
        "cniResult": record.network,
        "config": json_format.MessageToDict(pod.config),
        "nri": record.nri,
    }


def container_item(record: ContainerRecord) -> pb.Container:
    """Return the message of a container in lists."""
    image = json_format.ParseDict(record.config["image"], pb.ImageSpec(), ignore_unknown_fields=True)
    return pb.Container(
        id=record.id,
        pod_sandbox_id=record.pod_id,
        metadata=pb.ContainerMetadata(name=record.config["metadata"]["name"], attempt=record.attempt),
        image=image,
        image_ref=record.image_ref,
        image_id=record.image_id,
        state=STATES[record.state],
        created_at=record.created_at_ns,
        labels=record.labels,
        annotations=record.annotations,
    )


def container_info(container: ContainerEntry) -> dict[str, Any]:
    """Return the details of a container for verbose requests. Details that containerd reports, too, have its names."""
    record = container.record
    return {
        "sandboxID": record.pod_id,
        "pid": record.pid,
        "state": record.state,
        "runtimeHandler": record.runtime_handler,
        "cgroupPath": record.cgroup_path,
        "config": json_format.MessageToDict(container.config),
        "runtimeSpec": container.spec,
        "nri": record.nri,
    }
