"""The files of the machine below a root path: read, written, listed, made and removed, and never outside of it.

Rules: a path is taken as a process would take it whose root directory this is, so neither a symlink nor `..` leads
out, and an absolute symlink stays inside; an error is an OSError with the path, but where a method says otherwise.
No pipe and no device is opened in the place of a file: that would wait, or do something.
A test gives a tree of its own; an agent in a container gives the place where the machine's root is mounted.
Next: :mod:`nri.host.cgroups`, most of what is written.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections import deque
from typing import Protocol

__all__ = ["MACHINE", "Files", "Identity", "Root", "open_below"]

#: Device and inode of a file: a cgroup that was removed and made again has another one.
Identity = tuple[int, int]

_OPENAT2, _RESOLVE_IN_ROOT, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 437, 0x10, 0x02, 0x04
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40
#: The kernel has no openat2; a container's seccomp profile does not know it; a folder was moved under a `..`.
_INSTEAD = frozenset({errno.ENOSYS, errno.EPERM, errno.EAGAIN})
_CHUNK = 1 << 16
#: No file of a kernel that is read here is longer: a cgroup's four million processes.
_MOST = 64 << 20

libc = ctypes.CDLL(None, use_errno=True)


class Files(Protocol):
    """The part of :class:`Root` that reading and writing of knobs needs: what a simulated kernel gives in a test."""

    def read(self, path: str) -> str:
        """The text of a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a text in one call."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        ...

    def identity(self, path: str) -> Identity | None:
        """Device and inode; None if nothing is there."""
        ...

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, sorted; none if there is no such folder."""
        ...


class Root:
    """A machine's file system below `path`; `/` is this machine's own."""

    def __init__(self, path: str | os.PathLike[str] = "/") -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

    @property
    def is_own(self) -> bool:
        """Whether this is the root that this process itself has."""
        return os.path.normpath(self.path) == "/"

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of a folder or a regular file, with `os.O_PATH` of anything; the caller closes it.

        It never makes a file. Below this process's own root the files that are read are a kernel's, thousands in a
        second, and are opened as they are.
        """
        if self.path == "/" or flags & (os.O_PATH | os.O_DIRECTORY):
            return open_below(self.path, path, flags)
        found = open_below(self.path, path, os.O_PATH)
        try:
            mode = os.fstat(found).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise OSError(errno.EOPNOTSUPP, "not a regular file")
            return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)  # this very file
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(found)

    def read(self, path: str) -> str:
        """The text of a file; bytes that are no UTF-8 come back when it is written. EFBIG for more than 64 MiB."""
        descriptor = self.open(path)
        try:
            chunks, size = [], 0
            while chunk := os.read(descriptor, _CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > _MOST:
                    raise OSError(errno.EFBIG, f"longer than {_MOST} bytes")
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode("utf-8", "surrogateescape")

    def find(self, path: str) -> str | None:
        """The text of a file; None if it is not there or cannot be read."""
        try:
            return self.read(path)
        except OSError:
            return None

    def link(self, path: str) -> str | None:
        """The target of a symbolic link, which is not followed; None if it is not there, or none."""
        try:
            parent, name = self._parent(path)
        except OSError:
            return None
        try:
            return os.readlink(name, dir_fd=parent)
        except OSError:
            return None
        finally:
            os.close(parent)

    def write(self, path: str, text: str) -> None:
        """Write a text into a file that is there, in one call, as files of the kernel want it."""
        descriptor = self.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        return self.identity(path) is not None

    def identity(self, path: str) -> Identity | None:
        """Device and inode; None if nothing is there."""
        try:
            descriptor = self.open(path, os.O_PATH)
        except OSError:
            return None
        try:
            found = os.fstat(descriptor)
            return found.st_dev, found.st_ino
        finally:
            os.close(descriptor)

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return []
        try:
            return sorted(os.listdir(descriptor))
        except OSError:  # a process or a cgroup that ended meanwhile
            return []
        finally:
            os.close(descriptor)

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, sorted; links to folders are not among them."""
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return []
        try:
            with os.scandir(descriptor) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def make_folder(self, path: str) -> None:
        """Make one folder, whose parent is there. A cgroup or a resctrl group is made like this."""
        parent, name = self._parent(path)
        try:
            os.mkdir(name, dir_fd=parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(parent)

    def remove_folder(self, path: str) -> None:
        """Remove one folder. The files that the kernel shows in a cgroup or a resctrl group go with it."""
        parent, name = self._parent(path)
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(parent)

    def _parent(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "not the path of a folder below the root", path)
        return self.open(folder or "/", _FOLDER), name


#: This machine's own files.
MACHINE = Root()


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_below(root: str | os.PathLike[str], path: str, flags: int = os.O_RDONLY, *, follow: bool = True) -> int:
    """Open a path as a process would whose root is `root`: symlinks and ``..`` cannot lead out of it.

    With `follow` false a symlink anywhere in the path is an error (ELOOP). Raises OSError.
    Source: openat2(2) with RESOLVE_IN_ROOT, Linux 5.6; where the call is not available, each folder of the path is
    opened in turn, with the same result.
    """
    top = os.open(root, _FOLDER)
    try:
        resolve = _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | (0 if follow else _RESOLVE_NO_SYMLINKS)
        how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
        descriptor: int = libc.syscall(
            _OPENAT2, top, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in _INSTEAD:
            raise OSError(number, os.strerror(number), path)
        return _walk(top, path, flags, 0 if not follow else _MAX_LINKS)
    finally:
        os.close(top)


def _walk(top: int, path: str, flags: int, max_links: int) -> int:
    """Open a path below a folder, one name after the other, each opened without following a link."""
    folders = [os.dup(top)]
    names, links = deque(path.split("/")), 0
    try:
        while names:
            name = names.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                _leave(folders, 1)
                continue
            target = _link(name, folders[-1])
            if target is not None:
                links += 1
                if links > max_links:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    _leave(folders, len(folders))
                names.extendleft(reversed(target.split("/")))
            elif any(rest not in ("", ".") for rest in names):
                folders.append(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folders[-1]))
            else:
                return _open_last(name, flags, folders[-1])
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=folders[-1])
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        for folder in folders:
            os.close(folder)


def _open_last(name: str, flags: int, folder: int) -> int:
    """Open a name of a folder that was not a link a moment ago; ELOOP if it is one now."""
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if flags & os.O_PATH and stat.S_ISLNK(os.fstat(descriptor).st_mode):  # O_PATH opens the link itself
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return descriptor


def _leave(folders: list[int], count: int) -> None:
    """Go up by folders, never above the first."""
    for _ in range(min(count, len(folders) - 1)):
        os.close(folders.pop())


def _link(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:  # no link, or not there, which opening it will say
        return None
