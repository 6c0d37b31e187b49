"""StopContainer and RemoveContainer. Neither fails for a container that does not exist."""

from __future__ import annotations

import threading
from functools import partial

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call, end_event
from nri.engine.calls.container_creation import ContainerCreation
from nri.engine.lifecycle.parts import Parts
from nri.engine.state import ContainerState
from nri.engine.support.errors import EngineError, NotFound
from nri.threads import run_all


class ContainerRemoval:
    """Stops and removes containers."""

    def __init__(self, parts: Parts, creation: ContainerCreation) -> None:
        self._inventory, self._processes, self._domain = parts.inventory, parts.processes, parts.domain
        self._events, self._creation = parts.events, creation

    def stop_container(self, request: pb.StopContainerRequest, call: Call) -> pb.StopContainerResponse:
        """Send a container its stop signal, and kill it after the timeout, unless the client has disconnected."""
        self.stop(request.container_id, max(request.timeout, 0), end_event(call))
        return pb.StopContainerResponse()

    def remove_container(self, request: pb.RemoveContainerRequest, call: Call) -> pb.RemoveContainerResponse:
        """Remove a container. A running container is killed first."""
        self.remove(request.container_id)
        return pb.RemoveContainerResponse()

    def stop(self, prefix: str, timeout_s: float = 0.0, client_gone: threading.Event | None = None) -> None:
        """Send a container its stop signal, and SIGKILL after `timeout_s` seconds. Calling it again has no effect.

        A container that was not started can still be started afterwards, as in containerd. This call does not wait for
        other calls on the container. Raises EngineError if the container does not end, or if `client_gone` is set
        before SIGKILL is sent.
        """
        try:
            container = self._inventory.container(prefix)
        except NotFound:
            return
        if container.record.state is not ContainerState.CREATED:
            self._processes.stop(container, timeout_s, client_gone)

    def remove(self, prefix: str) -> None:
        """Remove a container. A running container is killed first. Calling it again has no effect.

        Raises EngineError if the container cannot be stopped or removed.
        """
        try:
            container = self._inventory.container(prefix)
        except NotFound:
            return
        with container.request_lock:
            if container.record.state is not ContainerState.REMOVING:
                self._processes.stop(container)
                self._inventory.move_container(container, "remove")
            with self._domain.block(urgent=True):
                self._domain.remove(container)
                try:
                    self._creation.dismantle(container)
                except OSError as error:
                    raise EngineError(f"container {container.id} is not removed: {error}") from error
                self._inventory.drop(container)
        self._events.publish(container, pb.CONTAINER_DELETED_EVENT)

    def end_all(self, pod_id: str, *, remove: bool) -> None:
        """Kill or remove all containers of a pod in parallel. Raises the first error."""
        containers = self._inventory.containers(pod_id)
        stop, remove_ = self._processes.stop, self.remove
        work = [partial(remove_, entry.id) if remove else partial(stop, entry) for entry in containers]
        run_all(work, "nri-engine-end-all")
