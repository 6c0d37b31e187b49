"""The processes of containers and of pods: created by conmon and the OCI runtime, stopped, removed.

Plugins are neither asked nor notified here. A removal takes away what exists, also what a killed engine has left. Where
the OCI runtime cannot read its own state of a container, all processes in the container's cgroups are killed instead.
"""

from __future__ import annotations

import logging
import posixpath
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nri.cri.evictions import Evictions
from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, write_spec
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.process import send
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.support.command import end_left
from nri.engine.support.errors import CommandTimeout, EngineError, NotFound
from nri.files import remove_tree
from nri.text import plain

#: In a record's `done`: neither OCI runtime nor conmon has anything of the container any more.
CLEARED = "cleared"
#: How long the kernel has for SIGKILL, and plugins for the event of an end, in seconds.
KILL_S, _TOLD_S = 30.0, 120.0
#: How long SIGKILL alone is waited for, in seconds, before the OCI runtime is asked to kill what may be frozen.
FROZEN_S = 2.0
#: How the message of a container begins that plugins want gone.
EVICTED = "evicted by a plugin"
#: How long such a container has to end, in seconds.
_EVICTION_S = 10.0
#: A client may ask for any number of seconds; a wait takes no more than some centuries.
_LONGEST_STOP_S = 10 * 365 * 86400.0
#: How often a wait looks whether somebody still wants it, in seconds.
_GLANCE_S = 0.5
_log = logging.getLogger(__name__)


class Processes:
    """Makes and ends them. `cgroups` are those of the engine's own making."""

    def __init__(self, inventory: Inventory, machinery: Machinery) -> None:
        self._inventory, self._machinery = inventory, machinery
        self.cgroups = Cgroups(v2=machinery.machine.cgroup_v2)
        self._evictions = Evictions("nri-engine-evict", _log)

    def create(self, pod: PodEntry, container: ContainerEntry) -> None:
        """Write the bundle and have conmon and the OCI runtime create the container."""
        record, config = container.record, container.config
        bundle = Path(record.bundle)
        write_spec(bundle, container.spec)
        log = Path(record.log_path or "/dev/null")
        if record.log_path:
            log.parent.mkdir(parents=True, exist_ok=True)
        record.pid, record.conmon_pid = self._machinery.conmon.create(
            self._machinery.runtime(record.runtime_handler),
            container.id,
            bundle,
            log_path=log,
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            place=self.place(pod.record.cgroup_parent, container.id),
        )

    def remove(self, container: ContainerEntry) -> None:
        """Take away what OCI runtime and conmon have of a container, as far as it is there. Raises EngineError."""
        record = container.record
        self.clear(container.id, record.runtime_handler, self._pod_cgroup(record), record.cgroup_path)

    def clear(self, identity: str, handler: str, parent: str, cgroup: str) -> None:
        """Take away all processes and cgroups of a container, or of what holds a pod.

        Args:
            identity: of the container or pod.
            handler: the name of its OCI runtime in the configuration.
            parent: the cgroup of the pod.
            cgroup: the container's own cgroup.

        Raises:
            EngineError: the OCI runtime failed, or a process remains.
        """
        try:
            self._remove_by_runtime(identity, handler)
        finally:  # also where the runtime's program is missing, so that nothing can have been made by it
            self.unplace(parent, identity)
            # A cgroup that a plugin has named may have existed before, and others may be in it or below it.
            if not self._machinery.systemd_cgroup and posixpath.basename(cgroup) == identity:
                self.cgroups.end(cgroup)
                self.cgroups.remove(cgroup)

    def _remove_by_runtime(self, identity: str, handler: str) -> None:
        try:
            runtime = self._machinery.runtime(handler)
            self._machinery.conmon.remove(runtime, identity, self._machinery.places.bundle(identity))
        except EngineError as error:
            if handler in self._machinery.config.runtimes and not self._machinery.runtime(handler).is_damaged(identity):
                raise
            _log.warning("%s is ended without its OCI runtime, and its hooks are not run: %s", identity, error)
            self.end_stray(identity)

    def end_stray(self, identity: str, handler: str = "") -> None:
        """End all processes of a container that are found by its cgroups and its bundle, and forget its state.

        The OCI runtime of a handler is asked first. Raises EngineError if a process remains.
        """
        if handler:
            self.clear(identity, handler, "", "")
        if self._machinery.dry:
            return
        end_left(self._machinery.places.bundle(identity))
        for cgroup in self.cgroups.find(identity):
            self.cgroups.end(cgroup)
            self.cgroups.remove(cgroup)
        for name in self._machinery.config.runtimes:
            remove_tree(self._machinery.places.runtime(name) / identity)

    def _pod_cgroup(self, record: ContainerRecord) -> str:
        """The cgroup of a container's pod; plugins may have given the container itself another one."""
        try:
            return self._inventory.pod(record.pod_id).record.cgroup_parent
        except NotFound:
            return posixpath.dirname(record.cgroup_path)

    # --- stopping ---

    def stop(self, container: ContainerEntry, timeout_s: float = 0.0, gone: threading.Event | None = None) -> None:
        """Stop a container: its stop signal, then, after `timeout_s` seconds, SIGKILL. Raises EngineError.

        A caller that is `gone` by then wants no SIGKILL; a wait for nobody would keep others out.
        """
        over = container.record.state in (ContainerState.EXITED, ContainerState.REMOVING)
        # A process that waits for its start would not understand a signal.
        if not over and timeout_s > 0 and container.record.state is not ContainerState.CREATED:
            sent = self._send(container, container.record.stop_signal or "TERM")
            over = _ends(container, min(timeout_s, _LONGEST_STOP_S) if sent else KILL_S, gone)
        if not over:
            # A frozen process dies only when its runtime thaws it.
            self._send(container, "KILL")
            over = container.exited.wait(FROZEN_S)
        if not over:
            if not self._kill(container, "KILL"):
                self._end_by_cgroup(container)
            if not container.exited.wait(KILL_S):
                raise CommandTimeout(f"stop of container {container.id}", KILL_S)
        if CLEARED not in container.record.done and container.record.state is ContainerState.EXITED:
            self._end_by_cgroup(container)
        container.ended.wait(_TOLD_S)
        if failure := container.failure:
            container.failure = ""
            raise EngineError(f"container {container.id} has ended, and plugins could not be notified of it: {failure}")

    def _end_by_cgroup(self, container: ContainerEntry) -> None:
        """End all processes in the container's own cgroup; conmon records it. Raises EngineError if one remains."""
        if not self._machinery.dry:
            for cgroup in self.cgroups.find(container.id):
                if not posixpath.basename(cgroup).startswith("conmon-"):
                    self.cgroups.end(cgroup)

    def _send(self, container: ContainerEntry, word: str) -> bool:
        """Send a signal to the first process; False if it has ended already, or only its cgroup is known."""
        record = container.record
        return send(Path(record.bundle), container.id, record.pid, word) or self._kill(container, word)

    def _kill(self, container: ContainerEntry, word: str) -> bool:
        """Have the OCI runtime send a signal; False if it does not know the container. Raises EngineError."""
        handler = container.record.runtime_handler
        try:
            return self._machinery.runtime(handler).kill(container.id, word)
        except EngineError as error:
            if handler in self._machinery.config.runtimes and not self._machinery.runtime(handler).is_damaged(
                container.id
            ):
                raise
            _log.warning("%s gets no SIG%s from its OCI runtime: %s", container, word, error)
            return False

    def evict(self, identity: str, reason: str) -> None:
        """Begin to stop a container that plugins want gone, and return; its message says why."""
        self._evictions.begin(identity, reason, partial(self._evict, identity, reason))

    def _evict(self, identity: str, reason: str) -> None:
        container = self._inventory.container(identity)
        self._inventory.note(container, message=f"{EVICTED}: {plain(reason)}")
        self.stop(container, _EVICTION_S)

    # --- conmon's cgroup ---

    def place(self, parent: str, identity: str) -> Callable[[int], None] | None:
        """Return a function that puts a conmon into its cgroup; None where systemd does that."""
        path = self._conmon_cgroup(parent, identity)
        return self.cgroups.place(path) if path else None

    def unplace(self, parent: str, identity: str) -> None:
        """Take a conmon's cgroup away, after its end."""
        if path := self._conmon_cgroup(parent, identity):
            self.cgroups.remove(path)

    def _conmon_cgroup(self, parent: str, identity: str) -> str:
        if self._machinery.systemd_cgroup:
            return ""
        where = self._machinery.config.cgroups.conmon
        return f"{parent if where == 'pod' else where}/conmon-{identity}"


def _ends(container: ContainerEntry, within_s: float, gone: threading.Event | None) -> bool:
    """Wait for the end of a container; False if it has not ended in time. Raises EngineError if nobody waits."""
    until = time.monotonic() + within_s
    while not container.exited.wait(min(_GLANCE_S, left := max(until - time.monotonic(), 0))):
        if not left:
            return False
        if gone and gone.is_set():
            raise EngineError(f"stop of container {container.id}: the client has gone, and it is not killed")
    return True
