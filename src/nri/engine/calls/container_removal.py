"""Containers: created, started, stopped, removed, and what is done in one that runs.

Rules: one request at a time changes a container, and a stop waits for none; a start that fails ends the container with
StartError; stop and remove of one that is not there are no errors. They are made in `creation`, and
their ends handled in `exit_handler`. Next:
:mod:`nri.engine.calls.resource_updates`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.container_creation import Creation
from nri.engine.calls.resource_updates import Updates
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.processes import EVICTED, Processes
from nri.engine.process import (
    Attachment,
    ContainerStats,
    ExecResult,
    Execution,
    Exit,
    Runtime,
    read_stats,
)
from nri.engine.process.execution import exec_process
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.state.tables import next_container_state
from nri.engine.support.errors import EngineError, NotFound
from nri.errors import NriError
from nri.threads import run_all

__all__ = ["START_FAILED", "Containers"]

#: The exit code and reason of a container that could not be started, as the field has them.
START_FAILED = (128, "StartError")


class Containers:
    """The containers of an engine."""

    def __init__(
        self,
        inventory: Inventory,
        machinery: Machinery,
        domain: Domain,
        bus: EventBus,
        processes: Processes,
        creation: Creation,
        exit_handler: ExitHandler,
        updates: Updates,
    ) -> None:
        self._inventory, self._machinery, self._domain, self._bus = inventory, machinery, domain, bus
        self._processes, self._creation, self._exit_handler, self._updates = processes, creation, exit_handler, updates

    # --- asking ---

    def get(self, prefix: str) -> ContainerRecord:
        """The record of a container, by its id or the beginning of it. Raises NotFound. Not to be changed."""
        return self._inventory.container(prefix).record

    def entry(self, prefix: str) -> ContainerEntry:
        """A container with its configuration as a message and its OCI spec. Raises NotFound."""
        return self._inventory.container(prefix)

    def list(self, pod_id: str = "") -> list[ContainerRecord]:
        """The records of all containers, or of one pod's, the oldest first."""
        return [each.record for each in self._inventory.containers(pod_id)]

    def stats(self, prefix: str) -> ContainerStats:
        """The resources that a container uses now. Raises NotFound, WrongState if it does not run."""
        container = self._running(prefix)
        try:
            return read_stats(container.record.pid, own=container.record.cgroup_path)
        except FileNotFoundError:
            raise EngineError(f"container {container.id} ended just now") from None

    # --- the calls ---

    def create(
        self,
        pod_id: str,
        config: pb.ContainerConfig,
        pod_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Make a container in a pod that is ready; returns its id. A step that fails is undone. Raises NriError."""
        container = self._creation.create(self._inventory.pod(pod_id), config)
        self._bus.publish(container, pb.CONTAINER_CREATED_EVENT)
        return container.id

    def start(self, prefix: str) -> None:
        """Have a container run. One that cannot is ended with the reason StartError. Raises WrongState, NriError."""
        container = self._inventory.container(prefix)
        try:
            with container.request_lock, container.starting, self._domain.block():
                self._start(container)
                self._domain.post_start(container)
        except NriError as error:
            why = container.record.message
            if why.startswith(EVICTED):  # between its creation and this; an OCI runtime has no word of that
                raise EngineError(f"container {container.id} does not start: {why}") from error
            raise
        self._bus.publish(container, pb.CONTAINER_STARTED_EVENT)

    def _start(self, container: ContainerEntry) -> None:
        next_container_state(container.id, container.record.state, "start")
        try:
            self._domain.start(container)
            self._inventory.move_container(container, "start")
            began = time.time_ns()
            self._runtime(container).start(container.id)
            self._inventory.move_container(container, "finish start", started_at_ns=began)  # it may be over by now
        except Exception as error:
            code, reason = START_FAILED
            why = container.record.message or str(error)  # it has one already if a plugin has evicted it
            self._exit_handler.take(container, Exit(container.id, code, time.time_ns(), reason), why)
            raise

    def stop(self, prefix: str, timeout_s: float = 0.0, gone: threading.Event | None = None) -> None:
        """Stop a container: its stop signal, then, after `timeout_s` seconds, SIGKILL. Repeating it is no error.

        Raises EngineError if it does not end, or if the caller is `gone` before SIGKILL.
        """
        try:
            container = self._inventory.container(prefix)
        except NotFound:
            return
        self._processes.stop(container, timeout_s, gone)

    def remove(self, prefix: str) -> None:
        """Remove a container, stopped by force if it runs. Repeating it is no error. Raises EngineError."""
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
        self._bus.publish(container, pb.CONTAINER_DELETED_EVENT)

    def end_all(self, pod_id: str, *, remove: bool) -> None:
        """Stop or remove all containers of a pod by force, at the same time. Raises the first error."""
        work = self.remove if remove else self.stop
        run_all([partial(work, entry.id) for entry in self._inventory.containers(pod_id)], "nri-engine-end-all")

    def update_resources(
        self, prefix: str, linux: pb.LinuxContainerResources, annotations: dict[str, str] | None = None
    ) -> None:
        """Give a container other resources, as plugins have changed the request. Raises RequestError, NriError."""
        container = self._inventory.container(prefix)
        with container.request_lock:
            self._updates.update(container, linux, annotations or {})

    # --- in a container that runs ---

    def exec_sync(
        self,
        prefix: str,
        argv: Sequence[str],
        timeout_s: float | None = None,
        gone: threading.Event | None = None,
    ) -> ExecResult:
        """Run a program in a container to its end. Raises NotFound, WrongState, CommandTimeout, CommandFailed.

        It is killed when its time is over, or its caller `gone`.
        """
        container = self._running(prefix)
        process = exec_process(_process(container), argv)
        return self._machinery.exec_sync(self._runtime(container), container.id, process, timeout_s, gone)

    def exec(self, prefix: str, argv: Sequence[str], *, tty: bool = False, stdin: bool = False) -> Execution:
        """Run a program in a container with its streams open. Raises as :meth:`exec_sync`."""
        container = self._running(prefix)
        process = exec_process(_process(container), argv, tty=tty)
        return Execution(self._runtime(container), container.id, process, stdin=stdin)

    def attach(self, prefix: str) -> Attachment:
        """Watch a container's own streams, and type into them. Raises NotFound, WrongState, EngineError."""
        return Attachment(Path(self._running(prefix).record.bundle))

    def resize(self, prefix: str, width: int, height: int) -> None:
        """Set the size of a container's terminal, in characters."""
        self._machinery.conmon.resize(Path(self._running(prefix).record.bundle), width, height)

    def reopen_log(self, prefix: str) -> None:
        """Write a new log file, after the present one was renamed. Raises NotFound, WrongState, EngineError."""
        container = self._running(prefix)
        record = container.record
        if record.log_path:
            with container.log_lock:  # the file of one call is another one than that of the next
                self._machinery.conmon.reopen_log(Path(record.bundle), Path(record.log_path))

    # --- inside ---

    def _running(self, prefix: str) -> ContainerEntry:
        container = self._inventory.container(prefix)
        next_container_state(container.id, container.record.state, "exec")
        return container

    def _runtime(self, container: ContainerEntry) -> Runtime:
        return self._machinery.runtime(container.record.runtime_handler)


def _process(container: ContainerEntry) -> Any:
    """The process of a container's OCI spec. Raises EngineError for a spec that could not be read at the last start."""
    if "process" not in container.spec:
        raise EngineError(f"container {container.id}: config.json of its bundle cannot be used: stop and remove it")
    return container.spec["process"]
