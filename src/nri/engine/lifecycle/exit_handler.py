"""Handle the ends of containers: kill remaining processes, record each end once, and report it to plugins once.

Each end is handled on its own thread, because plugins may be slow. Containers that ended before the engine started are
reported when the earlier plugins have reconnected.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.processes import CLEARED, Processes
from nri.engine.process import Exit
from nri.engine.state import ContainerState, PodState
from nri.engine.support.errors import EngineError, NotFound
from nri.errors import describe

_log = logging.getLogger(__name__)
_ENDED = (ContainerState.EXITED, ContainerState.REMOVING, ContainerState.CREATING)


class ExitHandler:
    """Handles the ends of containers and of pause processes."""

    def __init__(
        self, inventory: Inventory, machinery: Machinery, domain: Domain, processes: Processes, bus: EventBus
    ) -> None:
        self._inventory, self._machinery, self._domain = inventory, machinery, domain
        self._processes, self._bus = processes, bus
        self._exits = machinery.exits(self._on_exit)
        self._open = threading.Event()
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()
        #: Exits that arrived before `open` when no thread could be started to wait for it.
        self._early_exits: list[Exit] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        """Report ends to plugins from now on, including those that arrived earlier."""
        with self._lock:
            self._open.set()
            early, self._early_exits = self._early_exits, []
        for exit_ in early:
            self._on_exit(exit_)

    def close(self) -> None:
        """Stop watching, and wait for the threads that handle ends."""
        self._closing.set()
        self._open.set()
        self._exits.close()
        for thread in [*self._threads]:
            thread.join()

    def watch(self, container: ContainerEntry | PodEntry) -> None:
        """Watch for the end of a container or pause process, which may already have ended."""
        record, machinery = container.record, self._machinery
        if isinstance(container, ContainerEntry) and container.record.start_failure:
            for event in (container.exited, container.ended):  # a stop must not wait for a process that does not exist
                event.set()
            return
        handler = record.runtime_handler
        if handler not in machinery.config.runtimes:
            _log.warning("%s: the runtime handler %r is no longer configured", container, handler)
            handler = machinery.config.default_runtime
        self._exits.watch(container.id, machinery.places.bundle(container.id), machinery.runtime(handler))

    def report_later(self, container: ContainerEntry) -> None:
        """Report an end that an earlier engine recorded, unless the earlier engine reported it, too."""
        container.exited.set()
        self._on_thread(lambda: self._report_when_open(container), container.id)

    def forget(self, identity: str) -> None:
        """Do not report an end, because the caller causes it."""
        self._exits.forget(identity)

    def _on_exit(self, exit_: Exit) -> None:
        if self._closing.is_set():
            return  # the next engine will find it
        try:
            self._on_thread(lambda: self._handle_exit(exit_), exit_.container_id)
        except RuntimeError:  # no thread can be started now, so handle the end on this thread
            if self._is_early(exit_):
                return
            self._handle_exit(exit_)

    def _is_early(self, exit_: Exit) -> bool:
        """Keep an end for later if plugins cannot be notified yet, and return whether this is so."""
        with self._lock:
            early = not self._open.is_set()
            if early:
                self._early_exits.append(exit_)
            return early

    def _on_thread(self, work: Callable[[], object], identity: str) -> None:
        def go() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001  `report` has kept it for the waiting caller
                _log.exception("the end of %s could not be handled", identity)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=go, name="nri-engine-end")
        with self._lock:
            thread.start()
            self._threads.add(thread)

    def _handle_exit(self, exit_: Exit) -> None:
        try:
            container = self._inventory.container(exit_.container_id)
        except NotFound:
            self._pause_process_ended(exit_)
        else:
            self.take(container, exit_)

    def take(self, container: ContainerEntry, exit_: Exit, message: str = "") -> None:
        """Handle the end of a container, and return when plugins are notified. Later calls have no effect."""
        with container.starting:  # an OCI runtime must not delete a container while it starts it
            if not self._record(container, exit_, message):
                return
        container.exited.set()
        try:
            self._bus.publish(container, pb.CONTAINER_STOPPED_EVENT)
        finally:
            self._report_when_open(container)

    def _record(self, container: ContainerEntry, exit_: Exit, message: str) -> bool:
        """Remove a container's processes, and record its end. Returns False if the end was recorded before."""
        if container.record.state in _ENDED:
            return False
        steps = [CLEARED] if self._clear(container) else []
        self._inventory.note(
            container,
            state=ContainerState.EXITED,
            done=steps,
            exit_code=exit_.code,
            finished_at_ns=exit_.finished_at_ns,
            reason=exit_.reason,
            message=message or container.record.message,
            pid=0,
            conmon_pid=0,
        )
        return True

    def _report_when_open(self, container: ContainerEntry) -> None:
        self._open.wait()
        if not self._closing.is_set():
            self.report(container)

    def report(self, container: ContainerEntry) -> None:
        """Report a recorded end to plugins, unless it was reported before."""
        try:
            with self._domain.block(urgent=True):
                self._domain.stop(container)
        except Exception as error:
            container.failure = describe(error)
            raise
        finally:
            container.ended.set()

    def _clear(self, container: ContainerEntry) -> bool:
        """Kill and delete a container's remaining processes. Returns False if that failed; its removal tries again."""
        try:
            self._exits.forget(container.id)
            self._processes.remove(container)
        except Exception as error:  # noqa: BLE001  the end has to be recorded in any case
            trace = None if isinstance(error, (EngineError, OSError)) else error
            text = "container %s has ended, but its remains could not be removed: %s"
            _log.warning(text, container.id, error, exc_info=trace)
            return False
        return True

    def _pause_process_ended(self, exit_: Exit) -> None:
        """Mark a pod as not ready, because its pause process has ended. A client has to stop the pod."""
        try:
            pod = self._inventory.pod(exit_.container_id)
        except NotFound:
            return
        with pod.record_lock:
            if pod.record.state is PodState.READY:
                _log.warning("the pause process of pod %s has ended: code %d", pod.id, exit_.code)
                self._inventory.note(pod, state=PodState.STOPPING, pid=0)
                self._bus.publish(pod, pb.CONTAINER_STOPPED_EVENT)
