"""Run other programs without a shell, with a deadline and bounded output."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.errors import CommandFailed, CommandTimeout, MissingTool
from nri.host.process import command_line, environment, numbers
from nri.host.root import MACHINE
from nri.service.systemd import environment_of_child

MAX_OUTPUT_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 16
#: How long pipes are read after the program has ended. A child of the program may keep them open.
_LINGER_S = 0.5
#: How long a killed program may take to end.
END_S = 10.0


@dataclass(frozen=True, slots=True)
class Output:
    """The exit code and output of a program. `dropped_bytes` counts the output beyond the limit."""

    code: int
    stdout: bytes
    stderr: bytes
    dropped_bytes: int = 0


def start(
    argv: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    owner: tuple[int, int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session. Raises MissingTool if `argv[0]` is not a program.

    `owner` has the user and group that become the owner of the pipes.
    """
    streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    with _owned_pipes([name for name in streams if streams[name] == subprocess.PIPE], owner) as pipes:
        streams |= {name: pipe.program_end for name, pipe in pipes.items()}
        try:
            process = subprocess.Popen(
                argv,
                stdin=streams["stdin"],
                stdout=streams["stdout"],
                stderr=streams["stderr"],
                env={**environment_of_child(), **(env or {})},
                pass_fds=pass_fds,
                start_new_session=True,
                cwd="/",
            )
        except (FileNotFoundError, PermissionError) as error:
            raise MissingTool(argv[0]) from error
        for name, pipe in pipes.items():
            file = open(os.dup(pipe.own_end), "wb" if name == "stdin" else "rb", 0)  # noqa: SIM115  as Popen's own
            setattr(process, name, file)
    return process


class _Pipe(NamedTuple):
    """The descriptors of a pipe between a program and this process."""

    program_end: int
    own_end: int


@contextmanager
def _owned_pipes(names: Sequence[str], owner: tuple[int, int] | None) -> Iterator[dict[str, _Pipe]]:
    """Create pipes for these streams, with `owner` as their owner, and close them at the end of the context.

    The owner is set before a program can open the pipes by name. Without an owner no pipe is created.
    """
    pipes: dict[str, _Pipe] = {}
    try:
        for name in names if owner else ():
            reading, writing = os.pipe()
            pipes[name] = _Pipe(reading, writing) if name == "stdin" else _Pipe(writing, reading)
            os.fchown(reading, *(owner or (-1, -1)))
        yield pipes
    finally:
        for pipe in pipes.values():
            os.close(pipe.program_end)
            os.close(pipe.own_end)


def run(  # noqa: PLR0913  options, by name
    argv: Sequence[str],
    *,
    timeout_s: float,
    action: str = "",
    data: bytes = b"",
    env: Mapping[str, str] | None = None,
    limit_bytes: int = MAX_OUTPUT_BYTES,
    check: bool = True,
    on_tick: Callable[[int], None] | None = None,
    owner: tuple[int, int] | None = None,
) -> Output:
    """Run a program to its end, and return its output. At the deadline all processes in its session are killed.

    `action` is the name of the call in errors. `on_tick` is called with the program's pid a few times a second, and
    may raise an error to kill the program. `owner` is described at `start`.

    Raises CommandTimeout at the deadline, MissingTool if the program is missing, and, with `check`, CommandFailed if
    the exit code is not 0.
    """
    action = action or os.path.basename(argv[0])
    pipe = subprocess.PIPE
    process = start(argv, stdin=pipe if data else subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, owner=owner)
    pump = _Pump(process, data, limit_bytes)
    try:
        if not pump.until_ended(time.monotonic() + timeout_s, on_tick):
            raise CommandTimeout(action, timeout_s)
    finally:
        _kill_program(process)
        pump.close()
    output = Output(process.returncode, bytes(pump.output[0]), bytes(pump.output[1]), pump.dropped)
    if check and output.code:
        raise CommandFailed(action, output.code, last_lines(output.stderr) or last_lines(output.stdout))
    return output


def wait_ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for a program's end without polling. Returns False at the deadline."""
    if process.poll() is None:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            pass  # another thread has just reaped it
        else:
            try:
                wait_readable(descriptor, timeout_s)
            finally:
                os.close(descriptor)
    return process.poll() is not None


def wait_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Wait until a descriptor has data or is at its end. Returns False after `timeout_s`; None means no limit.

    This uses poll, because select does not support descriptors above 1023.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))


def last_lines(text: bytes, count: int = 2) -> str:
    """Return the last nonblank lines of a program's output, joined into one line."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines[-count:])[-2000:]


def end_leftovers(folder: Path, variable: str = "") -> list[int]:
    """Kill programs that a killed engine started and that still use this folder, and return their pids.

    These are the programs with a path below the folder in their command line, or with `variable` (``NAME=value``) in
    their environment. Only the engine may use the folder.
    """
    prefix, ended = f"{folder}/", list[int]()
    while True:  # the programs may start others until they are killed
        leftovers = [pid for pid in numbers(MACHINE) if _is_leftover(pid, prefix, variable)]
        killed = [pid for pid in leftovers if _is_killed(pid, prefix, variable)]
        ended += killed
        if not leftovers or killed != leftovers:  # all have ended, or one cannot be killed
            return ended


def _is_leftover(pid: int, prefix: str, variable: str) -> bool:
    if pid == os.getpid():
        return False
    if any(prefix in word for word in command_line(MACHINE, pid)):
        return True
    return bool(variable) and variable in (environment(MACHINE, pid) or ())


def _is_killed(pid: int, prefix: str, variable: str) -> bool:
    """Kill a process, and wait for its end. It is checked again, because its pid may have been reused."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _is_leftover(pid, prefix, variable):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return wait_readable(descriptor, END_S)
        return True
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    finally:
        os.close(descriptor)


def _kill_program(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all processes in its session, if the program is still running."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended
        wait_ended(process, END_S)  # a process that the kernel holds, for example a frozen one, ends later


class _Pump:
    """Copies data to and from a program's three pipes without blocking. Output beyond the limit is dropped."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, limit: int) -> None:
        self.output = (bytearray(), bytearray())
        self.dropped = 0
        self._process = process
        self._unsent_input = memoryview(data)
        self._limit = limit
        self._selector = selectors.DefaultSelector()
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe, buffer in zip((process.stdout, process.stderr), self.output, strict=True):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, buffer)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)

    def until_ended(self, deadline: float, on_tick: Callable[[int], None] | None) -> bool:
        """Copy data until the program has ended and its pipes are closed. Returns False at the deadline.

        After the program's end, pipes that stay open are read for `_LINGER_S`.
        """
        ended_at: float | None = None
        while self._selector.get_map() or self._process.poll() is None:
            now = time.monotonic()
            if now >= deadline:
                return self._process.poll() is not None
            if self._process.poll() is not None:
                ended_at = ended_at or now
                if now - ended_at > _LINGER_S:
                    return True
            if self._selector.get_map():
                self._move(min(deadline - now, 0.2))
            else:
                self._wait(min(deadline - now, 0.2))
            if on_tick is not None and self._process.poll() is None:
                on_tick(self._process.pid)
        return True

    def _wait(self, timeout_s: float) -> None:
        wait_ended(self._process, timeout_s)  # the caller checks again

    def _move(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                self._write(key.fd)
            else:
                self._read(key.fd, key.data)

    def _write(self, descriptor: int) -> None:
        try:
            self._unsent_input = self._unsent_input[os.write(descriptor, self._unsent_input[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent_input = self._unsent_input[
                :0
            ]  # the program does not read all data, which is an error only if its exit code is not 0
        if not self._unsent_input:
            self._close_pipe(descriptor)

    def _read(self, descriptor: int, buffer: bytearray) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close_pipe(descriptor)
            return
        room = self._limit - len(buffer)
        buffer += chunk[:room] if room > 0 else b""
        self.dropped += max(len(chunk) - max(room, 0), 0)

    def _close_pipe(self, descriptor: int) -> None:
        pipe = self._selector.unregister(descriptor).fileobj
        assert not isinstance(pipe, int)
        pipe.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        for key in [*self._selector.get_map().values()]:
            self._close_pipe(key.fd)
        self._selector.close()
