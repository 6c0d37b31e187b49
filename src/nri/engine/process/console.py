"""A program's own terminal, handed over by crun: what the program writes does not pass through the runtime.

Rules: for crun alone, which loses the last output of a program that ends at once when it copies it (seen with 1.8.1 in
three of ten runs); runc, which copies all of it, hands a terminal over only to those who do not wait for the program.
Next: :mod:`nri.engine.process.execution`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from nri.engine.support.command import readable, start
from nri.engine.support.errors import CommandTimeout

__all__ = ["start_with_terminal"]

_TIMEOUT_S = 30.0
_LOOK_S = 0.05


def start_with_terminal(argv: Sequence[str], container_id: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``exec`` and receive the program's terminal.

    A program that could not be started has one that is at its end; the exit code says the rest. Raises CommandTimeout.
    """
    held = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{held}/console")  # however long the folder's path is
        listener.listen(1)
        words = [*argv[:-1], f"--console-socket={folder}/console", argv[-1]]
        null = subprocess.DEVNULL
        process = start(words, stdin=null, stdout=null, stderr=null)
        try:
            return process, _received(listener, process, container_id)
        except BaseException:
            process.kill()
            process.wait()
            raise
    finally:
        listener.close()
        os.close(held)


def _received(listener: socket.socket, process: subprocess.Popen[bytes], container_id: str) -> int:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        over = process.poll() is not None
        if readable(listener.fileno(), 0 if over else _LOOK_S):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(_TIMEOUT_S)
                _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
            if descriptors:
                os.set_inheritable(descriptors[0], False)
                return descriptors[0]
        elif over:
            return _ended()
    raise CommandTimeout(f"the terminal for exec in {container_id}", _TIMEOUT_S)


def _ended() -> int:
    """A terminal whose other side is closed."""
    master, slave = os.openpty()
    os.close(slave)
    return master
