"""Unix sockets to listen on: how one is made, takes the place of a dead one and is removed, and who connects to it.

Rules of this file:
- a socket that a process listens on stays; one that a dead process has left behind is replaced; other files stay;
- a socket never has a wider mode than it was asked for, not for a moment;
- what is removed in the end is the socket that was made here, and not another one that has taken its place.

How connections are accepted is up to the two that listen: `nri.ttrpc.services.server` and
`nri.adaptation.registration.listener`. gRPC binds by itself: out of sight, and then the socket is moved to its
place (`put_in_place`).
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

__all__ = [
    "Credentials",
    "Identity",
    "UnixListener",
    "check_free",
    "credentials",
    "is_live",
    "make_folder",
    "put_in_place",
    "remove_own",
]

#: How long a start waits for another one in the same folder, in seconds; no start takes so long.
LOCK_S = 1.0
#: How often it looks whether that one is through, in seconds.
LOOK_S = 0.005

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UCRED = struct.Struct("3i")
#: The identity of a file, which another that takes its place has not: its device and inode.
Identity = tuple[int, int]


class Credentials(NamedTuple):
    """The process at the other end, as the kernel tells; pid 0 if it is in another namespace."""

    pid: int
    uid: int
    gid: int


def credentials(sock: socket.socket) -> Credentials:
    """The process that connected, or listens, at the other end of a connected unix socket."""
    return Credentials(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def make_folder(path: str, mode: int) -> None:
    """Make the folder for a socket at `path`, with exactly this mode; one that is there stays as it is.

    Folders above it that are missing get mode 0755. None of them is wider for a moment, whatever the umask is.
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
            with suppress(FileExistsError):  # another start has just made it
                os.mkdir(name, 0o700, dir_fd=folder)
                os.chmod(name, mode if place == len(missing) else 0o755, dir_fd=folder)
            above_it, folder = folder, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(above_it)
    except OSError as error:
        error.filename = above  # the kernel got its last part only
        raise
    finally:
        os.close(folder)


class UnixListener:
    """A stream socket that listens at a path, from when it is made until `close`.

    Args:
        path: where; its folder must be there (`make_folder`).
        mode: the socket's permissions, whatever the umask is.
        backlog: connections that may wait to be accepted.
        replace_live: take the path also from a process that listens there, which then hears nothing any more.

    Raises:
        OSError: EADDRINUSE if a process listens there, or if what is there is not a socket; ENAMETOOLONG if no socket
            can have the path; else as the kernel says.
    """

    __slots__ = ("_identity", "path", "socket")

    def __init__(self, path: str, *, mode: int = 0o600, backlog: int = 128, replace_live: bool = False) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._identity: Identity | None = None
        try:
            # A socket that is bound and does not listen yet looks dead to others, so they have to wait outside.
            lock = _lock(os.path.dirname(path) or ".")
            try:
                _remove_dead(path, replace_live)
                os.fchmod(self.socket.fileno(), mode & 0o600)  # bind takes it over, less the umask
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
        """Remove the socket, if the one at the path is still this one, and stop listening."""
        # In this order: as long as it is open, no other file can have its inode number.
        if self._identity is not None:
            remove_own(self.path, self._identity)
        self._identity = None
        self.socket.close()


def put_in_place(made: str, path: str) -> Identity | None:
    """Move a socket that listens already to `path`, as `UnixListener` would make it there; returns its identity.

    Both are on one file system. Raises OSError: EADDRINUSE as `UnixListener`; else as the kernel says.
    """
    lock = _lock(os.path.dirname(path) or ".")
    try:
        _remove_dead(path)
        identity = _identity(made)
        os.rename(made, path)
        return identity
    finally:
        if lock >= 0:
            os.close(lock)


def remove_own(path: str, identity: Identity) -> None:
    """Remove a socket, if the one at the path is still this one. Call it while the socket is open."""
    if _identity(path) == identity:
        with suppress(FileNotFoundError):
            os.unlink(path)


def check_free(path: str, *, replace_live: bool = False) -> bool:
    """Whether a dead socket is at a path, to be replaced. Raises OSError (EADDRINUSE) for anything else that is there.

    For those that cannot undo what they do before `put_in_place`, which looks again.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EADDRINUSE, f"{path} is in use: it is not a socket; remove it or choose another path")
    if not replace_live and is_live(path):
        raise OSError(errno.EADDRINUSE, f"{path} is in use: another process listens there; choose another path")
    return True


def _remove_dead(path: str, replace_live: bool = False) -> None:
    """Make room for a socket: take away a dead one. Raises OSError (EADDRINUSE) for anything else."""
    if check_free(path, replace_live=replace_live):
        os.unlink(path)


def is_live(path: str) -> bool:
    """Whether a process has the socket open. One that cannot be asked counts as well: it is another user's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # its queue is full, it is of another kind, or we may not connect
    return True


def _lock(folder: str) -> int:
    """A descriptor that keeps other starts out of this folder until it is closed; -1 if that cannot be had."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return -1
    looks = round(LOCK_S / LOOK_S)  # and not a time: others do not get on either while the machine is halted
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if looks > 0:
                looks -= 1
                sleep(LOOK_S)
                continue
        except OSError:
            pass  # a file system without locks
        return fd


def _identity(path: str) -> Identity | None:
    """The identity of the file at a path, to tell it from another that takes its place; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
