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
#: How long pipes may stay open after the program has ended, in seconds: a child of it may have inherited them.
_LINGER_S = 0.5
#: How long a killed program gets to end, in seconds.
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
    """Start a program in its own session. MissingTool if there is no program at `argv[0]`.

    `owner` has the user and group that own its pipes; by default they belong to this process's user.
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
    """Pipes for the streams of these names, which belong to `owner` before a program can open them by name.

    Without an owner there are none. They are closed at the end of the context.
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
    """Run a program to its end and return its output. At the deadline its whole session is killed.

    `action` names it in errors. `on_tick` is called with its pid a few times a second, and may raise to end it. For
    `owner` see `start`.

    Raises CommandFailed for an exit code other than 0 if `check`, CommandTimeout, MissingTool.
    """
    action = action or os.path.basename(argv[0])
    pipe = subprocess.PIPE
    process = start(argv, stdin=pipe if data else subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, owner=owner)
    pump = _Pump(process, data, limit_bytes)
    try:
        if not pump.until_ended(time.monotonic() + timeout_s, on_tick):
            raise CommandTimeout(action, timeout_s)
    finally:
        _end(process)
        pump.close()
    output = Output(process.returncode, bytes(pump.output[0]), bytes(pump.output[1]), pump.dropped)
    if check and output.code:
        raise CommandFailed(action, output.code, last_lines(output.stderr) or last_lines(output.stdout))
    return output


def wait_ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for a program's end, without the sleeps of Popen's own wait; False at the deadline."""
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
    """Wait until a descriptor has data or its end; False at the deadline, which None disables.

    Unlike with select, the descriptor's number may exceed 1023, as on a node with many containers.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))


def last_lines(text: bytes, count: int = 2) -> str:
    """The last nonblank lines of a program's output, joined to one line."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines[-count:])[-2000:]


def end_leftovers(folder: Path, variable: str = "") -> list[int]:
    """Kill the programs that a killed engine left running on files of this folder, and wait for their end.

    A program counts if its command line has a path below the folder, which must be the engine's alone, or if its
    environment has the variable (``NAME=value``). Returns the pids.
    """
    prefix, ended = f"{folder}/", list[int]()
    while True:  # they may start others until they are killed
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
    """Kill a process, and wait for its end. It is checked again, because another process may have its number by now."""
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the program's session."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended
        wait_ended(process, END_S)  # a process that the kernel holds, for example a frozen one, ends later


class _Pump:
    """A program's three pipes, moved without any of them waiting for another. Output beyond the limit is dropped."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, limit: int) -> None:
        self.output = (bytearray(), bytearray())
        self.dropped = 0
        self._process = process
        self._unsent = memoryview(data)
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
        """Move bytes until the program has ended and its pipes are closed, or linger; False at the deadline."""
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
            self._unsent = self._unsent[os.write(descriptor, self._unsent[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent = self._unsent[:0]  # it does not read the rest; its exit code tells whether that is an error
        if not self._unsent:
            self._drop(descriptor)

    def _read(self, descriptor: int, buffer: bytearray) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._drop(descriptor)
            return
        room = self._limit - len(buffer)
        buffer += chunk[:room] if room > 0 else b""
        self.dropped += max(len(chunk) - max(room, 0), 0)

    def _drop(self, descriptor: int) -> None:
        pipe = self._selector.unregister(descriptor).fileobj
        assert not isinstance(pipe, int)
        pipe.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        for key in [*self._selector.get_map().values()]:
            self._drop(key.fd)
        self._selector.close()
