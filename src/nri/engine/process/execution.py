"""Run programs inside a running container: wait for their end and output, or connect to their streams.

The OCI runtime is the parent of the program, and returns the program's exit code. At the deadline, and when the client
disconnects, the program and all its children are killed. A program that could not be started is an error. An exit code
other than 0 is not an error.

crun 1.8.1 loses the last output of short programs when it copies a terminal's output. So with crun the engine receives
the terminal itself. runc copies everything, and gives its terminal only to callers that do not wait for the program.

Only processes of the program may be killed, so a pid is used only if the OCI runtime that started the program is its
ancestor. A process is stopped before its children are listed, because it could start more children. The code does not
use recursion, because a container chooses the depth of the process tree.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nri.engine.process.runtime import Runtime
from nri.engine.process.runtime_log import cause_of
from nri.engine.process.streams import StreamOwner
from nri.engine.support.command import run, start, wait_readable
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError
from nri.host.process import Process, children, find, read_stat, thread_states
from nri.host.root import MACHINE

#: The longest output of ExecSync that the CRI allows.
MAX_OUTPUT_BYTES = 16 << 20
#: How long the OCI runtime may take to reap its killed program. If the runtime were killed, too, the program would
#: become a zombie of the container's main process, which rarely reaps orphans.
REAP_S = 2.0
#: How long the OCI runtime may take to send a terminal, and the interval of checks.
TERMINAL_S, _CHECK_S = 30.0, 0.05
#: The maximum number of steps from a program up to its OCI runtime. Wrappers can be between them.
_MAX_ANCESTORS = 4
#: How long one process and all processes together may take to stop, and the interval of checks. A process that waits
#: for a disk or is frozen does not stop, but it cannot start other processes either.
_STOP_S, _STOP_ALL_S, _STOP_CHECK_S = 0.5, 2.0, 0.001
_FOREVER_S = 10 * 365 * 86400.0


class ExecResult(NamedTuple):
    """The output and exit code of a program. Output beyond `MAX_OUTPUT_BYTES` is cut."""

    stdout: bytes
    stderr: bytes
    code: int


def exec_process(container_process: Mapping[str, Any], argv: Sequence[str], *, tty: bool = False) -> dict[str, Any]:
    """Return the OCI ``process`` of another program in a container: the container's own, with other arguments."""
    process = copy.deepcopy(dict(container_process))
    process.update(args=list(argv), terminal=tty)
    process.pop("consoleSize", None)
    process.pop("oomScoreAdj", None)  # runc would set it, which requires a capability that some nodes lack
    return process


def exec_sync(
    runtime: Runtime,
    container_id: str,
    process: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    client_gone: threading.Event | None = None,
    owner: StreamOwner | None = None,
) -> ExecResult:
    """Run a program in a container, and wait for its end. `owner` becomes the owner of its pipes.

    Raises CommandTimeout after `timeout_s`, and EngineError when `client_gone` is set. In both cases the program and
    its children are killed. Raises CommandFailed if the OCI runtime could not start the program.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=runtime.calls) as folder:
        argv, pid_file, log = _argv(runtime, container_id, process, Path(folder))
        action = f"exec in {container_id}"
        killed_at_s: float | None = None

        def tick(pid: int) -> None:
            nonlocal killed_at_s
            is_late = timeout_s and time.monotonic() - began >= timeout_s
            if killed_at_s is None and not is_late and not (client_gone and client_gone.is_set()):
                return
            if killed_at_s is None:
                kill_started(pid, pid_file)
                killed_at_s = time.monotonic()  # not the deadline: a suspended machine may have missed it by far
            elif time.monotonic() - killed_at_s >= REAP_S:
                kill_tree(pid)
                raise ended_early()

        def ended_early() -> EngineError:
            if client_gone and client_gone.is_set():
                return EngineError(f"{action}: the client has disconnected")
            return CommandTimeout(action, timeout_s or 0)

        output = run(
            argv, timeout_s=_FOREVER_S, action=action, limit_bytes=MAX_OUTPUT_BYTES, check=False, on_tick=tick,
            owner=owner,
        )  # fmt: skip
        if killed_at_s is not None:
            raise ended_early()
        if not _pid_of(pid_file):
            raise CommandFailed(action, output.code, cause_of(output.stderr, log))
        return ExecResult(output.stdout, output.stderr, _code(output.code))


class Execution:
    """A program in a container, connected to its streams. `owner` becomes the owner of its pipes.

    Attributes:
        stdin: the descriptor of its input, or None.
        stdout, stderr: the descriptors of its output. `stderr` is None if the program has a terminal.
    """

    def __init__(
        self, runtime: Runtime, container_id: str, process: Mapping[str, Any], *, stdin: bool = False,
        owner: StreamOwner | None = None,
    ) -> None:  # fmt: skip
        self._folder = tempfile.TemporaryDirectory(dir=runtime.calls)
        self._action = f"exec in {container_id}"
        argv, self._pid_file, self._log = _argv(runtime, container_id, process, Path(self._folder.name))
        self.stdin: int | None = None
        self.stderr: int | None = None
        self._has_terminal = bool(process.get("terminal"))
        self._owns_terminal = self._has_terminal and runtime.program == "crun"
        try:
            if self._owns_terminal:
                self._process, master = start_with_terminal(argv, container_id, Path(self._folder.name))
                self.stdin = self.stdout = master
            else:
                self._process = (
                    self._start_on_pty(argv) if self._has_terminal else self._start_with_pipes(argv, stdin, owner)
                )
        except BaseException:
            self._folder.cleanup()
            raise

    def _start_on_pty(self, argv: list[str]) -> subprocess.Popen[bytes]:
        master, slave = os.openpty()
        os.set_inheritable(master, False)
        self.stdout = self.stdin = master
        try:
            return start(argv, stdin=slave, stdout=slave, stderr=slave)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)

    def _start_with_pipes(self, argv: list[str], stdin: bool, owner: StreamOwner | None) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = start(argv, stdin=pipe if stdin else subprocess.DEVNULL, stdout=pipe, stderr=pipe, owner=owner)
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout, self.stderr = os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno())
        process.stdout.close()
        process.stderr.close()
        if process.stdin is not None:
            self.stdin = os.dup(process.stdin.fileno())
            process.stdin.close()
        return process

    @property
    def pid(self) -> int:
        """The pid of the OCI runtime's process, which ends with the program."""
        return self._process.pid

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, in characters."""
        if self._has_terminal and self.stdin is not None:
            size = struct.pack("HHHH", height, width, 0, 0)
            fcntl.ioctl(self.stdin, termios.TIOCSWINSZ, size)
            if not self._owns_terminal and self._process.poll() is None:
                self._process.send_signal(signal.SIGWINCH)  # the kernel sends it only to a terminal's session

    def close_stdin(self) -> None:
        """End the input."""
        if self.stdin is not None and not self._has_terminal:
            os.close(self.stdin)
            self.stdin = None

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the program, and return its exit code.

        Raises CommandTimeout if it runs longer, and CommandFailed if the OCI runtime could not start it.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise CommandTimeout(self._action, timeout_s or 0) from None
        if not _pid_of(self._pid_file):
            raise CommandFailed(self._action, code, cause_of(b"", self._log))
        return _code(code)

    def close(self) -> None:
        """Close the streams. If the program is still running, kill it with its children."""
        if self._process.poll() is None:
            kill_started(self._process.pid, self._pid_file)
            try:
                self._process.wait(REAP_S)
            except subprocess.TimeoutExpired:
                kill_tree(self._process.pid)
                self._process.kill()  # works even if no descriptor is free
                self._process.wait()
        for descriptor in {self.stdin, self.stdout, self.stderr} - {None}:
            assert descriptor is not None
            os.close(descriptor)
        self.stdin = self.stderr = None
        self._folder.cleanup()


def _argv(
    runtime: Runtime, container_id: str, process: Mapping[str, Any], folder: Path
) -> tuple[list[str], Path, Path]:
    """Return the OCI runtime's command line, and the paths of its pid file and its log."""
    spec, pid_file, log = folder / "process.json", folder / "pid", folder / "log"
    spec.write_text(json.dumps(process))
    argv = [runtime.binary, *runtime.options(log), "exec", "--pid-file", str(pid_file), "--process", str(spec)]
    return [*argv, container_id], pid_file, log


def _code(code: int) -> int:
    """Return the exit code as in shells: 128 plus the number of the signal, if a signal ended the program."""
    return 128 - code if code < 0 else code


def start_with_terminal(argv: Sequence[str], container_id: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``exec``, and receive the program's terminal.

    If the program could not be started, the returned terminal is closed at its other end. Raises CommandTimeout if the
    OCI runtime does not send a terminal in time.
    """
    folder_fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder_fd}/console")  # independent of the length of the folder's path
        listener.listen(1)
        exec_argv = [*argv[:-1], f"--console-socket={folder}/console", argv[-1]]
        null = subprocess.DEVNULL
        process = start(exec_argv, stdin=null, stdout=null, stderr=null)
        try:
            return process, _receive_terminal(listener, process, container_id)
        except BaseException:
            kill_tree(process.pid)
            process.kill()
            process.wait()
            raise
    finally:
        listener.close()
        os.close(folder_fd)


def _receive_terminal(listener: socket.socket, process: subprocess.Popen[bytes], container_id: str) -> int:
    deadline = time.monotonic() + TERMINAL_S
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        if wait_readable(listener.fileno(), 0 if has_ended else _CHECK_S):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(TERMINAL_S)
                _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
            if descriptors:
                os.set_inheritable(descriptors[0], False)
                return descriptors[0]
        elif has_ended:
            return _ended_terminal()
    raise CommandTimeout(f"the terminal for exec in {container_id}", TERMINAL_S)


def _ended_terminal() -> int:
    """Return a terminal that is closed at its other end."""
    master, slave = os.openpty()
    os.close(slave)
    return master


def kill_started(runtime: int, pid_file: Path) -> None:
    """Kill the program that an OCI runtime has started, with all its descendants. `runtime` is the runtime's pid.

    If the program's pid is not in `pid_file` yet, the OCI runtime itself is killed with its descendants.
    """
    pid = _pid_of(pid_file)
    if pid:
        kill_tree(pid, runtime)
    else:
        kill_tree(runtime)


def _pid_of(path: Path) -> int:
    """Return the pid in a file, or 0 if there is no valid pid."""
    try:
        return int(path.read_text() or 0)
    except (OSError, ValueError):
        return 0


def kill_tree(pid: int, ancestor: int = 0) -> None:
    """Kill a process and its descendants, if it is a descendant of `ancestor` (by default, of this process)."""
    first = _send(pid, signal.SIGSTOP, lambda process: _is_ancestor(ancestor or os.getpid(), process.pid))
    stopped = {} if first is None else {pid: first}
    new, wait_until = list(stopped), time.monotonic() + _STOP_ALL_S
    while new:
        for parent in new:  # `new` grows during the loop
            _wait_stopped(parent, min(wait_until, time.monotonic() + _STOP_S))
            new += _stop_children(parent, stopped)
        # A stopped process may have got new children after its children were listed, for example orphans.
        new = [child for parent in list(stopped) for child in _stop_children(parent, stopped)]
    for stopped_pid, process in reversed(stopped.items()):
        _send(stopped_pid, signal.SIGKILL, process.__eq__)


def _stop_children(pid: int, stopped: dict[int, Process]) -> list[int]:
    """Stop the children of a stopped process, which reaps no children, so their pids cannot be reused."""
    new = []
    for child in children(MACHINE, pid):
        if child not in stopped and (process := _send(child, signal.SIGSTOP)) is not None:
            stopped[child] = process
            new.append(child)
    return new


def _send(pid: int, signal_number: int, is_right: Callable[[Process], bool] = lambda _: True) -> Process | None:
    """Send a signal to a process if `is_right` accepts it. Returns None if it does not, or if the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        process = find(MACHINE, pid)
        if process is None or not is_right(process):
            return None
        signal.pidfd_send_signal(descriptor, signal_number)
    except OSError:
        return None  # it ended meanwhile
    finally:
        os.close(descriptor)
    return process


def _wait_stopped(pid: int, until: float) -> None:
    while any(state not in "TtZX" for state in thread_states(MACHINE, pid)) and time.monotonic() < until:
        time.sleep(_STOP_CHECK_S)


def _is_ancestor(ancestor: int, pid: int) -> bool:
    """Return whether a process is an ancestor of another process, at most `_MAX_ANCESTORS` steps above it."""
    for _ in range(_MAX_ANCESTORS):
        stat = read_stat(MACHINE, pid)
        if stat is None:
            return False
        pid = stat.parent
        if pid == ancestor:
            return True
    return False
