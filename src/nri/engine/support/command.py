"""Run another program: no shell, a deadline, bounded output, and nothing left running at the deadline.

One job: :func:`run`. The program gets a session of its own, and what is still alive of it at the deadline is
killed with it; its input and output never wait for each other; output past the limit is dropped and counted.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nri.engine.support.errors import CommandFailed, CommandTimeout, MissingTool
from nri.host.process import command_line, environment, numbers
from nri.host.root import MACHINE
from nri.service.systemd import environment_of_child

LIMIT_BYTES = 4 << 20
_CHUNK = 1 << 16
#: How long pipes may stay open after the program itself has ended: a child of it may have kept them.
_LINGER_S = 0.5
#: How long a program that was killed has to end.
END_S = 10.0


@dataclass(frozen=True, slots=True)
class Output:
    """The exit code and output of a program that ended. `dropped_bytes` counts what was over the limit."""

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
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own. Raises MissingTool if there is none at `argv[0]`."""
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**environment_of_child(), **(env or {})},
            pass_fds=pass_fds,
            start_new_session=True,
            cwd="/",
        )
    except (FileNotFoundError, PermissionError) as error:
        raise MissingTool(argv[0]) from error


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    action: str = "",
    data: bytes = b"",
    env: Mapping[str, str] | None = None,
    limit_bytes: int = LIMIT_BYTES,
    check: bool = True,
    on_tick: Callable[[int], None] | None = None,
) -> Output:
    """Run a program to its end and return what it wrote.

    `action` names it in errors, `on_tick` is called with its pid a few times a second while it runs, and may raise to
    end it.
    Raises CommandFailed for another exit code than 0 if `check`, CommandTimeout, MissingTool.
    """
    action = action or os.path.basename(argv[0])
    pipe = subprocess.PIPE
    process = start(argv, stdin=pipe if data else subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env)
    pump = _Pump(process, data, limit_bytes)
    try:
        if not pump.until_ended(time.monotonic() + timeout_s, on_tick):
            raise CommandTimeout(action, timeout_s)
    finally:
        _end(process)
        pump.close()
    output = Output(process.returncode, bytes(pump.kept[0]), bytes(pump.kept[1]), pump.dropped)
    if check and output.code:
        raise CommandFailed(action, output.code, last_words(output.stderr) or last_words(output.stdout))
    return output


def wait_ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for a program's end, without the sleeps of Popen's own wait with a deadline; False at the deadline."""
    if process.poll() is None:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            pass  # another thread has just reaped it
        else:
            try:
                readable(descriptor, timeout_s)
            finally:
                os.close(descriptor)
    return process.poll() is not None


def readable(descriptor: int, timeout_s: float | None) -> bool:
    """Wait until there is something to read, or its end; False at the deadline, None for none.

    Unlike select's, the number of the descriptor may be above 1023, as a node with many containers has them.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))


def last_words(text: bytes, lines: int = 2) -> str:
    """The last lines of a program's output that are not blank, as one line of text."""
    found = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(found[-lines:])[-2000:]


def end_left(folder: Path, variable: str = "") -> list[int]:
    """Kill what an engine that was killed has left running on files of this folder, and wait for its end.

    Only for a folder that is ours alone: a program with a path below it on its command line was started by us. So was
    one with this variable (``NAME=value``) in its environment. Returns the pids.
    """
    wanted, ended = f"{folder}/", list[int]()
    while True:  # it may start others until it is killed
        found = [pid for pid in numbers(MACHINE) if _is_left(pid, wanted, variable)]
        killed = [pid for pid in found if _killed(pid, wanted, variable)]
        ended += killed
        if not found or killed != found:  # all are gone, or one is not ours to end
            return ended


def _is_left(pid: int, wanted: str, variable: str) -> bool:
    if pid == os.getpid():
        return False
    if any(wanted in word for word in command_line(MACHINE, pid)):
        return True
    return bool(variable) and variable in (environment(MACHINE, pid) or ())


def _killed(pid: int, wanted: str, variable: str) -> bool:
    """Kill a process, and wait for its end; it is looked at again, because the number may be another one's by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _is_left(pid, wanted, variable):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return readable(descriptor, END_S)
        return True
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    finally:
        os.close(descriptor)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the program's session behind."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended just now
        wait_ended(process, END_S)  # one that the kernel holds, as a frozen one, ends when it is let go of


class _Pump:
    """A program's three pipes, moved without any of them waiting for another."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, limit: int) -> None:
        self.kept = (bytearray(), bytearray())
        self.dropped = 0
        self._process = process
        self._rest = memoryview(data)
        self._limit = limit
        self._selector = selectors.DefaultSelector()
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe, buffer in zip((process.stdout, process.stderr), self.kept, strict=True):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, buffer)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)

    def until_ended(self, deadline: float, on_tick: Callable[[int], None] | None) -> bool:
        """Move bytes until the program is over and its pipes are closed, or linger; False at the deadline."""
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
        wait_ended(self._process, timeout_s)  # asked again, with the deadline in sight

    def _move(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                self._write(key.fd)
            else:
                self._read(key.fd, key.data)

    def _write(self, descriptor: int) -> None:
        try:
            self._rest = self._rest[os.write(descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = self._rest[:0]  # it does not want the rest; its exit code says whether that is an error
        if not self._rest:
            self._drop(descriptor)

    def _read(self, descriptor: int, buffer: bytearray) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
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
