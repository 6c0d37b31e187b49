"""conmon: the parent of a container, which outlives the engine, writes the container's log and keeps its exit code.

Start one conmon for each container, and speak to it. Conmon creates the container through the OCI
runtime and says the pid, or the error, on the sync pipe; a creation that fails leaves neither conmon nor container; the
folder of the bundle holds all of conmon's files (attach socket, control pipe, pid files, exit code), so that nothing is
left of one that is killed in the middle of writing it.
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
from nri.engine.support.command import end_left, readable, start, wait_ended
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError
from nri.errors import RequestError
from nri.files import open_regular, private_folder, read_regular
from nri.host.process import command_line
from nri.host.root import MACHINE

TIMEOUT_S = 60.0
_SYNC_LIMIT = 1 << 20
_POLL_S = 0.002
#: The folder of a bundle in which conmon notes the end: a file with the container's id has the exit code.
PERSIST = "persist"
#: Words on conmon's control pipe: the size of the terminal, and that the log was renamed.
_RESIZE, _REOPEN = 1, 2
#: The longest file of a number.
NUMBER_BYTES = 4096
_KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


class Created(NamedTuple):
    """A container that waits for its start: its first process, and conmon's."""

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
    """The command line of conmon for one container. `flags` are those about stdin and the terminal."""
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
    """Starts conmons."""

    def __init__(self, binary: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.binary = binary
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
        place: Callable[[int], None] | None = None,
    ) -> Created:
        """Create the container of a bundle; :meth:`Runtime.start` has it run.

        `place` gets conmon's pid before it does anything, to put it into a cgroup. Raises CommandFailed with the
        runtime's words, CommandTimeout, MissingTool, RequestError; nothing is left of the container then.
        """
        flags = [*(["-i"] if stdin else []), *(["--leave-stdin-open"] if stdin and not stdin_once else []),
                 *(["-t"] if tty else [])]  # fmt: skip
        _check_log(log_path)
        for left in (private_folder(bundle / PERSIST) / container_id, bundle / "conmon.pid", bundle / "runtime.log"):
            left.unlink(missing_ok=True)
        argv = conmon_argv(self.binary, runtime, container_id, bundle, log_path=log_path, flags=flags)
        action = f"{runtime.name} create {container_id}"
        try:
            created = self._start(argv, action, bundle, place)
            _check_opened(log_path, created.conmon_pid)
            return created
        except BaseException:
            with contextlib.suppress(EngineError):  # the first error is the one to tell
                self.remove(runtime, container_id, bundle)
            raise

    def remove(self, runtime: Runtime, container_id: str, bundle: Path) -> None:
        """Take away all that :meth:`create` makes but for files in the bundle, also what a killed engine had half made.

        The undo of a creation; the end of a container that lives is its runtime's kill.
        """
        _end_conmon(bundle, container_id)
        runtime.delete(container_id)

    def _start(self, argv: list[str], action: str, bundle: Path, place: Callable[[int], None] | None) -> Created:
        deadline = time.monotonic() + self.timeout_s
        sync_read, sync_write = os.pipe()
        start_read, start_write = os.pipe()
        names = {"_OCI_SYNCPIPE": str(sync_write), "_OCI_STARTPIPE": str(start_read)}
        said = os.open(bundle / "conmon.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            try:
                first = start(argv, stderr=said, env=names, pass_fds=(sync_write, start_read))
            finally:
                for descriptor in (sync_write, start_read, said):
                    os.close(descriptor)
            code = self._let_go(first, start_write, place, action)
            return self._read_sync(sync_read, deadline, action, bundle, code)
        finally:
            os.close(start_write)
            os.close(sync_read)

    def _let_go(
        self, first: subprocess.Popen[bytes], word: int, place: Callable[[int], None] | None, action: str
    ) -> int:
        """Let the waiting conmon begin once it is in its place; it forks the conmon that stays, and ends."""
        try:
            if place is not None:
                place(first.pid)
            try:
                os.write(word, b"0")
            except BrokenPipeError:
                pass  # it does not like its arguments, and has said why
            if not wait_ended(first, self.timeout_s):
                raise CommandTimeout(action, self.timeout_s)
            return first.returncode
        finally:
            if first.poll() is None:
                first.kill()
                first.wait()

    def _read_sync(self, pipe: int, deadline: float, action: str, bundle: Path, code: int) -> Created:
        """The one line of conmon: the container's pid, or -1 and what the runtime printed."""
        line = b""
        while b"\n" not in line and len(line) < _SYNC_LIMIT:
            if not readable(pipe, deadline - time.monotonic()):
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
                why = cause_of(file.read(_SYNC_LIMIT), log)
            raise CommandFailed(action, code or 1, why or f"{self.binary} or the runtime was killed") from None
        if pid <= 0:
            said = message.encode() or b"the runtime ended without a word"
            raise CommandFailed(action, 1, cause_of(said, log))
        return Created(pid, _written_pid(bundle))

    def reopen_log(self, bundle: Path, log_path: Path) -> None:
        """Have conmon write a new log file, after the present one was renamed; returns when it is there.

        Raises RequestError, EngineError.
        """
        _check_log(log_path)
        try:
            self._reopen(bundle, log_path)
        except RequestError:
            # Conmon has followed a link, and would write to a file of the node's until it opens another one.
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

    def _control(self, bundle: Path, word: str) -> None:
        try:
            pipe = os.open(bundle / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise EngineError(f"conmon of {bundle} does not listen: {error.strerror}") from error
        try:
            os.write(pipe, word.encode())
        finally:
            os.close(pipe)


def _check_log(path: Path) -> None:
    """Refuse a log, or conmon's new one beside it, that is no file. Raises RequestError.

    Through a link conmon would write to the node's files, a pipe would hold it up, and for a folder it would end.
    """
    for each in (path, Path(f"{path}.tmp")):
        with contextlib.suppress(FileNotFoundError):
            mode = os.lstat(each).st_mode
            if not stat.S_ISREG(mode) and str(each) != os.devnull:
                kind = _KINDS.get(stat.S_IFMT(mode), "device")
                raise RequestError("log_path", str(each), f"is a {kind}, and no file")


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file, or a link, from the next one at the path; None if there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_opened(path: Path, pid: int) -> None:
    """Refuse a log in whose place something else was when conmon opened it. Raises RequestError.

    Conmon opens it by its path, and writes nothing before the container runs.
    """
    opened = f"/proc/{pid}/fd"
    try:
        wanted, names = os.lstat(path), os.listdir(opened)
    except OSError:
        return  # conmon is gone, or nothing was opened there
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(wanted, os.stat(f"{opened}/{name}")):
                return
    if not names:
        return  # it has ended just now, with its container, and is not waited for yet
    raise RequestError("log_path", str(path), "was another file a moment ago")


def parse_sync(line: bytes) -> tuple[int, str]:
    """Conmon's one line: the container's pid and no message, or no pid and the runtime's. Raises ValueError."""
    word = parse_json(line)
    if not isinstance(word, dict):
        raise ValueError("no table")  # noqa: TRY004  one kind of error for the caller
    message = word.get("message", "")
    return process_id(word.get("data")), message if isinstance(message, str) else ""


def _written_pid(bundle: Path) -> int:
    """The pid in conmon's file; 0 if there is none."""
    try:
        return int(read_regular(bundle / "conmon.pid", NUMBER_BYTES))
    except (OSError, ValueError):
        return 0


def find_conmon(bundle: Path, container_id: str) -> int:
    """The pid of the conmon of this container, as its pid file says; 0 if that process is gone or another one."""
    pid = _written_pid(bundle)
    words = command_line(MACHINE, pid)
    return pid if container_id in words and str(bundle) in words else 0


def _end_conmon(bundle: Path, container_id: str) -> None:
    """Kill a conmon whose container could not be made, with the runtime that it waits for."""
    if not _written_pid(bundle) and bundle.exists():
        end_left(bundle)  # the file is lost or damaged; the command line names the bundle
    elif pid := find_conmon(bundle, container_id):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # it leads a session of its own, in which the runtime is
