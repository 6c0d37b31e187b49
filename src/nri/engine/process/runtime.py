"""Call an OCI runtime (runc or crun) by its command line: state, start, kill, delete, update.

The OCI runtime uses a root folder of this engine, so it knows no other engine's containers. Each call has a separate
log, because often only the log has the cause of a failure. conmon calls ``create``, because it must be the parent of
containers.
"""

from __future__ import annotations

import functools
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.engine.process.runtime_log import STDERR, cause_of
from nri.engine.support.command import Output, run
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, MissingTool, NotFound
from nri.files import private_folder, remove_tree

TIMEOUT_S = 30.0
#: The pause before a failed ``delete`` is repeated.
_RETRY_S = 0.02
#: Larger than every pid of a kernel.
_MAX_PID = 1 << 30
#: The files in which runc and crun keep the state of a container.
_STATES = ("state.json", "status")
#: Phrases in the errors of runc and crun for an unknown container.
_NOT_FOUND = ("does not exist", "no such file or directory", "not found")
#: Phrases in the errors of runc and crun for a container that has ended.
_ENDED = ("not running", "process already finished", "no such process", "is not running", "stopped")


class RuntimeState(NamedTuple):
    """A container's state. `status` is creating, created, running, paused or stopped. `pid` is 0 without a process."""

    status: str
    pid: int
    bundle: str


def parse_state(data: bytes) -> tuple[str, RuntimeState]:
    """Parse the output of ``state``, and return the container's id and state. Raises ValueError if it is invalid."""
    row = parse_json(data)
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004
    identity, status, bundle = (row.get(key) for key in ("id", "status", "bundle"))
    if not (isinstance(identity, str) and isinstance(status, str) and isinstance(bundle, str)):
        raise ValueError("id, status or bundle is not a string")  # noqa: TRY004
    return identity, RuntimeState(status, process_id(row.get("pid", 0)), bundle)


def process_id(value: object) -> int:
    """Check a process id in an OCI runtime's output; 0 or less means no process. Raises ValueError if it is invalid."""
    if type(value) is not int or abs(value) > _MAX_PID:
        raise ValueError("pid is not a process id")
    return value


class Runtime:
    """An OCI runtime. `arguments` come before the command, for example crun's ``--cgroup-manager``."""

    def __init__(self, binary: str, root: Path, *, arguments: Sequence[str] = (), timeout_s: float = TIMEOUT_S) -> None:
        self.root = private_folder(root)
        #: The folder for files of running calls. Files of a killed engine are removed below.
        self.calls = private_folder(root.with_name(f"{root.name}-calls"))
        for leftover in self.calls.iterdir():
            remove_tree(leftover)
        self.configure(binary, arguments, timeout_s)

    def configure(self, binary: str, arguments: Sequence[str], timeout_s: float) -> None:
        """Use another program, other arguments and another timeout for the next calls."""
        self.binary, self.name = binary, os.path.basename(binary)
        self.arguments, self.timeout_s = tuple(arguments), timeout_s
        self.__dict__.pop("program", None)

    @functools.cached_property
    def program(self) -> str:
        """The name that the program prints (``runc``, ``crun``), or the name of its file if it prints no name."""
        try:
            words = run([self.binary, "--version"], timeout_s=self.timeout_s).stdout.decode(errors="replace").split()
        except EngineError:
            return self.name
        return words[0] if words[1:2] == ["version"] else self.name

    def options(self, log: Path) -> list[str]:
        """Return the options before the command. `log` is the path of the log."""
        return [*self.arguments, f"--root={self.root}", f"--log={log}", "--log-format=json"]

    def start(self, container_id: str) -> None:
        """Start a created container. Raises CommandFailed if the OCI runtime fails."""
        self._call("start", container_id)

    def state(self, container_id: str) -> RuntimeState:
        """Return the state of a container. Raises NotFound if the OCI runtime does not know it."""
        try:
            return parse_state(self._call("state", container_id).stdout)[1]
        except CommandFailed as error:
            if _mentions(error, _NOT_FOUND):
                raise NotFound("container", container_id) from error
            raise
        except ValueError as error:
            raise EngineError(f"{self.name} state {container_id}: invalid answer: {error}") from error

    def kill(self, container_id: str, signal: int | str) -> bool:
        """Send a signal to the container's main process. Returns False if the container has ended or is unknown."""
        try:
            self._call("kill", container_id, after=[str(signal)])
        except CommandFailed as error:
            if _mentions(error, (*_NOT_FOUND, *_ENDED)):
                return False
            raise
        return True

    def delete(self, container_id: str) -> None:
        """Kill and remove a container with its cgroup. No effect if it does not exist.

        A cgroup is busy for a moment after its last process has ended, so a failure is retried until the deadline.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                self._call("delete", container_id, ["--force"])
            except CommandFailed as error:
                if not _mentions(error, _NOT_FOUND):
                    if time.monotonic() > deadline or self.is_damaged(container_id):
                        raise
                    time.sleep(_RETRY_S)
                    continue
            remove_tree(self.root / container_id)  # without its state file, the runtime does not know a container
            return

    def is_damaged(self, container_id: str) -> bool:
        """Return whether the OCI runtime cannot read its state of a container, so that all commands fail."""
        try:
            self.state(container_id)
        except CommandFailed as error:
            return error.code > 0  # a negative code means that a signal ended the OCI runtime
        except (NotFound, CommandTimeout, MissingTool):
            return False
        except EngineError:
            return True
        return False

    def knows(self, container_id: str) -> bool:
        """Return whether the OCI runtime has state of a container."""
        return (self.root / container_id).exists()

    def update(self, container_id: str, resources: Mapping[str, Any]) -> None:
        """Apply the ``linux.resources`` of an OCI spec. Raises CommandFailed if the OCI runtime fails."""
        self._call("update", container_id, ["--resources=/dev/stdin"], data=json.dumps(resources).encode())

    def containers(self) -> list[str]:
        """Return the ids of all containers below the OCI runtime's root, including damaged ones."""
        return sorted(path.name for path in self.root.iterdir())

    def version(self) -> str:
        """Return the OCI runtime's version, for example ``1.1.5``, or "" if it prints no version."""
        words = run([self.binary, "--version"], timeout_s=self.timeout_s).stdout.decode(errors="replace").split()
        return words[words.index("version") + 1] if "version" in words[:-1] else ""

    def _call(
        self, command: str, container_id: str, before: Sequence[str] = (), after: Sequence[str] = (),
        data: bytes = b"",
    ) -> Output:  # fmt: skip
        self._check_state(self.root / container_id)
        with self.log() as log:
            argv = [self.binary, *self.options(log), command, *before, container_id, *after]
            action = f"{self.name} {command} {container_id}"
            output = run(argv, timeout_s=self.timeout_s, action=action, data=data, check=False)
            if output.code:
                raise CommandFailed(action, output.code, cause_of(output.stderr, log))
            return output

    def _check_state(self, folder: Path) -> None:
        """Raise EngineError if a state file is a pipe or a device, because the OCI runtime would wait on it."""
        for name in _STATES:
            with suppress(FileNotFoundError, NotADirectoryError):
                if not stat.S_ISREG(os.stat(folder / name).st_mode):
                    reason = f"a pipe or a device, so {self.name} would block when it reads it"
                    raise EngineError(f"{folder / name} is not a regular file, but {reason}. Remove it")

    @contextmanager
    def log(self) -> Iterator[Path]:
        """Yield the path of a log file for one call, or of stderr if the disk has no space."""
        try:
            folder = tempfile.TemporaryDirectory(dir=self.calls)
        except OSError:  # the disk is full, but containers must be removable
            yield STDERR
            return
        with folder:
            yield Path(folder.name, "log")


def _mentions(error: CommandFailed, phrases: Sequence[str]) -> bool:
    text = error.cause.lower()
    return any(phrase in text for phrase in phrases)
