"""An OCI runtime (runc or crun) as its command line: state, start, kill, delete, update.

The runtime gets a root folder of its own, so that it never sees another engine's containers; each call has a
log of its own, because the cause of a failure often is there alone. Creating is conmon's, which has to be the
parent of the container. A runtime waits on a pipe in the place of its own state, so it is not called then.
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
_RETRY_S = 0.02
#: More than a kernel gives out.
_MOST_PID = 1 << 30
#: The files in which runc and crun keep the state of a container.
_STATES = ("state.json", "status")
#: How runc and crun say that they do not know a container, or that it has ended.
_NOT_THERE = ("does not exist", "no such file or directory", "not found")
_ENDED = ("not running", "process already finished", "no such process", "is not running", "stopped")


class RuntimeState(NamedTuple):
    """The runtime's word on a container. `status` is creating, created, running, paused or stopped; pid 0 is none."""

    status: str
    pid: int
    bundle: str


def parse_state(data: bytes) -> tuple[str, RuntimeState]:
    """A container's id and state, as a runtime prints them. Raises ValueError."""
    row = parse_json(data)
    if not isinstance(row, dict):
        raise ValueError("no table")  # noqa: TRY004
    identity, status, bundle = (row.get(key) for key in ("id", "status", "bundle"))
    if not (isinstance(identity, str) and isinstance(status, str) and isinstance(bundle, str)):
        raise ValueError("id, status or bundle is not text")  # noqa: TRY004
    return identity, RuntimeState(status, process_id(row.get("pid", 0)), bundle)


def process_id(value: object) -> int:
    """A process id of an answer; 0 or less is none. Raises ValueError for what is no such number."""
    if type(value) is not int or abs(value) > _MOST_PID:
        raise ValueError("pid is no process's number")
    return value


class Runtime:
    """One OCI runtime. `arguments` are before the command, such as crun's ``--cgroup-manager``."""

    def __init__(self, binary: str, root: Path, *, arguments: Sequence[str] = (), timeout_s: float = TIMEOUT_S) -> None:
        self.binary = binary
        self.name = os.path.basename(binary)
        self.root = private_folder(root)
        #: The place of one call's files while it lasts; what is there at the start is a killed engine's.
        self.calls = private_folder(root.with_name(f"{root.name}-calls"))
        for left in self.calls.iterdir():
            remove_tree(left)
        self.arguments = tuple(arguments)
        self.timeout_s = timeout_s

    @functools.cached_property
    def program(self) -> str:
        """The program behind the file, as it calls itself (``runc``, ``crun``); the file's name if it does not say."""
        try:
            words = run([self.binary, "--version"], timeout_s=self.timeout_s).stdout.decode(errors="replace").split()
        except EngineError:
            return self.name
        return words[0] if words[1:2] == ["version"] else self.name

    def options(self, log: Path) -> list[str]:
        """The options that are between the program and the command."""
        return [*self.arguments, f"--root={self.root}", f"--log={log}", "--log-format=json"]

    def start(self, container_id: str) -> None:
        """Have a created container run its program. Raises CommandFailed."""
        self._call("start", container_id)

    def state(self, container_id: str) -> RuntimeState:
        """The state of a container. Raises NotFound if the runtime does not know it."""
        try:
            return parse_state(self._call("state", container_id).stdout)[1]
        except CommandFailed as error:
            if _says(error, _NOT_THERE):
                raise NotFound("container", container_id) from error
            raise
        except ValueError as error:
            raise EngineError(f"{self.name} state {container_id}: an answer that cannot be read: {error}") from error

    def kill(self, container_id: str, signal: int | str) -> bool:
        """Send a signal to the container's first process; False if it has ended already or is not there."""
        try:
            self._call("kill", container_id, after=[str(signal)])
        except CommandFailed as error:
            if _says(error, (*_NOT_THERE, *_ENDED)):
                return False
            raise
        return True

    def delete(self, container_id: str) -> None:
        """Kill what still runs and remove the container with its cgroup; one that is not there is no error.

        A cgroup is busy for a moment after its last process, so a refusal is tried again until the deadline.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                self._call("delete", container_id, ["--force"])
            except CommandFailed as error:
                if not _says(error, _NOT_THERE):
                    if time.monotonic() > deadline or self.is_damaged(container_id):
                        raise
                    time.sleep(_RETRY_S)
                    continue
            remove_tree(self.root / container_id)  # a container whose state file is lost is not there for the runtime
            return

    def is_damaged(self, container_id: str) -> bool:
        """Whether the runtime cannot read its own state of a container, so that no command of it works."""
        try:
            self.state(container_id)
        except CommandFailed as error:
            return error.code > 0  # less is a signal: the runtime was killed, which says nothing of the state
        except (NotFound, CommandTimeout, MissingTool):
            return False
        except EngineError:
            return True
        return False

    def update(self, container_id: str, resources: Mapping[str, Any]) -> None:
        """Put resources into force, written as ``linux.resources`` of the OCI spec. Raises CommandFailed."""
        self._call("update", container_id, ["--resources=/dev/stdin"], data=json.dumps(resources).encode())

    def containers(self) -> list[str]:
        """The ids of all containers below the runtime's root, also of those whose state is damaged."""
        return sorted(path.name for path in self.root.iterdir())

    def version(self) -> str:
        """The runtime's version, such as ``1.1.5``; empty if it says none."""
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
        for name in _STATES:
            with suppress(FileNotFoundError, NotADirectoryError):
                if not stat.S_ISREG(os.stat(folder / name).st_mode):
                    raise EngineError(f"{folder / name} is no file, and {self.name} would wait on it. Remove it")

    @contextmanager
    def log(self) -> Iterator[Path]:
        """A file for the log of one call; its own output where there is no room for one."""
        try:
            folder = tempfile.TemporaryDirectory(dir=self.calls)
        except OSError:  # a full disk; what takes containers away has to run all the same
            yield STDERR
            return
        with folder:
            yield Path(folder.name, "log")


def _says(error: CommandFailed, phrases: Sequence[str]) -> bool:
    text = error.cause.lower()
    return any(phrase in text for phrase in phrases)
