"""Pretended containers without processes, for a machine without root or an OCI runtime.

An invalid call fails as with a real runtime, for example a start without a creation. Only files in the bundle are
changed. A container runs until it is killed.
"""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.engine.process.conmon import ContainerPids
from nri.engine.process.execution import ExecResult
from nri.engine.process.exits import Exit
from nri.engine.process.runtime import RuntimeState
from nri.engine.support.errors import CommandFailed, NotFound

#: Larger than every pid of Linux, so that no real process can be affected.
FIRST_PID = 1 << 30


@dataclass(slots=True)
class _Container:
    status: str
    pid: int
    bundle: Path
    exit: Exit | None = None


class DryRuntime:
    """The methods of :class:`nri.engine.process.runtime.Runtime`, answered from memory."""

    def __init__(self, name: str = "dry") -> None:
        self.configure(name)
        self._containers: dict[str, _Container] = {}
        self._pids = itertools.count(FIRST_PID)
        self._lock = threading.RLock()
        self._on_end: Callable[[Exit], None] | None = None

    def configure(self, binary: str, *_: object) -> None:
        """Use the name of another program."""
        self.name = self.binary = self.program = Path(binary).name

    def report_ends(self, on_end: Callable[[Exit], None]) -> None:
        """Set the function that receives each end of a container. It is called on the thread that causes the end."""
        self._on_end = on_end

    def make(self, container_id: str, bundle: Path) -> ContainerPids:
        """Record a new container. With a real runtime, conmon requests the creation."""
        action = f"{self.name} create {container_id}"
        try:
            arguments = parse_json((bundle / "config.json").read_bytes())["process"]["args"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandFailed(action, 1, f"config.json cannot be used: {error}") from error
        if not arguments:
            raise CommandFailed(action, 1, "process.args is empty")
        with self._lock:
            if container_id in self._containers:
                raise CommandFailed(action, 1, "container with given ID already exists")
            container = self._containers[container_id] = _Container("created", next(self._pids), bundle)
        return ContainerPids(container.pid, next(self._pids))

    def start(self, container_id: str) -> None:
        """Mark a created container as running."""
        self._change(container_id, "start", ("created",), "running")

    def state(self, container_id: str) -> RuntimeState:
        """Return the state of a container."""
        container = self._find(container_id)
        return RuntimeState(
            container.status, container.pid if container.status != "stopped" else 0, str(container.bundle)
        )

    def kill(self, container_id: str, number: int | str) -> bool:
        """End a container, unless the signal's default action is to ignore it."""
        with self._lock:
            container = self._containers.get(container_id)
            if container is None or container.status == "stopped":
                return False
            code = number if isinstance(number, int) else _number(number)
            if code in (0, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH):
                return True
            container.status = "stopped"
            container.exit = Exit(container_id, 128 + code, time.time_ns(), "Error")
        if self._on_end is not None:
            self._on_end(container.exit)
        return True

    def delete(self, container_id: str) -> None:
        """Kill and forget a container."""
        self.kill(container_id, signal.SIGKILL)
        with self._lock:
            self._containers.pop(container_id, None)

    def update(self, container_id: str, resources: Mapping[str, Any]) -> None:
        """Merge resources into the bundle's config.json."""
        path = self._find(container_id).bundle / "config.json"
        spec = parse_json(path.read_bytes())
        target = spec.setdefault("linux", {}).setdefault("resources", {})
        for name, values in resources.items():
            if isinstance(values, Mapping):
                target.setdefault(name, {}).update(values)
            else:
                target[name] = values
        path.write_text(json.dumps(spec))

    def containers(self) -> list[str]:
        """Return the ids of all containers."""
        return sorted(self._containers)

    def is_damaged(self, container_id: str) -> bool:  # noqa: ARG002
        """Return False, because no state is on the disk."""
        return False

    def knows(self, container_id: str) -> bool:
        """Return whether a container is recorded."""
        return container_id in self._containers

    def version(self) -> str:
        """Return "", because there is no program."""
        return ""

    def ended(self, container_id: str) -> Exit | None:
        """Return the end of a container, or None while it runs. An unknown container ended with an earlier engine."""
        container = self._containers.get(container_id)
        return container.exit if container else Exit(container_id, 255, time.time_ns(), "Unknown")

    def _find(self, container_id: str) -> _Container:
        try:
            return self._containers[container_id]
        except KeyError:
            raise NotFound("container", container_id) from None

    def _change(self, container_id: str, command: str, before: tuple[str, ...], after: str) -> None:
        with self._lock:
            container = self._find(container_id)
            if container.status not in before:
                action = f"{self.name} {command} {container_id}"
                raise CommandFailed(action, 1, f"cannot {command} a container in the {container.status} state")
            container.status = after


class DryConmon:
    """The methods of :class:`nri.engine.process.conmon.Conmon`, without a process. The log stays empty."""

    def create(
        self,
        runtime: DryRuntime,
        container_id: str,
        bundle: Path,
        *,
        log_path: Path = Path("/dev/null"),
        stdin: bool = False,  # noqa: ARG002
        stdin_once: bool = False,  # noqa: ARG002
        tty: bool = False,  # noqa: ARG002
        move_to_cgroup: Callable[[int], None] | None = None,  # noqa: ARG002  there is no process to place
    ) -> ContainerPids:
        """Create the container of a bundle."""
        created = runtime.make(container_id, bundle)
        log_path.touch()
        return created

    def remove(self, runtime: DryRuntime, container_id: str, bundle: Path) -> None:  # noqa: ARG002
        """Remove a container. No effect if it does not exist."""
        runtime.delete(container_id)

    def reopen_log(self, bundle: Path, log_path: Path) -> None:  # noqa: ARG002
        """Create an empty log."""
        log_path.touch()

    def resize(self, bundle: Path, width: int, height: int) -> None:
        """Do nothing, because there is no terminal."""


class DryExits:
    """The methods of :class:`nri.engine.process.exits.Exits`. The thread that causes an end also reports it."""

    def __init__(self, on_exit: Callable[[Exit], None]) -> None:
        self._on_exit = on_exit
        self._watched_ids: set[str] = set()

    def watch(self, container_id: str, bundle: Path, runtime: DryRuntime) -> None:  # noqa: ARG002
        """Report a container's end when it comes, or at once if it has already ended."""
        self._watched_ids.add(container_id)
        runtime.report_ends(self._report_exit)
        exit_ = runtime.ended(container_id)
        if exit_ is not None:
            self._report_exit(exit_)

    def forget(self, container_id: str) -> None:
        """Do not report a container's end."""
        self._watched_ids.discard(container_id)

    def close(self) -> None:
        """Stop watching all containers."""
        self._watched_ids.clear()

    def _report_exit(self, exit_: Exit) -> None:
        if exit_.container_id in self._watched_ids:
            self._watched_ids.discard(exit_.container_id)
            self._on_exit(exit_)


def dry_exec_sync(
    runtime: DryRuntime,
    container_id: str,
    process: Mapping[str, Any],  # noqa: ARG001
    *,
    timeout_s: float | None = None,  # noqa: ARG001
) -> ExecResult:
    """Pretend to run a program successfully in a running container."""
    if runtime.state(container_id).status != "running":
        raise CommandFailed(f"exec in {container_id}", 255, "cannot exec in a container that does not run")
    return ExecResult(b"", b"", 0)


def _number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
