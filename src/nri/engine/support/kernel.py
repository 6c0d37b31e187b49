"""Calls of the kernel that Python has no function for yet: mounts, namespaces, opening a path below a root.

Rules: every error is an OSError with the path; nothing here decides anything.
Next: :mod:`nri.engine.state`.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

__all__ = [
    "CLONE_NEWNET",
    "MS_BIND",
    "is_mount_point",
    "mount",
    "open_below",
    "setns",
    "unmount",
    "unshare",
]

MS_BIND = 4096
CLONE_NEWNET = 0x40000000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_OPENAT2, _RESOLVE_IN_ROOT, _RESOLVE_NO_MAGICLINKS = 437, 0x10, 0x02

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, with the arguments of the call of that name. Raises OSError with the target."""
    arguments = (source.encode(), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), data.encode())
    _check(_libc.mount(*arguments), str(target))


def unmount(target: Path, *, lazily: bool = False) -> bool:
    """Take a mount away; False if there was none. `lazily` detaches also one that is in use."""
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazily else 0)
    try:
        _check(_libc.umount2(os.fsencode(target), flags), str(target))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL):  # no mount is what was wanted
            return False
        raise
    return True


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted at exactly this path, also if it is a file bound onto itself."""
    wanted = os.path.join(os.path.realpath(path.parent), path.name)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return any(_unescape(line.split(" ", 5)[4]) == wanted for line in table)


def _unescape(text: str) -> str:
    """A path of mountinfo: blanks and the like are written as three octal digits."""
    if "\\" not in text:
        return text
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces of its own."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Move the calling thread into a namespace that is open."""
    _check(_libc.setns(descriptor, flags), "setns")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_below(root: Path, path: str, flags: int = os.O_RDONLY) -> int:
    """Open a path as a process would whose root is `root`: symlinks and ``..`` cannot lead out of it.

    Raises OSError. Source: openat2(2) with RESOLVE_IN_ROOT, Linux 5.6.
    """
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        found = _libc.syscall(_OPENAT2, top, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
        return _check(found, path)
    finally:
        os.close(top)
