"""Access files of the machine below a root path, and never outside of it.

A path is resolved as in a process with this root directory, so neither a symlink nor `..` leads out of it. The root is
a folder in a test, and the mount point of the machine's root in a container.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections import deque
from typing import Protocol

#: Device and inode of a file; a cgroup that was removed and created again has a different identity.
Identity = tuple[int, int]

_OPENAT2, _RESOLVE_IN_ROOT, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 437, 0x10, 0x02, 0x04
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40
#: Errors of openat2: the kernel does not have it, a seccomp profile forbids it, or a folder was moved meanwhile.
_FALLBACK_ERRORS = frozenset({errno.ENOSYS, errno.EPERM, errno.EAGAIN})
_CHUNK = 1 << 16
#: Maximum size of a file. The kernel's longest file is the list of a cgroup's four million processes.
_MAX_BYTES = 64 << 20

libc = ctypes.CDLL(None, use_errno=True)


class Files(Protocol):
    """The methods of :class:`Root` that knobs need. Tests implement them with a simulated kernel."""

    def read(self, path: str) -> str:
        """The content of a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a text in one call."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        ...

    def identity(self, path: str) -> Identity | None:
        """Device and inode of a file, or None if it does not exist."""
        ...

    def folders(self, path: str) -> list[str]:
        """The sorted names of the folders in a folder. Returns an empty list if it does not exist."""
        ...


class Root:
    """A machine's file system below `path`. `/` is this machine's file system."""

    def __init__(self, path: str | os.PathLike[str] = "/") -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

    @property
    def is_own(self) -> bool:
        """Whether this is the root of this process."""
        return os.path.normpath(self.path) == "/"

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """Open a folder or a regular file, or with `os.O_PATH` any file. The caller closes the descriptor.

        This never creates a file. Pipes and devices are refused, because opening them could block or have effects.
        Below this process's own root, files of the kernel are opened without that check, which is faster.
        """
        if self.path == "/" or flags & (os.O_PATH | os.O_DIRECTORY):
            return open_below(self.path, path, flags)
        handle = open_below(self.path, path, os.O_PATH)
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise OSError(errno.EOPNOTSUPP, "not a regular file")
            # Opens the checked file instead of the path again.
            return os.open(f"/proc/self/fd/{handle}", flags | os.O_CLOEXEC)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(handle)

    def read(self, path: str) -> str:
        """Read a file as text. Invalid UTF-8 is kept for writing it back. Raises OSError (EFBIG) above 64 MiB."""
        descriptor = self.open(path)
        try:
            chunks, size = [], 0
            while chunk := os.read(descriptor, _CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > _MAX_BYTES:
                    raise OSError(errno.EFBIG, f"longer than {_MAX_BYTES} bytes")
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode("utf-8", "surrogateescape")

    def find(self, path: str) -> str | None:
        """The content of a file. Returns None if it cannot be read."""
        try:
            return self.read(path)
        except OSError:
            return None

    def link(self, path: str) -> str | None:
        """The target of a symbolic link. Returns None if the path is not a link."""
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
        """Write a text to an existing file with one call, as the kernel's files require."""
        descriptor = self.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists at the path."""
        return self.identity(path) is not None

    def identity(self, path: str) -> Identity | None:
        """Device and inode of a file, or None if it does not exist."""
        try:
            descriptor = self.open(path, os.O_PATH)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            return status.st_dev, status.st_ino
        finally:
            os.close(descriptor)

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder. Returns an empty list if the folder does not exist."""
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return []
        try:
            return sorted(os.listdir(descriptor))
        except OSError:  # the process or the cgroup has ended
            return []
        finally:
            os.close(descriptor)

    def folders(self, path: str) -> list[str]:
        """The sorted names of the folders in a folder, without links."""
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
        """Create a folder in an existing folder. Also creates a cgroup or a resctrl group."""
        parent, name = self._parent(path)
        try:
            os.mkdir(name, dir_fd=parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(parent)

    def remove_folder(self, path: str) -> None:
        """Remove a folder. Also removes a cgroup or a resctrl group with the kernel's files in it."""
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
    """Open a path as a process with root directory `root` would: symlinks and ``..`` cannot lead out of it.

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
        if number not in _FALLBACK_ERRORS:
            raise OSError(number, os.strerror(number), path)
        return _walk(top, path, flags, 0 if not follow else _MAX_LINKS)
    finally:
        os.close(top)


def _walk(top: int, path: str, flags: int, max_links: int) -> int:
    """Open a path below a folder, component by component, without following links implicitly."""
    folders = [os.dup(top)]
    names, links = deque(path.split("/")), 0
    try:
        while names:
            name = names.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                _leave_folders(folders, 1)
                continue
            target = _link(name, folders[-1])
            if target is not None:
                links += 1
                if links > max_links:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    _leave_folders(folders, len(folders))
                names.extendleft(reversed(target.split("/")))
            elif any(remaining not in ("", ".") for remaining in names):
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
    """Open the last component, which was not a link when checked. Raises ELOOP if it has become one."""
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if flags & os.O_PATH and stat.S_ISLNK(os.fstat(descriptor).st_mode):  # O_PATH opens the link itself
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return descriptor


def _leave_folders(folders: list[int], count: int) -> None:
    """Leave `count` folders, but never the first one."""
    for _ in range(min(count, len(folders) - 1)):
        os.close(folders.pop())


def _link(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:  # not a link, or missing: opening it raises then
        return None
