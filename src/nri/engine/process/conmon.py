"""Start and control conmon, a container's monitor. It outlives the engine, writes the log and records the exit code.

conmon runs the OCI runtime, which creates the container, and reports the container's pid or the runtime's error on its
sync pipe. All files of conmon are in the bundle's folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from nri.config.syntax import parse_json
from nri.engine.process.runtime import Runtime, process_id
from nri.engine.process.runtime_log import cause_of
from nri.engine.support.command import end_leftovers, start, wait_ended, wait_readable
from nri.engine.support.errors import CommandFailed, CommandTimeout, CreateFailed, EngineError
from nri.errors import RequestError
from nri.files import open_regular, private_folder, read_regular
from nri.host.process import command_line
from nri.host.root import MACHINE

TIMEOUT_S = 60.0
#: The maximum size of conmon's answer.
_MAX_SYNC_BYTES = 1 << 20
#: The interval of checks whether conmon has opened a new log.
_POLL_S = 0.002
#: The subfolder of a bundle in which conmon writes the exit code. The file is named after the container's id.
PERSIST = "persist"
#: The numbers of commands on conmon's control pipe: set the terminal's size, reopen the log.
_RESIZE, _REOPEN = 1, 2
#: The maximum size of a file that contains a number.
NUMBER_BYTES = 4096
_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


class ContainerPids(NamedTuple):
    """The pids of a created container's main process and of its conmon."""

    pid: int
    conmon_pid: int


def conmon_argv(
    binary: str,
    runtime: Runtime,
    container_id: str,
    bundle: Path,
    *,
    log_path: Path,
    flags: Sequence[str],
) -> list[str]:
    """Return conmon's command line for a container. `flags` are options for stdin, terminal and size of the log."""
    argv = [
        binary, "--api-version", "1", "-c", container_id, "-u", container_id, "-n", container_id,
        "-r", runtime.binary, "-b", str(bundle), "-p", str(bundle / "pid"), "-P", str(bundle / "conmon.pid"),
        "-l", f"k8s-file:{log_path}", "--exit-dir", str(bundle / PERSIST), "--persist-dir", str(bundle / PERSIST),
        "--full-attach", "--no-sync-log", *flags,
    ]  # fmt: skip
    for option in runtime.options(bundle / "runtime.log"):
        argv += ["--runtime-arg", option]
    return argv


class Conmon:
    """Starts conmon processes, and controls them. `log_size_max` is in bytes; 0 means no limit."""

    def __init__(self, binary: str, *, timeout_s: float = TIMEOUT_S, log_size_max: int = 0) -> None:
        self.binary, self._log_size_max = binary, log_size_max
        self.timeout_s = timeout_s

    def create(
        self,
        runtime: Runtime,
        container_id: str,
        bundle: Path,
        *,
        log_path: Path = Path("/dev/null"),
        stdin: bool = False,
        stdin_once: bool = False,
        tty: bool = False,
        move_to_cgroup: Callable[[int], None] | None = None,
    ) -> ContainerPids:
        """Create the container of a bundle. :meth:`Runtime.start` starts it.

        `move_to_cgroup` is called with conmon's pid before conmon starts other processes. If the creation fails, the
        container is removed.

        Raises:
            CreateFailed: the OCI runtime refused to create the container.
            CommandFailed: conmon failed.
            CommandTimeout: conmon did not answer in time.
            MissingTool: conmon is missing.
            RequestError: the log is not a regular file.
        """
        flags = [*(["-i"] if stdin else []), *(["--leave-stdin-open"] if stdin and not stdin_once else []),
                 *(["-t"] if tty else []),
                 *(["--log-size-max", str(self._log_size_max)] if self._log_size_max else [])]  # fmt: skip
        _check_log(log_path)
        for path in (private_folder(bundle / PERSIST) / container_id, bundle / "conmon.pid", bundle / "runtime.log"):
            path.unlink(missing_ok=True)
        argv = conmon_argv(self.binary, runtime, container_id, bundle, log_path=log_path, flags=flags)
        action = f"{runtime.name} create {container_id}"
        try:
            created = self._start_conmon(argv, action, bundle, move_to_cgroup)
            _check_opened(log_path, created.conmon_pid)
            return created
        except BaseException:
            with contextlib.suppress(EngineError):  # report the first error
                self.remove(runtime, container_id, bundle)
            raise

    def remove(self, runtime: Runtime, container_id: str, bundle: Path) -> None:
        """Undo :meth:`create`, except for files in the bundle.

        This also works if the engine was killed during the creation.
        """
        _end_conmon(bundle, container_id)
        runtime.delete(container_id)

    def _start_conmon(
        self, argv: list[str], action: str, bundle: Path, move_to_cgroup: Callable[[int], None] | None
    ) -> ContainerPids:
        deadline = time.monotonic() + self.timeout_s
        sync_read, sync_write = os.pipe()
        start_read, start_write = os.pipe()
        names = {"_OCI_SYNCPIPE": str(sync_write), "_OCI_STARTPIPE": str(start_read)}
        log = os.open(bundle / "conmon.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            try:
                parent = start(argv, stderr=log, env=names, pass_fds=(sync_write, start_read))
            finally:
                for descriptor in (sync_write, start_read, log):
                    os.close(descriptor)
            code = self._release(parent, start_write, move_to_cgroup, action)
            return self._read_sync(sync_read, deadline, action, bundle, code)
        finally:
            os.close(start_write)
            os.close(sync_read)

    def _release(
        self,
        parent: subprocess.Popen[bytes],
        start_pipe: int,
        move_to_cgroup: Callable[[int], None] | None,
        action: str,
    ) -> int:
        """Move the waiting conmon to its cgroup, let it fork the monitor, and return the exit code of the parent."""
        try:
            if move_to_cgroup is not None:
                move_to_cgroup(parent.pid)
            try:
                os.write(start_pipe, b"0")
            except BrokenPipeError:
                pass  # conmon has ended, because its arguments are invalid; its log has the reason
            if not wait_ended(parent, self.timeout_s):
                raise CommandTimeout(action, self.timeout_s)
            return parent.returncode
        finally:
            if parent.poll() is None:
                parent.kill()
                parent.wait()

    def _read_sync(self, pipe: int, deadline: float, action: str, bundle: Path, code: int) -> ContainerPids:
        """Read conmon's answer: the container's pid, or -1 and the runtime's output."""
        line = b""
        while b"\n" not in line and len(line) < _MAX_SYNC_BYTES:
            if not wait_readable(pipe, deadline - time.monotonic()):
                raise CommandTimeout(action, self.timeout_s)
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                break
            line += chunk
        log = bundle / "runtime.log"
        try:
            pid, message = parse_sync(line)
        except ValueError:
            with open(bundle / "conmon.log", "rb", opener=open_regular) as file:
                cause = cause_of(file.read(_MAX_SYNC_BYTES), log)
            raise CommandFailed(action, code or 1, cause or f"{self.binary} or the runtime was killed") from None
        if pid <= 0:
            output = message.encode() or b"the runtime ended without an error message"
            raise CreateFailed(action, 1, cause_of(output, log))
        return ContainerPids(pid, _written_pid(bundle))

    def reopen_log(self, bundle: Path, log_path: Path) -> None:
        """Let conmon continue the log in a new file, and wait until the file exists.

        Raises RequestError if the path of the log is not a regular file, and EngineError if conmon does not answer.
        """
        _check_log(log_path)
        try:
            self._reopen(bundle, log_path)
        except RequestError:
            # conmon has followed a link, and would write to a file of the node until it opens another file.
            with contextlib.suppress(OSError, EngineError, RequestError):
                log_path.unlink()
                self._reopen(bundle, log_path)
            raise

    def _reopen(self, bundle: Path, log_path: Path) -> None:
        before = _identity(log_path)
        self._control(bundle, f"{_REOPEN} 0 0\n")
        deadline = time.monotonic() + self.timeout_s
        while _identity(log_path) in (before, None):
            if time.monotonic() > deadline:
                raise CommandTimeout(f"conmon: reopen {log_path}", self.timeout_s)
            time.sleep(_POLL_S)
        _check_log(log_path)
        _check_opened(log_path, _written_pid(bundle))

    def resize(self, bundle: Path, width: int, height: int) -> None:
        """Set the size of the container's terminal, in characters."""
        self._control(bundle, f"{_RESIZE} {height} {width}\n")

    def _control(self, bundle: Path, command: str) -> None:
        try:
            pipe = os.open(bundle / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise EngineError(f"conmon of {bundle} does not listen: {error.strerror}") from error
        try:
            os.write(pipe, command.encode())
        finally:
            os.close(pipe)


def _check_log(path: Path) -> None:
    """Raise RequestError if a log, or conmon's temporary file next to it, exists and is not a regular file.

    conmon would follow a link to a file of the node, wait on a pipe, and fail for a folder.
    """
    for candidate in (path, Path(f"{path}.tmp")):
        with contextlib.suppress(FileNotFoundError):
            mode = os.lstat(candidate).st_mode
            if not stat.S_ISREG(mode) and str(candidate) != os.devnull:
                kind = _KINDS.get(stat.S_IFMT(mode), "device")
                raise RequestError("log_path", str(candidate), f"is a {kind}, not a file")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file or link at a path, or None if it does not exist."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _check_opened(path: Path, pid: int) -> None:
    """Raise RequestError if conmon has opened another file than the log that is now at `path`.

    conmon opens the log by its path, and writes nothing before the container runs.
    """
    folder = f"/proc/{pid}/fd"
    try:
        status, names = os.lstat(path), os.listdir(folder)
    except OSError:
        return  # conmon has ended, or has no log
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(status, os.stat(f"{folder}/{name}")):
                return
    if not names:
        return  # conmon has just ended, with its container
    raise RequestError("log_path", str(path), "was replaced while it was opened")


def parse_sync(line: bytes) -> tuple[int, str]:
    """Parse conmon's answer: the container's pid, or -1 and the runtime's error. Raises ValueError if it is invalid."""
    answer = parse_json(line)
    if not isinstance(answer, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one kind of error for the caller
    message = answer.get("message", "")
    return process_id(answer.get("data")), message if isinstance(message, str) else ""


def _written_pid(bundle: Path) -> int:
    """Return the pid in conmon's pid file, or 0 if there is no valid file."""
    try:
        return int(read_regular(bundle / "conmon.pid", NUMBER_BYTES))
    except (OSError, ValueError):
        return 0


def find_conmon(bundle: Path, container_id: str) -> int:
    """Return the pid of a container's conmon, or 0 if the conmon has ended, even if its pid was reused."""
    pid = _written_pid(bundle)
    words = command_line(MACHINE, pid)
    return pid if container_id in words and str(bundle) in words else 0


def _end_conmon(bundle: Path, container_id: str) -> None:
    """Kill a conmon whose container could not be created, together with its OCI runtime."""
    if not _written_pid(bundle) and bundle.exists():
        end_leftovers(bundle)  # the pid file is lost or damaged, but the command line names the bundle
    elif pid := find_conmon(bundle, container_id):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # conmon leads a session, which includes the OCI runtime
