"""The `nri` command for tests, quickly: real processes, forked from one that has loaded Python, click and protobuf.

Each run has its own arguments, environment, folder and standard streams, and ends as a program does; only its start is
not its own. To load all that anew costs 0.1 s for each run, and as much again where tests are measured
(tools/covered.py). How the command itself starts is tested with processes of their own (tests/unit/cli/test_entry.py).
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parents[2]
#: The longest request: arguments and environment as JSON.
_MOST_BYTES = 1 << 17


class ForkedNri:
    """Runs `nri ...`. For one thread after the other, or several at once; to be closed."""

    def __init__(self) -> None:
        self._ours, reference = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reference:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked_nri", str(reference.fileno())],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[reference.fileno()],
                process_group=0,
            )  # fmt: skip

    def run(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], cwd: str | Path, stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command line to its end, as `subprocess.run` does with text."""
        near_end, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([arguments, dict(environment), str(cwd)]).encode()
        with (
            near_end,
            tempfile.TemporaryFile() as file,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            file.write(stdin.encode())
            file.seek(0)
            with far_end:
                descriptors = [far_end.fileno(), file.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(self._ours, [request], descriptors)
            sys.audit("os.fork")  # so that tests/conftest.py knows that the test has started a process
            process = int(near_end.recv(32))
            near_end.settimeout(timeout_s)
            try:
                code = int(near_end.recv(32))
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["nri", *arguments], timeout_s, _text(out), _text(err)) from None
            return subprocess.CompletedProcess(["nri", *arguments], code, _text(out).decode(), _text(err).decode())

    def close(self) -> None:
        """End the process that is forked from; it ends by itself once the socket is closed."""
        self._ours.close()
        self._server.wait(20)


def _text(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def serve(asking: socket.socket) -> bool:
    """Fork a process for each request, and tell its number and exit code; True in such a process, False at the end."""
    ends: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(asking, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in ends:
                process, message = ends.pop(descriptor)
                poll.unregister(descriptor)
                os.close(descriptor)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                with message:
                    message.send(str(code).encode())
                continue
            requested, descriptors, _, _ = socket.recv_fds(asking, _MOST_BYTES, 4)
            if not requested:
                return False
            message = socket.socket(fileno=descriptors[0])
            process = os.fork()
            if not process:
                message.close()
                asking.close()
                arguments, environment, cwd = json.loads(requested)
                _become(arguments, environment, cwd, descriptors[1:])
                return True
            for number in descriptors[1:]:
                os.close(number)
            message.send(str(process).encode())
            watched = os.pidfd_open(process)
            ends[watched] = (process, message)
            poll.register(watched, select.POLLIN)


def _become(arguments: list[str], environment: dict[str, str], cwd: str, descriptors: list[int]) -> None:
    """Take over what a process of its own would have had from its start."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[0] = cwd  # as `python -m` has it
    sys.argv[1:] = arguments


def _end(main: Callable[[], None]) -> NoReturn:
    """Run the command, and end as Python does, but for taking apart all that is loaded: that takes twice as long."""
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    # What verbs load that takes a while.

    import google.protobuf.json_format  # noqa: F401
    import yaml  # noqa: F401

    import nri.adaptation
    import nri.stub.program.options
    import nri.testing
    import nri.trace.catalog  # noqa: F401
    from nri.cli.main import main
    from nri.plugins.registry import registered

    for entry in registered():
        entry.load()
    gc.freeze()  # no collection in a child touches, and so copies, what it shares with this process

    with socket.socket(fileno=int(sys.argv[1])) as asking:
        is_command = serve(asking)
    if is_command:
        _end(main)
