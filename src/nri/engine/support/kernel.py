"""Calls of the kernel that Python has no function for yet: mounts and namespaces.

Rules: every error is an OSError with the path; nothing here decides anything.
Next: :mod:`nri.engine.state`.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from nri.host.cgroups.hierarchies import unescape

__all__ = [
    "CLONE_NEWNET",
    "MS_BIND",
    "is_mount_point",
    "mount",
    "setns",
    "unmount",
    "unshare",
]

MS_BIND = 4096
CLONE_NEWNET = 0x40000000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8

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
        return any(unescape(line.split(" ", 5)[4]) == wanted for line in table)


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces of its own."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Move the calling thread into a namespace that is open."""
    _check(_libc.setns(descriptor, flags), "setns")
