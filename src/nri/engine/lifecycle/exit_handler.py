"""The end of a container, whether by itself, by force or by a failed start: recorded once, reported to plugins once.

What is left of the container's processes is killed before it counts as ended. Each end has a thread, because plugins
take their time. Ends that came while no engine ran are reported when the plugins of before are back.
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
_OVER = (ContainerState.EXITED, ContainerState.REMOVING, ContainerState.CREATING)


class ExitHandler:
    """Takes up the ends of containers, once what OCI runtime and conmon still have of one is taken away."""

    def __init__(
        self, inventory: Inventory, machinery: Machinery, domain: Domain, processes: Processes, bus: EventBus
    ) -> None:
        self._inventory, self._machinery, self._domain = inventory, machinery, domain
        self._processes, self._bus = processes, bus
        self._exits = machinery.exits(self._on_exit)
        self._open = threading.Event()
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()
        #: Ends that came before that, when no thread could be started to wait with them.
        self._early: list[Exit] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        """Tell plugins of ends from now on; those that came earlier wait here."""
        with self._lock:
            self._open.set()
            early, self._early = self._early, []
        for found in early:
            self._on_exit(found)

    def close(self) -> None:
        """Watch no more; what is under way is brought to its end."""
        self._closing.set()
        self._open.set()
        self._exits.close()
        for thread in [*self._threads]:
            thread.join()

    def watch(self, container: ContainerEntry | PodEntry) -> None:
        """Have the end of a container, or of what holds a pod, told when it comes, also if it has come already."""
        record, machinery = container.record, self._machinery
        handler = record.runtime_handler
        if handler not in machinery.config.runtimes:
            _log.warning("%s: the runtime handler %r is not configured any more", container, handler)
            handler = machinery.config.default_runtime
        self._exits.watch(container.id, machinery.places.bundle(container.id), machinery.runtime(handler))

    def later(self, container: ContainerEntry) -> None:
        """Tell of an end that an earlier engine recorded, if that did not come to tell it."""
        container.exited.set()
        self._on_thread(lambda: self._tell_when_open(container), container.id)

    def forget(self, identity: str) -> None:
        """Have an end told no more: the caller brings it about."""
        self._exits.forget(identity)

    def _on_exit(self, found: Exit) -> None:
        if self._closing.is_set():
            return  # the next engine finds it
        try:
            self._on_thread(lambda: self._take(found), found.container_id)
        except RuntimeError:  # no threads are left for now: other ends wait behind this one
            if self._is_early(found):
                return
            self._take(found)

    def _is_early(self, found: Exit) -> bool:
        """Whether plugins are not told of ends yet; the end is taken up when they are."""
        with self._lock:
            early = not self._open.is_set()
            if early:
                self._early.append(found)
            return early

    def _on_thread(self, work: Callable[[], object], identity: str) -> None:
        def go() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001  `tell` has kept it for the caller that waits
                _log.exception("the end of %s could not be taken up", identity)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=go, name="nri-engine-end")
        with self._lock:
            thread.start()
            self._threads.add(thread)

    def _take(self, found: Exit) -> None:
        try:
            container = self._inventory.container(found.container_id)
        except NotFound:
            self._pause_process_ended(found)
        else:
            self.take(container, found)

    def take(self, container: ContainerEntry, found: Exit, message: str = "") -> None:
        """Take up an end: the first call for a container does it, and returns when plugins know."""
        with container.starting:  # an OCI runtime does not expect a deletion in the middle of its start
            if not self._record(container, found, message):
                return
        container.exited.set()
        try:
            self._bus.publish(container, pb.CONTAINER_STOPPED_EVENT)
        finally:
            self._tell_when_open(container)

    def _record(self, container: ContainerEntry, found: Exit, message: str) -> bool:
        """Have what is left cleared away, and write the end down; False if that was done before."""
        if container.record.state in _OVER:
            return False
        done = [CLEARED] if self._clear(container) else []
        self._inventory.note(
            container,
            state=ContainerState.EXITED,
            done=done,
            exit_code=found.code,
            finished_at_ns=found.finished_at_ns,
            reason=found.reason,
            message=message or container.record.message,
            pid=0,
            conmon_pid=0,
        )
        return True

    def _tell_when_open(self, container: ContainerEntry) -> None:
        self._open.wait()
        if not self._closing.is_set():
            self.tell(container)

    def tell(self, container: ContainerEntry) -> None:
        """Tell plugins of an end that is recorded, unless they know it."""
        try:
            with self._domain.block(urgent=True):
                self._domain.stop(container)
        except Exception as error:
            container.failure = describe(error)
            raise
        finally:
            container.ended.set()

    def _clear(self, container: ContainerEntry) -> bool:
        """Have what is left killed and forgotten; False if that failed, and its removal is to try again."""
        try:
            self._exits.forget(container.id)
            self._processes.remove(container)
        except Exception as error:  # noqa: BLE001  whatever it is, the end has to be recorded
            trace = None if isinstance(error, (EngineError, OSError)) else error
            text = "container %s has ended, and could not be cleared away: %s"
            _log.warning(text, container.id, error, exc_info=trace)
            return False
        return True

    def _pause_process_ended(self, found: Exit) -> None:
        """A pod whose process namespace ended is not ready any more; it is stopped when it is asked for."""
        try:
            container = self._inventory.pod(found.container_id)
        except NotFound:
            return
        with container.record_lock:
            if container.record.state is PodState.READY:
                _log.warning("what holds pod %s has ended: code %d", container.id, found.code)
                self._inventory.note(container, state=PodState.STOPPING, pid=0)
                self._bus.publish(container, pb.CONTAINER_STOPPED_EVENT)
