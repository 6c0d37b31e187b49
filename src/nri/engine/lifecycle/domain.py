"""Send events of pods and containers to NRI plugins. Only this module calls plugins.

If a plugin rejects an event before a change, the method raises an error, and the request fails. Errors in events after
a change are only logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from nri.adaptation import CreateReply, OrderedUpdates, StopReply, UpdateReply, UpdateResult
from nri.api import messages as m
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.hub import NriHub
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, pod_progress, progress
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.resources import Resources
from nri.engine.state import ContainerState
from nri.engine.support.errors import NotFound
from nri.errors import NriError

#: The key of a record for the state that plugins received last, and its values. They are part of the file format.
_REPORTED, _CREATED, _STOPPED, _REMOVED = "told", "created", "stopped", "removed"
#: The states of containers that a synchronization always includes.
_LISTED = (ContainerState.CREATED, ContainerState.STARTING, ContainerState.RUNNING, ContainerState.UNKNOWN)
_log = logging.getLogger(__name__)


class Messages(NamedTuple):
    """The NRI messages of a pod and of a container that is created. `container` was built from `spec`."""

    pod: m.PodSandbox
    container: m.Container
    spec: dict[str, Any]


class Domain:
    """The pods and containers of one domain of the engine, as plugins see them.

    Plugins receive the stop and the removal of a pod or container once, even if the engine restarts, because the record
    has the last reported state.
    """

    def __init__(
        self, name: str, hub: NriHub, inventory: Inventory, resources: Resources, processes: Processes
    ) -> None:
        self.name = name
        self._hub, self._inventory, self._resources, self._processes = hub, inventory, resources, processes
        hub.register(self)

    def block(self, *, urgent: bool = False) -> AbstractContextManager[object]:
        """Prevent plugins from joining during a request. `urgent` is for requests that stop or remove something."""
        adaptation = self._hub.adaptation
        return nullcontext() if adaptation is None else adaptation.block_sync(urgent=urgent)

    # --- pods ---

    def run_pod(self, pod: PodEntry) -> None:
        """Send RunPodSandbox, before the pod is ready. Raises NriError if a plugin rejects the pod."""
        message = self.pod_message(pod)
        pod.record.nri[_REPORTED] = _CREATED
        if self._hub.adaptation is not None:
            self._hub.adaptation.run_pod_sandbox(message)

    def update_pod(
        self, pod: PodEntry, overhead: pb.LinuxContainerResources | None, resources: pb.LinuxContainerResources | None
    ) -> None:
        """Send new resources of a pod to plugins. Raises NriError if a plugin rejects them."""
        if self._hub.adaptation is not None:
            parts = [None if part is None else convert.to_nri(part).value for part in (overhead, resources)]
            self._hub.adaptation.update_pod_sandbox(self.pod_message(pod), *parts)

    def post_update_pod(self, pod: PodEntry) -> None:
        """Notify plugins that a pod has new resources."""
        if self._hub.adaptation is not None:
            self._send_and_log_failure("post_update_pod_sandbox", self.pod_message(pod))

    def stop_pod(self, pod: PodEntry) -> None:
        """Notify plugins, once, that a pod has stopped, while its network still exists."""
        if self._advance_state(pod, _STOPPED, (_CREATED,)):
            self._send_and_log_failure("stop_pod_sandbox", self.pod_message(pod))

    def remove_pod(self, pod: PodEntry) -> None:
        """Notify plugins, once, that a pod is removed. If its stop was not reported, the stop is reported first."""
        self.stop_pod(pod)
        if self._advance_state(pod, _REMOVED, (_STOPPED,)):
            self._send_and_log_failure("remove_pod_sandbox", self.pod_message(pod))

    # --- containers ---

    def messages(self, pod: PodEntry, container: ContainerEntry) -> Messages | None:
        """Build the messages for the creation of a container. Returns None if NRI is off."""
        if self._hub.adaptation is None:
            return None
        return Messages(self.pod_message(pod), self.container_message(container), container.spec)

    def create(self, container: ContainerEntry, messages: Messages | None) -> CreateReply | None:
        """Send CreateContainer, and return the merged reply of the plugins, or None if NRI is off.

        Raises NriError if a plugin rejects the container.
        """
        container.record.nri[_REPORTED] = _CREATED
        if self._hub.adaptation is None or messages is None:
            return None
        return self._hub.adaptation.create_container(messages.pod, messages.container)

    def undo_create(self, container: ContainerEntry) -> None:
        """Notify plugins that the creation of a container failed."""
        self.stop(container)
        self.remove(container)

    def post_create(self, container: ContainerEntry, messages: Messages | None) -> None:
        """Notify plugins that a container was created. `messages` are the messages that `create` received."""
        if messages is None:
            return
        if container.spec == messages.spec:
            message = m.Container()
            message.CopyFrom(messages.container)
            record = container.record
            message.pid, message.created_at, message.status_message = record.pid, record.created_at_ns, record.message
        else:  # plugins have adjusted it
            message = self.container_message(container)
        self._send_and_log_failure("post_create_container", messages.pod, message)

    def start(self, container: ContainerEntry) -> None:
        """Notify plugins that a container is about to start. Raises NriError if a plugin rejects the start."""
        if self._hub.adaptation is not None:
            self._hub.adaptation.start_container(*self._pod_and_container(container))

    def post_start(self, container: ContainerEntry) -> None:
        """Notify plugins that a container runs."""
        self._logged_pair("post_start_container", container)

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates that plugins request."""
        return self._resources.apply(updates)

    def update_container(self, container: ContainerEntry, resources: m.LinuxResources) -> UpdateReply | None:
        """Send UpdateContainer, and return the merged reply of the plugins, or None if NRI is off.

        Raises NriError if a plugin rejects the update.
        """
        if self._hub.adaptation is None:
            return None
        try:
            return self._hub.adaptation.update_container(*self._pod_and_container(container), resources)
        except NriError:
            if self._hub.tell_refused:
                self.post_update(container)
            raise

    def post_update(self, container: ContainerEntry) -> None:
        """Notify plugins that a container has new resources."""
        self._logged_pair("post_update_container", container)

    def stop(self, container: ContainerEntry) -> None:
        """Notify plugins, once, that a container has stopped, and apply their updates of other containers."""
        if not self._advance_state(container, _STOPPED, (_CREATED,)):
            return
        reply: StopReply | None = self._logged_pair("stop_container", container)
        if reply is not None:
            self.follow(reply)

    def remove(self, container: ContainerEntry) -> None:
        """Notify plugins, once, that a container is removed. If its stop was not reported, it is reported first."""
        self.stop(container)
        if self._advance_state(container, _REMOVED, (_STOPPED,)):
            self._logged_pair("remove_container", container)

    # --- updates and evictions that plugins request ---

    def follow(self, reply: CreateReply | UpdateReply | StopReply, results: Sequence[UpdateResult] = ()) -> None:
        """Apply the updates of other containers and the evictions in a reply.

        `results` has the results of the container's own update, for the audit.
        """
        reply.commit([*results, *self._hub.update(reply.updates)])
        self._hub.evict(list(getattr(reply, "evictions", ())))

    def has(self, container_id: str) -> bool:
        """Whether this domain has a container with exactly this id."""
        try:
            return self._inventory.container(container_id).id == container_id
        except NriError:
            return False

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        """Start to stop containers that plugins evict."""
        for eviction in evictions:
            self._processes.evict(eviction.container_id, eviction.reason)

    # --- messages ---

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return the pods and containers for a synchronization.

        These are the running ones, and those that have ended without a report to plugins.
        """
        pods = [pod for pod in self._inventory.pods() if pod.record.nri.get(_REPORTED) == _CREATED]
        containers = [
            container for container in self._inventory.containers()
            if container.record.state in _LISTED or container.record.nri.get(_REPORTED) == _CREATED
        ]  # fmt: skip
        return [*map(self.pod_message, pods)], [*map(self.container_message, containers)]

    def pod_message(self, pod: PodEntry) -> m.PodSandbox:
        """Build the NRI message of a pod. Namespaces that no longer exist are left out."""
        record = pod.record
        paths = {kind: path for kind, path in record.namespace_paths.items() if os.path.exists(path)}
        part = {
            "linux": {
                "cgroupsPath": record.cgroup_path,
                "namespaces": [{"type": kind, "path": path} for kind, path in paths.items()],
            }
        }
        return convert.pod_sandbox(pod_progress(pod), pod.config, part, pid=record.pid).value

    def container_message(self, container: ContainerEntry) -> m.Container:
        """Build the NRI message of a container."""
        record = container.record
        status = progress(container)
        return convert.container(
            status, container.config, container.spec, pod_id=record.pod_id, pid=record.pid
        ).value  # fmt: skip

    def _pod_and_container(self, container: ContainerEntry) -> tuple[m.PodSandbox, m.Container]:
        try:
            pod = self.pod_message(self._inventory.pod(container.record.pod_id))
        except NotFound:  # its record was lost; the event is about the container
            pod = m.PodSandbox(id=container.record.pod_id)
        return pod, self.container_message(container)

    # --- implementation ---

    def _advance_state(self, entry: PodEntry | ContainerEntry, state: str, before: tuple[str, ...]) -> bool:
        """Record the next reported state; False unless the current one is in `before`."""
        with entry.record_lock:
            if entry.record.nri.get(_REPORTED) not in before:
                return False
            self._inventory.note(entry, nri={**entry.record.nri, _REPORTED: state})
            return True

    def _logged_pair(self, event: str, container: ContainerEntry) -> Any:
        return (
            None
            if self._hub.adaptation is None
            else self._send_and_log_failure(event, *self._pod_and_container(container))
        )

    def _send_and_log_failure(self, event: str, *messages: Any) -> Any:
        """Send an event, and only log its failure."""
        if self._hub.adaptation is None:
            return None
        try:
            return getattr(self._hub.adaptation, event)(*messages)
        except NriError as error:
            _log.warning("NRI %s of %s: %s", event, messages[-1].id, error)
            return None
