"""Containers: created, started, stopped, removed, and what is done in one that runs.

Rules: one request at a time changes a container, and a stop waits for none; a start that fails ends the container with
StartError; stop and remove of one that is not there are no errors. Making is `creation`'s, ending is `ends`'s. Next:
:mod:`nri.engine.lifecycle.updates`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.creation import Creation
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.ends import Ends
from nri.engine.lifecycle.lives import ContainerLife, Lives
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.updates import Updates
from nri.engine.process import (
    Attachment,
    ContainerStats,
    ExecResult,
    Execution,
    Exit,
    Runtime,
    read_stats,
    send,
)
from nri.engine.process.execution import exec_process
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.state.tables import next_container_state
from nri.engine.support.errors import CommandTimeout, EngineError, NotThere
from nri.errors import NriError

__all__ = ["START_FAILED", "Containers"]

#: The exit code and reason of a container that could not be started, as the field has them.
START_FAILED = (128, "StartError")
#: How long the kernel has for SIGKILL, and plugins to be told of an end, in seconds.
_KILL_S, _TOLD_S = 30.0, 120.0
#: How long SIGKILL alone is waited for, in seconds, before the OCI runtime is asked to kill what may be frozen.
_FROZEN_S = 2.0
#: How long a container has to end that plugins want gone, in seconds.
_EVICTION_S = 10.0
_log = logging.getLogger(__name__)


class Containers:
    """The containers of an engine."""

    def __init__(
        self,
        lives: Lives,
        machinery: Machinery,
        domain: Domain,
        bus: EventBus,
        creation: Creation,
        ends: Ends,
        updates: Updates,
    ) -> None:
        self._lives, self._machinery, self._domain, self._bus = lives, machinery, domain, bus
        self._creation, self._ends, self._updates = creation, ends, updates
        domain.on_evict = self.evict

    # --- asking ---

    def get(self, prefix: str) -> ContainerRecord:
        """The record of a container, by its id or the beginning of it. Raises NotThere. Not to be changed."""
        return self._lives.container(prefix).record

    def life(self, prefix: str) -> ContainerLife:
        """A container with its configuration as a message and its OCI spec. Raises NotThere."""
        return self._lives.container(prefix)

    def list(self, pod_id: str = "") -> list[ContainerRecord]:
        """The records of all containers, or of one pod's, the oldest first."""
        return [each.record for each in self._lives.containers(pod_id)]

    def stats(self, prefix: str) -> ContainerStats:
        """The resources that a container uses now. Raises NotThere, WrongState if it does not run."""
        life = self._running(prefix)
        try:
            return read_stats(life.record.pid)
        except FileNotFoundError:
            raise EngineError(f"container {life.id} ended just now") from None

    # --- the calls ---

    def create(
        self,
        pod_id: str,
        config: pb.ContainerConfig,
        pod_config: pb.PodSandboxConfig | None = None,  # noqa: ARG002  the pod's own is the one that was made
    ) -> str:
        """Make a container in a pod that is ready; returns its id. What fails is undone. Raises NriError."""
        life = self._creation.create(self._lives.pod(pod_id), config)
        self._bus.tell(life, pb.CONTAINER_CREATED_EVENT)
        return life.id

    def start(self, prefix: str) -> None:
        """Have a container run. One that cannot is ended with the reason StartError. Raises WrongState, NriError."""
        life = self._lives.container(prefix)
        with life.life, life.starting, self._domain.block():
            self._start(life)
            self._domain.post_start(life)
        self._bus.tell(life, pb.CONTAINER_STARTED_EVENT)

    def _start(self, life: ContainerLife) -> None:
        next_container_state(life.id, life.record.state, "start")
        try:
            self._domain.start(life)
            self._lives.move_container(life, "start")
            began = time.time_ns()
            self._runtime(life).start(life.id)
            self._lives.move_container(life, "finish start", started_at_ns=began)  # it may be over by now
        except (NriError, OSError) as error:
            code, reason = START_FAILED
            self._ends.take(life, Exit(life.id, code, time.time_ns(), reason), str(error))
            raise

    def stop(self, prefix: str, timeout_s: float = 0.0) -> None:
        """Stop a container: its stop signal, then, after `timeout_s` seconds, SIGKILL. Repeating it is no error.

        Raises EngineError if it does not end.
        """
        try:
            life = self._lives.container(prefix)
        except NotThere:
            return
        self._stop(life, timeout_s)

    def _stop(self, life: ContainerLife, timeout_s: float) -> None:
        over = life.record.state in (ContainerState.EXITED, ContainerState.REMOVING)
        # What waits for its start would not understand a signal.
        if not over and timeout_s > 0 and life.record.state is not ContainerState.CREATED:
            sent = self._send(life, life.record.stop_signal or "TERM")
            over = life.exited.wait(timeout_s if sent else _KILL_S)
        if not over:
            # A frozen process dies only when its runtime thaws it.
            over = self._send(life, "KILL") and life.exited.wait(_FROZEN_S)
        if not over:
            self._runtime(life).kill(life.id, "KILL")
            if not life.exited.wait(_KILL_S):
                raise CommandTimeout(f"stop of container {life.id}", _KILL_S)
        life.ended.wait(_TOLD_S)

    def remove(self, prefix: str) -> None:
        """Remove a container, stopped by force if it runs. Repeating it is no error. Raises EngineError."""
        try:
            life = self._lives.container(prefix)
        except NotThere:
            return
        with life.life:
            if life.record.state is not ContainerState.REMOVING:
                self._stop(life, 0)
                self._lives.move_container(life, "remove")
            with self._domain.block(urgent=True):
                self._domain.remove(life)
                try:
                    self._creation.dismantle(life)
                except OSError as error:
                    raise EngineError(f"container {life.id} is not removed: {error}") from error
                self._lives.drop(life)
        self._bus.tell(life, pb.CONTAINER_DELETED_EVENT)

    def end_all(self, pod_id: str, remove: bool) -> None:
        """Stop or remove all containers of a pod by force, at the same time. Raises the first error."""
        work = self.remove if remove else self.stop
        failed: list[NriError] = []

        def end(identity: str) -> None:
            try:
                work(identity)
            except NriError as error:
                failed.append(error)

        threads = [threading.Thread(target=end, args=(each.id,)) for each in self._lives.containers(pod_id)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def evict(self, identity: str, reason: str) -> None:
        """Begin to stop a container that plugins want gone, and return; its message says why."""

        def go() -> None:
            try:
                life = self._lives.container(identity)
                self._lives.note(life, message=f"evicted by a plugin: {reason}")
                self._stop(life, _EVICTION_S)
            except NriError as error:
                _log.warning("container %s could not be evicted: %s", identity, error)

        threading.Thread(target=go, name="nri-engine-evict", daemon=True).start()

    def update_resources(
        self, prefix: str, linux: pb.LinuxContainerResources, annotations: dict[str, str] | None = None
    ) -> None:
        """Give a container other resources, as plugins have changed the request. Raises RequestError, NriError."""
        life = self._lives.container(prefix)
        with life.life:
            self._updates.update(life, linux, annotations or {})

    # --- in a container that runs ---

    def exec_sync(self, prefix: str, argv: Sequence[str], timeout_s: float | None = None) -> ExecResult:
        """Run a program in a container to its end. Raises NotThere, WrongState, CommandTimeout, CommandFailed."""
        life = self._running(prefix)
        process = exec_process(life.spec["process"], argv)
        return self._machinery.exec_sync(self._runtime(life), life.id, process, timeout_s)

    def exec(self, prefix: str, argv: Sequence[str], *, tty: bool = False, stdin: bool = False) -> Execution:
        """Run a program in a container with its streams open. Raises as :meth:`exec_sync`."""
        life = self._running(prefix)
        process = exec_process(life.spec["process"], argv, tty=tty)
        return Execution(self._runtime(life), life.id, process, stdin=stdin)

    def attach(self, prefix: str) -> Attachment:
        """Watch a container's own streams, and type into them. Raises NotThere, WrongState, EngineError."""
        return Attachment(Path(self._running(prefix).record.bundle))

    def resize(self, prefix: str, width: int, height: int) -> None:
        """Set the size of a container's terminal, in characters."""
        self._machinery.conmon.resize(Path(self._running(prefix).record.bundle), width, height)

    def reopen_log(self, prefix: str) -> None:
        """Write a new log file, after the present one was renamed. Raises NotThere, WrongState, EngineError."""
        record = self._running(prefix).record
        if record.log_path:
            self._machinery.conmon.reopen_log(Path(record.bundle), Path(record.log_path))

    # --- inside ---

    def _running(self, prefix: str) -> ContainerLife:
        life = self._lives.container(prefix)
        next_container_state(life.id, life.record.state, "exec")
        return life

    def _send(self, life: ContainerLife, word: str) -> bool:
        """Send a signal to the first process; False if it has ended already."""
        record = life.record
        return send(Path(record.bundle), life.id, record.pid, word) or self._runtime(life).kill(life.id, word)

    def _runtime(self, life: ContainerLife) -> Runtime:
        return self._machinery.runtime(life.record.runtime_handler)
