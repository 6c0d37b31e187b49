"""How many bytes wait to be read by another process: what it has been sent while it is stopped by a signal.

Rules: the sockets are looked at by copies of the process's descriptors, which are closed again at once. Next:
`tests.agent.node`, which waits for a request so.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import sys
import termios
from collections.abc import Iterator
from typing import Final

#: A system call that Python has no function for; it has this number on every machine.
_PIDFD_GETFD: Final = 438
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def unread(pid: int, path: str) -> int:
    """Bytes that wait for a process at one of its unix sockets of which either end has a path that begins so."""
    return max((waiting for name, waiting in _sockets(pid) if name.startswith(path)), default=0)


def _sockets(pid: int) -> Iterator[tuple[str, int]]:
    """The connected unix sockets of a process: a path, and how many bytes wait."""
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            copy = _LIBC.syscall(_PIDFD_GETFD, process, int(name), 0)
            if copy < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd", name)
            if not stat.S_ISSOCK(os.fstat(copy).st_mode):
                os.close(copy)
                continue
            with socket.socket(fileno=copy) as actual:
                if actual.family == socket.AF_UNIX:
                    with contextlib.suppress(OSError):  # one that only listens
                        path = actual.getpeername() or actual.getsockname()
                        waiting = fcntl.ioctl(actual, termios.FIONREAD, bytes(4))
                        yield str(path), int.from_bytes(waiting, sys.byteorder)
    finally:
        os.close(process)
