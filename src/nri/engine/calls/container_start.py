"""StartContainer. If the start fails, the container ends with the reason StartError.

The start also fails if the OCI runtime refused to create the container, as in containerd.
"""

from __future__ import annotations

import time

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.lifecycle.inventory import ContainerEntry
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.processes import EVICTED
from nri.engine.process import Exit
from nri.engine.state.tables import next_container_state
from nri.engine.support.errors import EngineError
from nri.errors import NriError

#: The exit code and reason of a container that failed to start, as in containerd and CRI-O.
START_FAILED = (128, "StartError")


class ContainerStart:
    """Starts containers."""

    def __init__(self, parts: Parts) -> None:
        self._inventory, self._machinery, self._domain = parts.inventory, parts.machinery, parts.domain
        self._exit_handler, self._events = parts.exit_handler, parts.events

    def start_container(self, request: pb.StartContainerRequest, call: Call) -> pb.StartContainerResponse:
        """Start a created container."""
        self.start(request.container_id)
        return pb.StartContainerResponse()

    def start(self, prefix: str) -> None:
        """Start the container with an id that begins with `prefix`.

        Raises NotFound if it does not exist, WrongState if it was started before, and NriError if the start fails.
        """
        container = self._inventory.container(prefix)
        try:
            with container.request_lock, container.starting, self._domain.block():
                self._start_container(container)
                self._domain.post_start(container)
        except NriError as error:
            message = container.record.message
            # Evicted between creation and start: the OCI runtime's own error would not name the plugin.
            if message.startswith(EVICTED):
                raise EngineError(f"container {container.id} does not start: {message}") from error
            raise
        self._events.publish(container, pb.CONTAINER_STARTED_EVENT)

    def _start_container(self, container: ContainerEntry) -> None:
        next_container_state(container.id, container.record.state, "start")
        try:
            if container.record.start_failure:
                raise EngineError(container.record.start_failure)
            self._domain.start(container)
            self._inventory.move_container(container, "start")
            started_at_ns = time.time_ns()  # recorded before the call, because the program may end during the call
            self._machinery.runtime(container.record.runtime_handler).start(container.id)
            self._inventory.move_container(container, "finish start", started_at_ns=started_at_ns)
        except Exception as error:
            code, reason = START_FAILED
            message = container.record.message or str(error)  # keep the reason of an eviction
            self._exit_handler.take(container, Exit(container.id, code, time.time_ns(), reason), message)
            raise
