"""The processes of containers and pods: create them by conmon and the OCI runtime, stop and remove them.

This module calls no plugin. A removal also removes the remains of a creation that a killed engine began. If the OCI
runtime cannot read its state of a container, all processes in the container's cgroups are killed instead.
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
from nri.engine.process import chown_streams, send, stream_owner
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.support.command import end_leftovers
from nri.engine.support.errors import CommandTimeout, EngineError, NotFound
from nri.files import remove_tree
from nri.host.cgroups import SystemdUnits
from nri.host.root import MACHINE
from nri.text import plain

#: An entry of a record's `done`: the OCI runtime and conmon have removed the container.
CLEARED = "cleared"
#: How long a container may take to end after SIGKILL.
KILL_S = 30.0
#: How long plugins may take for the event of an end.
_REPORT_S = 120.0
#: How long to wait after SIGKILL before the OCI runtime is called, which also kills frozen processes.
FROZEN_S = 2.0
#: The beginning of the message of an evicted container.
EVICTED = "evicted by a plugin"
#: How long an evicted container may take to end before it is killed.
_EVICTION_S = 10.0
#: The maximum timeout of a stop. Clients may request longer timeouts than Python can wait for.
_MAX_STOP_S = 10 * 365 * 86400.0
#: The interval of checks whether the waiting client has disconnected.
_CLIENT_CHECK_S = 0.5
_log = logging.getLogger(__name__)


class Processes:
    """Creates and ends processes.

    Attributes:
        cgroups: the cgroups that the engine itself creates.
        units: the units of systemd, which creates the cgroups if the cgroup driver is systemd.
    """

    def __init__(self, inventory: Inventory, machinery: Machinery) -> None:
        self._inventory, self._machinery = inventory, machinery
        self.cgroups = Cgroups(v2=machinery.machine.cgroup_v2)
        self.units = SystemdUnits(MACHINE)
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
            move_to_cgroup=self.place(pod.record.cgroup_parent, container.id),
        )
        if owner := stream_owner(container.spec):
            chown_streams(record.pid, record.conmon_pid, owner)

    def remove(self, container: ContainerEntry) -> None:
        """Remove a container's processes, its cgroups and the OCI runtime's state. Raises EngineError if that fails."""
        record = container.record
        self.clear(container.id, record.runtime_handler, self._pod_cgroup(record), record.cgroup_path)

    def clear(self, identity: str, handler: str, parent: str, cgroup: str) -> None:
        """Remove all processes and cgroups of a container or of a pause process.

        Args:
            identity: the id of the container or pod.
            handler: the name of its OCI runtime in the configuration.
            parent: the cgroup of the pod.
            cgroup: the container's cgroup.

        Raises:
            EngineError: the OCI runtime failed, or a process remains.
        """
        try:
            self._remove_by_runtime(identity, handler)
        finally:  # also if the runtime's program is missing
            self.unplace(parent, identity)
            # If a plugin chose the cgroup, it may have existed before, and other processes may be in it or below it.
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
            _log.warning("%s is killed without its OCI runtime, so its hooks do not run: %s", identity, error)
            self.end_stray(identity)

    def end_stray(self, identity: str, handler: str = "") -> None:
        """Kill all processes of a container that has no record, and delete the OCI runtime's state.

        The processes are found by the names of cgroups and the path of the bundle. With a handler, its OCI runtime is
        tried first. Raises EngineError if a process remains.
        """
        if handler:
            self.clear(identity, handler, "", "")
        if self._machinery.dry:
            return
        end_leftovers(self._machinery.places.bundle(identity))
        for cgroup in self.cgroups.find(identity):
            self.cgroups.end(cgroup)
            self.cgroups.remove(cgroup)
        for name in self._machinery.config.runtimes:
            remove_tree(self._machinery.places.runtime(name) / identity)

    def _pod_cgroup(self, record: ContainerRecord) -> str:
        """Return the cgroup of a container's pod. It need not be the container's parent, which plugins can change."""
        try:
            return self._inventory.pod(record.pod_id).record.cgroup_parent
        except NotFound:
            return posixpath.dirname(record.cgroup_path)

    # --- stopping ---

    def stop(
        self, container: ContainerEntry, timeout_s: float = 0.0, client_gone: threading.Event | None = None
    ) -> None:
        """Send a container its stop signal, and SIGKILL after `timeout_s` seconds.

        If `client_gone` is set during the wait, the container is not killed, and EngineError is raised. It is also
        raised if the container does not end, or if plugins could not be notified of its end.
        """
        ended = container.record.state in (ContainerState.EXITED, ContainerState.REMOVING)
        # A process that waits for its start does not handle signals.
        if not ended and timeout_s > 0 and container.record.state is not ContainerState.CREATED:
            sent = self._send(container, container.record.stop_signal or "TERM")
            ended = _wait_ended(container, min(timeout_s, _MAX_STOP_S) if sent else KILL_S, client_gone)
        if not ended:
            # A frozen process ends only when the OCI runtime thaws it.
            self._send(container, "KILL")
            ended = container.exited.wait(FROZEN_S)
        if not ended:
            if not self._kill(container, "KILL"):
                self._end_by_cgroup(container)
            if not container.exited.wait(KILL_S):
                raise CommandTimeout(f"stop of container {container.id}", KILL_S)
        if CLEARED not in container.record.done and container.record.state is ContainerState.EXITED:
            self._end_by_cgroup(container)
        container.ended.wait(_REPORT_S)
        if failure := container.failure:
            container.failure = ""
            raise EngineError(f"container {container.id} has ended, but plugins could not be notified: {failure}")

    def _end_by_cgroup(self, container: ContainerEntry) -> None:
        """Kill all processes in the container's own cgroup, except conmon. Raises EngineError if one remains."""
        if not self._machinery.dry:
            for cgroup in self.cgroups.find(container.id):
                if not posixpath.basename(cgroup).startswith("conmon-"):
                    self.cgroups.end(cgroup)

    def _send(self, container: ContainerEntry, signal_name: str) -> bool:
        """Send a signal to the main process. Returns False if it has ended, or if it cannot be found."""
        record = container.record
        return send(Path(record.bundle), container.id, record.pid, signal_name) or self._kill(container, signal_name)

    def _kill(self, container: ContainerEntry, signal_name: str) -> bool:
        """Send a signal by the OCI runtime. Returns False if the container ended, or if the state cannot be read.

        Raises EngineError if the command fails for another reason.
        """
        handler = container.record.runtime_handler
        try:
            return self._machinery.runtime(handler).kill(container.id, signal_name)
        except EngineError as error:
            if handler in self._machinery.config.runtimes:
                runtime = self._machinery.runtime(handler)
                # The container may have ended since the call, which removes the OCI runtime's state of it.
                if not runtime.is_damaged(container.id) and runtime.knows(container.id):
                    raise
            _log.warning("%s: its OCI runtime cannot send SIG%s: %s", container, signal_name, error)
            return False

    def evict(self, identity: str, reason: str) -> None:
        """Begin to stop a container that a plugin evicts. The reason becomes the container's message."""
        self._evictions.begin(identity, reason, partial(self._evict, identity, reason))

    def _evict(self, identity: str, reason: str) -> None:
        container = self._inventory.container(identity)
        self._inventory.note(container, message=f"{EVICTED}: {plain(reason)}")
        self.stop(container, _EVICTION_S)

    # --- conmon's cgroup ---

    def place(self, parent: str, identity: str) -> Callable[[int], None]:
        """Return a function that moves a conmon process into its cgroup, or with systemd into its scope."""
        path = self._conmon_cgroup(parent, identity)
        if self._machinery.systemd_cgroup:
            slice_path, _, scope = path.rpartition("/")
            return partial(self.units.start_scope, scope, posixpath.basename(slice_path))
        return self.cgroups.place(path)

    def unplace(self, parent: str, identity: str) -> None:
        """Remove the cgroup of a conmon process that has ended. systemd removes a scope itself."""
        if not self._machinery.systemd_cgroup:
            self.cgroups.remove(self._conmon_cgroup(parent, identity))

    def _conmon_cgroup(self, parent: str, identity: str) -> str:
        setting = self._machinery.config.cgroups.conmon
        suffix = ".scope" if self._machinery.systemd_cgroup else ""
        return f"{parent if setting == 'pod' else setting}/conmon-{identity}{suffix}"


def _wait_ended(container: ContainerEntry, within_s: float, client_gone: threading.Event | None) -> bool:
    """Wait for the end of a container, and return whether it has ended. Raises EngineError if the client has gone."""
    deadline = time.monotonic() + within_s
    while not container.exited.wait(min(_CLIENT_CHECK_S, remaining_s := max(deadline - time.monotonic(), 0))):
        if not remaining_s:
            return False
        if client_gone and client_gone.is_set():
            raise EngineError(
                f"stop of container {container.id}: the client has disconnected, so the container is not killed"
            )
    return True
