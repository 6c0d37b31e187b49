"""The processes of containers and of what holds a pod: made by conmon and OCI runtime, stopped, taken away.

Rules: no plugin is asked or told here. Taking away is for what is there, also for what a killed engine has left. Next:
:mod:`nri.engine.lifecycle.domain`.
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
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, write_spec
from nri.engine.lifecycle.parts.cgroups import Cgroups
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.process import send
from nri.engine.state import ContainerRecord, ContainerState
from nri.engine.support.errors import CommandTimeout, EngineError, NotThere
from nri.text import plain

__all__ = ["EVICTED", "Processes"]

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
        runtime = self._machinery.runtime(record.runtime_handler)
        try:
            self._machinery.conmon.remove(runtime, container.id, Path(record.bundle))
        finally:  # also where the runtime's program is missing, so that nothing can have been made by it
            self.unplace(self._pod_cgroup(record), container.id)
            self.clear(record.cgroup_path, container.id)

    def clear(self, cgroup: str, identity: str) -> None:
        """Take away what an OCI runtime that was killed has left of a container: its cgroup, and what runs in that."""
        if self._machinery.systemd_cgroup or posixpath.basename(cgroup) != identity:
            return  # a plugin has named the cgroup: it may have existed before, and others may be in it or below it
        self.cgroups.end(cgroup)
        self.cgroups.remove(cgroup)

    def _pod_cgroup(self, record: ContainerRecord) -> str:
        """The cgroup of a container's pod; plugins may have given the container itself another one."""
        try:
            return self._inventory.pod(record.pod_id).record.cgroup_parent
        except NotThere:
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
            over = self._send(container, "KILL") and container.exited.wait(FROZEN_S)
        if not over:
            self._machinery.runtime(container.record.runtime_handler).kill(container.id, "KILL")
            if not container.exited.wait(KILL_S):
                raise CommandTimeout(f"stop of container {container.id}", KILL_S)
        container.ended.wait(_TOLD_S)

    def _send(self, container: ContainerEntry, word: str) -> bool:
        """Send a signal to the first process; False if it has ended already."""
        record = container.record
        runtime = self._machinery.runtime(record.runtime_handler)
        return send(Path(record.bundle), container.id, record.pid, word) or runtime.kill(container.id, word)

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
        self.cgroups.remove(self._conmon_cgroup(parent, identity))

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
