"""UpdateContainerResources and UpdatePodSandboxResources.

A container gets the requested resources, unless a plugin replaces them. Updates of other containers that plugins return
are applied afterwards, and dropped if the update fails. The kubelet manages the cgroups of pods, so the engine only
records the resources of pods and notifies plugins.
"""

from __future__ import annotations

import logging

from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.lifecycle.inventory import ContainerEntry, to_json
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.resources import result_of
from nri.engine.spec import container_resources
from nri.engine.state import ContainerState
from nri.engine.state.tables import next_container_state

_log = logging.getLogger(__name__)


class ResourceUpdates:
    """Answers requests to change the resources of containers and pods."""

    def __init__(self, parts: Parts) -> None:
        self._inventory, self._machinery = parts.inventory, parts.machinery
        self._domain, self._resources = parts.domain, parts.resources

    # --- containers ---

    def update_container_resources(
        self, request: pb.UpdateContainerResourcesRequest, call: Call
    ) -> pb.UpdateContainerResourcesResponse:
        """Change the resources of a container."""
        self.update_container(request.container_id, request.linux, dict(request.annotations))
        return pb.UpdateContainerResourcesResponse()

    def update_container(
        self, prefix: str, linux: pb.LinuxContainerResources, annotations: dict[str, str] | None = None
    ) -> None:
        """Change the resources of a container, and add annotations.

        If the container has ended, only its record is changed, as in containerd, and plugins are not notified. Raises
        RequestError if the request is invalid, WrongState if the container cannot be updated in its state, and NriError
        if the update fails or a plugin rejects it.
        """
        container = self._inventory.container(prefix)
        with container.request_lock:
            self._update_container(container, linux, annotations or {})

    def _update_container(
        self, container: ContainerEntry, linux: pb.LinuxContainerResources, annotations: dict[str, str]
    ) -> None:
        ended = container.record.state is ContainerState.EXITED
        if not ended:
            next_container_state(container.id, container.record.state, "update")
        notes: list[str] = []
        machine = self._machinery.machine_of(container.record.runtime_handler)
        oci_resources = container_resources(linux, machine, notes, field="linux")
        for note in notes:
            _log.info("container %s: %s", container.id, note)
        requested = convert.to_nri(linux, "linux").value
        with self._domain.block():
            reply = None if ended else self._domain.update_container(container, requested)
            changed = reply is not None and reply.changed
            resources = reply.resources if reply is not None else requested
            result = result_of(container.id, resources)
            try:
                numbers = None if reply is None else reply.numbers
                self._resources.change(container, resources, result, None if changed else oci_resources, numbers)
            except BaseException:
                if reply is not None:
                    reply.abort()
                raise
            for row in result.fields:
                if row.reason:
                    _log.info("container %s: %s", container.id, row)
            if annotations:
                self._inventory.put(container, annotations={**container.record.annotations, **annotations})
            if reply is not None:
                self._domain.follow(reply, [result] if changed else ())
            if not ended:
                self._domain.post_update(container)

    # --- pods ---

    def update_pod_sandbox_resources(
        self, request: pb.UpdatePodSandboxResourcesRequest, call: Call
    ) -> pb.UpdatePodSandboxResourcesResponse:
        """Record the sum of the resources of a pod's containers, and its overhead."""
        overhead = request.overhead if request.HasField("overhead") else None
        resources = request.resources if request.HasField("resources") else None
        self.update_pod(request.pod_sandbox_id, overhead, resources)
        return pb.UpdatePodSandboxResourcesResponse()

    def update_pod(
        self,
        prefix: str,
        overhead: pb.LinuxContainerResources | None,
        resources: pb.LinuxContainerResources | None,
    ) -> None:
        """Record the overhead and resources of a pod after plugins have accepted them.

        Raises NotFound if the pod does not exist, and NriError if a plugin rejects the update.
        """
        pod = self._inventory.pod(prefix)
        with pod.request_lock, self._domain.block():
            self._domain.update_pod(pod, overhead, resources)
            rows = {"overhead": overhead, "resources": resources}
            messages = {name: message for name, message in rows.items() if message is not None}
            self._inventory.move_pod(
                pod, "update", resources={name: to_json(message) for name, message in messages.items()}
            )
            for name, message in messages.items():
                getattr(pod.config.linux, name).CopyFrom(message)
            self._domain.post_update_pod(pod)
