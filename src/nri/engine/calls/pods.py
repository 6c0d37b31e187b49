"""Pods: made, stopped, removed, listed, told about, resized.

Rules: stopping and removing what is not there is no error; the status of it is NotFound; what the request has to say is
checked here, what it asks for by those who do it. Next: `nri.engine.calls.containers`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, begins, chunks, labelled
from nri.engine.calls.container_removal import Containers
from nri.engine.calls.pod_creation import Pods
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry
from nri.engine.lifecycle.status import container_status, pod_status
from nri.engine.state import PodRecord, PodState
from nri.engine.support.errors import NotFound

__all__ = ["PodCalls"]


class PodCalls:
    """The calls on pods."""

    def __init__(self, pods: Pods, containers: Containers) -> None:
        self._pods, self._containers = pods, containers

    def run_pod_sandbox(self, request: pb.RunPodSandboxRequest, call: Call) -> pb.RunPodSandboxResponse:
        """Make a pod; the answer is its id."""
        return pb.RunPodSandboxResponse(pod_sandbox_id=self._pods.run(request.config, request.runtime_handler))

    def stop_pod_sandbox(self, request: pb.StopPodSandboxRequest, call: Call) -> pb.StopPodSandboxResponse:
        """Stop a pod with its containers; one that is not there, or stopped, is no error."""
        with suppress(NotFound):  # which is what was wanted
            self._pods.stop(request.pod_sandbox_id)
        return pb.StopPodSandboxResponse()

    def remove_pod_sandbox(self, request: pb.RemovePodSandboxRequest, call: Call) -> pb.RemovePodSandboxResponse:
        """Remove a pod with its containers, stopped first; one that is not there is no error."""
        with suppress(NotFound):  # which is what was wanted
            self._pods.remove(request.pod_sandbox_id)
        return pb.RemovePodSandboxResponse()

    def pod_sandbox_status(self, request: pb.PodSandboxStatusRequest, call: Call) -> pb.PodSandboxStatusResponse:
        """A pod and its containers, as of `timestamp`."""
        pod = self._pods.entry(request.pod_sandbox_id)
        return pb.PodSandboxStatusResponse(
            status=pod_status(pod),
            containers_statuses=[container_status(each) for each in self._containers_of(pod.id)],
            timestamp=time.time_ns(),
            info={"info": json.dumps(pod_info(pod))} if request.verbose else {},
        )

    def list_pod_sandbox(self, request: pb.ListPodSandboxRequest, call: Call) -> pb.ListPodSandboxResponse:
        """All pods, or those of the filter."""
        return pb.ListPodSandboxResponse(items=self._list(request.filter))

    def stream_pod_sandboxes(
        self, request: pb.StreamPodSandboxesRequest, call: Call
    ) -> Iterator[pb.StreamPodSandboxesResponse]:
        """The same in portions."""
        for items in chunks(self._list(request.filter)):
            yield pb.StreamPodSandboxesResponse(pod_sandboxes=items)

    def update_pod_sandbox_resources(
        self, request: pb.UpdatePodSandboxResourcesRequest, call: Call
    ) -> pb.UpdatePodSandboxResourcesResponse:
        """Tell a pod the sum of its containers' resources, and its overhead."""
        overhead = request.overhead if request.HasField("overhead") else None
        resources = request.resources if request.HasField("resources") else None
        self._pods.update_resources(request.pod_sandbox_id, overhead, resources)
        return pb.UpdatePodSandboxResourcesResponse()

    def _list(self, wanted: pb.PodSandboxFilter) -> list[pb.PodSandbox]:
        made = []
        for record in self._pods.list():
            if begins(record.id, wanted.id) and labelled(record.labels, wanted.label_selector):
                item = pod_item(record)
                if not wanted.HasField("state") or item.state == wanted.state.state:
                    made.append(item)
        return made

    def _containers_of(self, pod_id: str) -> Iterator[ContainerEntry]:
        for record in self._containers.list(pod_id):
            try:
                yield self._containers.entry(record.id)
            except NotFound:
                continue  # removed just now


def pod_item(record: PodRecord) -> pb.PodSandbox:
    """A pod as lists have it. Pure."""
    name = record.config["metadata"]["name"]
    return pb.PodSandbox(
        id=record.id,
        metadata=pb.PodSandboxMetadata(name=name, uid=record.uid, namespace=record.namespace, attempt=record.attempt),
        state=pb.SANDBOX_READY if record.state is PodState.READY else pb.SANDBOX_NOTREADY,
        created_at=record.created_at_ns,
        labels=record.labels,
        annotations=record.annotations,
        runtime_handler=record.runtime_handler,
    )


def pod_info(pod: PodEntry) -> dict[str, Any]:
    """More of a pod for people and tools, named as containerd does where it has the same."""
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
