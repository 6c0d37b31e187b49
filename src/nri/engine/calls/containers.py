"""Containers: made, started, stopped, removed, listed, told about, resized; their logs reopened.

Rules: as for pods: stopping and removing what is not there is no error, the status of it is NotFound.
Next: `nri.engine.calls.execution`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, begins, chunks, ended, labelled
from nri.engine.calls.container_removal import Containers
from nri.engine.lifecycle.inventory import ContainerEntry
from nri.engine.lifecycle.status import STATES, container_status
from nri.engine.state import ContainerRecord
from nri.engine.support.errors import NotFound
from nri.errors import RequestError

__all__ = ["ContainerCalls"]


class ContainerCalls:
    """The calls on containers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> pb.CreateContainerResponse:
        """Make a container in a pod; the answer is its id."""
        if not request.config.metadata.name:
            raise RequestError("config.metadata.name", "", "a container needs it")
        if not request.config.image.image:
            raise RequestError("config.image.image", "", "a container needs it")
        made = self._containers.create(request.pod_sandbox_id, request.config, request.sandbox_config)
        return pb.CreateContainerResponse(container_id=made)

    def start_container(self, request: pb.StartContainerRequest, call: Call) -> pb.StartContainerResponse:
        """Run a container that is made."""
        self._containers.start(request.container_id)
        return pb.StartContainerResponse()

    def stop_container(self, request: pb.StopContainerRequest, call: Call) -> pb.StopContainerResponse:
        """Ask a container to end, and kill it after the timeout, unless the client has gone by then.

        One that is not there, or over, is no error.
        """
        with suppress(NotFound):  # which is what was wanted
            self._containers.stop(request.container_id, max(request.timeout, 0), ended(call))
        return pb.StopContainerResponse()

    def remove_container(self, request: pb.RemoveContainerRequest, call: Call) -> pb.RemoveContainerResponse:
        """Remove a container, killed if it still runs; one that is not there is no error."""
        with suppress(NotFound):  # which is what was wanted
            self._containers.remove(request.container_id)
        return pb.RemoveContainerResponse()

    def container_status(self, request: pb.ContainerStatusRequest, call: Call) -> pb.ContainerStatusResponse:
        """A container."""
        found = self._containers.entry(request.container_id)
        info = {"info": json.dumps(container_info(found))} if request.verbose else {}
        return pb.ContainerStatusResponse(status=container_status(found), info=info)

    def list_containers(self, request: pb.ListContainersRequest, call: Call) -> pb.ListContainersResponse:
        """All containers, or those of the filter."""
        return pb.ListContainersResponse(containers=self._list(request.filter))

    def stream_containers(
        self, request: pb.StreamContainersRequest, call: Call
    ) -> Iterator[pb.StreamContainersResponse]:
        """The same in portions."""
        for items in chunks(self._list(request.filter)):
            yield pb.StreamContainersResponse(containers=items)

    def update_container_resources(
        self, request: pb.UpdateContainerResourcesRequest, call: Call
    ) -> pb.UpdateContainerResourcesResponse:
        """Change the resources of a container."""
        self._containers.update_resources(request.container_id, request.linux, dict(request.annotations))
        return pb.UpdateContainerResourcesResponse()

    def reopen_container_log(self, request: pb.ReopenContainerLogRequest, call: Call) -> pb.ReopenContainerLogResponse:
        """Have the log written to a new file of its name, because the old one was moved away."""
        self._containers.reopen_log(request.container_id)
        return pb.ReopenContainerLogResponse()

    def _list(self, wanted: pb.ContainerFilter) -> list[pb.Container]:
        made = []
        for record in self._containers.list():
            ours = begins(record.id, wanted.id) and begins(record.pod_id, wanted.pod_sandbox_id)
            if ours and labelled(record.labels, wanted.label_selector):
                item = container_item(record)
                if not wanted.HasField("state") or item.state == wanted.state.state:
                    made.append(item)
        return made


def container_item(record: ContainerRecord) -> pb.Container:
    """A container as lists have it. Pure."""
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
    """More of a container for people and tools, named as containerd does where it has the same."""
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
