"""Run a program of the protocol 0.1.0, with a deadline and a limit for its output.

The program runs in a separate session, so that its children are killed with it after a timeout or an interruption.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
from time import monotonic
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Keep this many bytes of stderr.
MAX_STDERR_BYTES = 4096
#: Read this many bytes at once.
CHUNK_BYTES = 65536
#: Wait this long for pipes to close after the program has ended: a child may keep them open.
PIPE_CLOSE_TIMEOUT_S = 0.2


class Outcome(NamedTuple):
    """The end of a program.

    Attributes:
        code: its exit code, negative for a signal.
        output: its stdout.
        stderr: the end of its stderr.
    """

    code: int
    output: bytes
    stderr: str


class RunError(Exception):
    """A program could not be started, or failed."""


def find(name: str, path: str) -> str:
    """Find a program by name in a list of folders, or by absolute path. Raises RunError if it is not found."""
    path_ = shutil.which(name, path=path) if name else None
    if path_ is None:
        raise RunError(f'exec: "{name}": executable file not found in $PATH ({path})')
    return os.path.abspath(path_)


def run(program: str, request: bytes, *, timeout_s: float, max_bytes: int, environment: Mapping[str, str]) -> Outcome:
    """Run a program on a request, which it reads from stdin. Raises RunError if it fails."""
    try:
        with selectors.DefaultSelector() as selector:
            return _run(program, request, timeout_s, max_bytes, environment, selector)
    except OSError as error:
        raise RunError(f"fork/exec {program}: {error.strerror or error}") from None


def _run(
    program: str,
    request: bytes,
    timeout_s: float,
    max_bytes: int,
    environment: Mapping[str, str],
    selector: selectors.BaseSelector,
) -> Outcome:
    process = subprocess.Popen(
        [program, "invoke"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    )
    run = _Run(process, request, selector)
    try:
        run.watch()
        reason = run.serve(monotonic() + timeout_s, max_bytes)
        if reason:
            reason = reason.format(seconds=f"{timeout_s:.3g}", bytes=max_bytes)
            stderr = run.stderr_tail
            raise RunError(f"{reason}; its last line: {stderr.splitlines()[-1]}" if stderr else reason)
    except BaseException:
        run.kill()
        raise
    finally:
        run.close()
    return Outcome(process.returncode, bytes(run.output), run.stderr_tail)


class _Run:
    """A running program and its three pipes. The constructor cannot fail, so that `kill` is always possible."""

    def __init__(self, process: subprocess.Popen[bytes], request: bytes, selector: selectors.BaseSelector) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._unsent_request = memoryview(request)
        self.output = bytearray()
        self._stderr_bytes = b""
        self._selector = selector
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._end = -1

    def watch(self) -> None:
        """Register the pipes and the program's end with the selector. Raises OSError if descriptors run out."""
        self._end = os.pidfd_open(self._process.pid)
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)
        for readable in (self._stdout, self._stderr, self._end):
            self._selector.register(readable, selectors.EVENT_READ)

    @property
    def stderr_tail(self) -> str:
        return self._stderr_bytes.decode(errors="replace").strip()

    def serve(self, deadline: float, max_bytes: int) -> str:
        """Serve the pipes until the program has ended and they are closed. Returns "" or a reason to kill it."""
        ended = False
        while any(key.fileobj is not self._stdin for key in self._selector.get_map().values()):
            left_s = deadline - monotonic()
            ready = self._selector.select(max(0.0, left_s))
            if not ready:
                return "" if ended else "the program did not end within {seconds} s"
            for key, _ in ready:
                if key.fileobj is self._stdin:
                    self._write()
                elif key.fileobj == self._end:
                    self._selector.unregister(self._end)
                    self._process.wait()
                    ended = True
                    deadline = min(deadline, monotonic() + PIPE_CLOSE_TIMEOUT_S)
                else:
                    self._read(key.fileobj)
            if len(self.output) > max_bytes:
                return "the output has more than {bytes} bytes"
        return ""

    def _write(self) -> None:
        try:
            self._unsent_request = self._unsent_request[
                os.write(self._stdin.fileno(), self._unsent_request[:CHUNK_BYTES]) :
            ]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent_request = self._unsent_request[:0]  # a program may ignore its input
        if not self._unsent_request:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _read(self, pipe: object) -> None:
        stream = self._stdout if pipe is self._stdout else self._stderr
        data = os.read(stream.fileno(), CHUNK_BYTES)
        if not data:
            self._selector.unregister(stream)
        elif stream is self._stdout:
            self.output += data
        else:
            self._stderr_bytes = (self._stderr_bytes + data)[-MAX_STDERR_BYTES:]

    def kill(self) -> None:
        """Kill the program and its children in the same process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self._end >= 0:
            os.close(self._end)
        for pipe in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                pipe.close()
