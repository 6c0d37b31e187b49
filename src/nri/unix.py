"""Unix sockets to listen on: creation, replacement of dead sockets, removal, and the credentials of clients.

- A socket on which a process listens stays. A socket of a dead process is replaced. Other files stay.
- A socket never has a wider mode than requested, not even for a moment.
- `close` removes only the socket that the same object created, not a socket that has replaced it.

gRPC binds sockets by itself; its socket is moved to its place afterwards (`put_in_place`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from contextlib import suppress
from time import sleep
from typing import NamedTuple

#: Time that a start waits for another start in the same folder, in seconds: longer than any start.
LOCK_S = 1.0
#: The interval of checks during that time, in seconds.
CHECK_INTERVAL_S = 0.005

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UCRED = struct.Struct("3i")
#: The identity of a file, to tell it from its replacement: device and inode.
Identity = tuple[int, int]


class Credentials(NamedTuple):
    """The process at the other end, as reported by the kernel. pid is 0 if it is in another namespace."""

    pid: int
    uid: int
    gid: int


def credentials(sock: socket.socket) -> Credentials:
    """The process that connected, or listens, at the other end of a connected unix socket."""
    return Credentials(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def make_folder(path: str, mode: int) -> None:
    """Create the folder for a socket at `path`, with exactly this mode. An existing folder stays unchanged.

    Missing folders above it get mode 0755. No folder has a wider mode for a moment, regardless of the umask.
    """
    above = os.path.dirname(os.path.abspath(path))
    missing: list[str] = []
    while not os.path.isdir(above):
        above, name = os.path.split(above)
        missing.append(name)
    if not missing:
        return
    folder = os.open(above, _FOLDER)
    try:
        for place, name in enumerate(reversed(missing), 1):
            above = os.path.join(above, name)
            with suppress(FileExistsError):  # another process has just created it
                os.mkdir(name, 0o700, dir_fd=folder)
                os.chmod(name, mode if place == len(missing) else 0o755, dir_fd=folder)
            above_it, folder = folder, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(above_it)
    except OSError as error:
        error.filename = above  # the error has only the last part
        raise
    finally:
        os.close(folder)


class UnixListener:
    """A stream socket that listens at a path until `close`.

    Args:
        path: the path of the socket. Its folder must exist (`make_folder`).
        mode: the socket's permissions, regardless of the umask.
        backlog: the maximum number of connections that wait to be accepted.
        replace_live: whether to replace a socket on which another process listens. That process then gets no new
            connections.

    Raises:
        OSError: EADDRINUSE if a process listens on the path, or if it is not a socket; ENAMETOOLONG if the path is too
            long for a socket; other errors of the kernel.
    """

    __slots__ = ("_identity", "path", "socket")

    def __init__(self, path: str, *, mode: int = 0o600, backlog: int = 128, replace_live: bool = False) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._identity: Identity | None = None
        try:
            # A bound socket that does not listen yet looks dead to other starts, so they have to wait.
            lock = _lock(os.path.dirname(path) or ".")
            try:
                _remove_dead(path, replace_live)
                os.fchmod(self.socket.fileno(), mode & 0o600)  # bind uses it, without the umask's bits
                self._bind(path)
                self._identity = _identity(path)
                self.socket.listen(backlog)
            finally:
                if lock >= 0:
                    os.close(lock)
            os.chmod(path, mode)
        except BaseException:
            self.close()
            raise

    def _bind(self, path: str) -> None:
        try:
            self.socket.bind(path)
        except OSError as error:
            if error.errno is not None:
                raise
            raise OSError(errno.ENAMETOOLONG, f"{path}: {error}; a socket's path has at most 107 bytes") from None

    def close(self) -> None:
        """Remove the socket, unless it was replaced, and stop listening."""
        # The socket is removed first: as long as it is open, no other file can have its inode number.
        if self._identity is not None:
            remove_own(self.path, self._identity)
        self._identity = None
        self.socket.close()


def put_in_place(temporary: str, path: str) -> Identity | None:
    """Move a listening socket to `path`, with the rules of `UnixListener`. Returns its identity.

    Both paths are on one file system. Raises the OSErrors of `UnixListener`.
    """
    lock = _lock(os.path.dirname(path) or ".")
    try:
        _remove_dead(path)
        identity = _identity(temporary)
        os.rename(temporary, path)
        return identity
    finally:
        if lock >= 0:
            os.close(lock)


def remove_own(path: str, identity: Identity) -> None:
    """Remove a socket, unless it was replaced. Call it while the socket is open."""
    if _identity(path) == identity:
        with suppress(FileNotFoundError):
            os.unlink(path)


def check_free(path: str, *, replace_live: bool = False) -> bool:
    """Whether a path is a dead socket, to be replaced. Raises OSError (EADDRINUSE) for any other existing file.

    For callers that cannot undo their steps before `put_in_place`, which checks again.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EADDRINUSE, f"{path} is in use, and is not a socket; remove it or choose another path")
    if not replace_live and is_live(path):
        raise OSError(errno.EADDRINUSE, f"{path} is in use: another process listens there; choose another path")
    return True


def _remove_dead(path: str, replace_live: bool = False) -> None:
    """Remove a dead socket. Raises OSError (EADDRINUSE) for any other existing file."""
    if check_free(path, replace_live=replace_live):
        os.unlink(path)


def is_live(path: str) -> bool:
    """Whether a process listens on the socket. Also returns True if that is unknown, because another user owns it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # its queue is full, it has another type, or we may not connect
    return True


def _lock(folder: str) -> int:
    """Lock a folder against other starts until the returned descriptor is closed. Returns -1 if that fails."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return -1
    # a number of attempts, not a deadline, because a suspended machine delays the other start, too
    attempts = round(LOCK_S / CHECK_INTERVAL_S)
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempts > 0:
                attempts -= 1
                sleep(CHECK_INTERVAL_S)
                continue
        except OSError:
            pass  # a file system without locks
        return fd


def _identity(path: str) -> Identity | None:
    """The identity of the file at a path. Returns None if it does not exist."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino
