"""System calls for mounts and namespaces that Python does not provide. Functions raise OSError with the path."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from nri import mountinfo
from nri.host.root import open_below

MS_BIND = 4096
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
CLONE_NEWNET = 0x40000000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 4
_OPEN_TREE_CLONE, _MOUNT_ATTR_IDMAP = 1, 0x100000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, with the arguments of the system call. Raises OSError if that fails."""
    arguments = (source.encode(), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), data.encode())
    _check(_libc.mount(*arguments), str(target))


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount_mapped(source: Path, target: Path, user_namespace: Path) -> None:
    """Bind-mount a folder, with the owners of its files mapped by a user namespace.

    Raises OSError if that fails; its number is EINVAL if the file system does not support such mounts. This uses
    mount_setattr(2) with MOUNT_ATTR_IDMAP, since Linux 5.12.
    """
    namespace = os.open(user_namespace, os.O_RDONLY | os.O_CLOEXEC)
    tree = -1
    try:
        flags = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)
        tree = _check(_libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags), str(source))
        attributes = _MountAttributes(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=namespace)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        _check(_libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size), str(target))
        moved = _libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(moved, str(target))
    finally:
        os.close(namespace)
        if tree >= 0:
            os.close(tree)


def unmount(target: Path, *, lazily: bool = False) -> bool:
    """Unmount a file system. Returns False if nothing is mounted at `target`. `lazily` also detaches a mount in use."""
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if lazily else 0)
    try:
        _check(_libc.umount2(os.fsencode(target), flags), str(target))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):  # nothing is mounted there
            return False
        raise
    return True


def sync_filesystem(path: Path) -> None:
    """Write all files of the file system with this path to the disk. Raises OSError if that fails."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.syncfs(descriptor), str(path))
    finally:
        os.close(descriptor)


def detach_below(folder: Path) -> None:
    """Unmount all mounts below a folder, including mounts in use. Raises OSError if that fails.

    All mounts become private first. Otherwise the unmount of a shared bind mount would propagate to its source, and
    also unmount file systems that the machine has mounted below the source.
    """
    top = f"{os.path.realpath(folder)}/"
    with open(mountinfo.OWN_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as table:
        paths = [mount.path for mount in mountinfo.parse(table) if mount.path.startswith(top)]
    for path in paths:
        _make_private(top, path[len(top) :])
    for path in reversed(paths):  # the last of several at one path is on top
        unmount(Path(path), lazily=True)


def _make_private(top: str, path: str) -> None:
    """Make a mount below a folder private, with the mounts below it. No effect if the mount no longer exists."""
    try:
        descriptor = open_below(top, path, os.O_PATH, follow=False)
    except FileNotFoundError:
        return
    try:
        mount("", Path(f"/proc/self/fd/{descriptor}"), flags=_MS_REC | _MS_PRIVATE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # no longer a mount
            raise
    finally:
        os.close(descriptor)


def is_mount_point(path: Path) -> bool:
    """Return whether a file system is mounted at exactly this path. A file that is bound onto itself counts, too."""
    resolved = os.path.join(os.path.realpath(path.parent), path.name)
    with open(mountinfo.OWN_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as table:
        return any(mount.path == resolved for mount in mountinfo.parse(table))


def is_namespace(path: Path | str) -> bool:
    """Return whether a file is a pinned namespace. After a reboot or an unmount it is only a plain file."""
    try:
        return os.stat(path).st_dev == os.stat("/proc/self/ns/net").st_dev
    except OSError:
        return False


def unshare(flags: int) -> None:
    """Move the calling thread into new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Move the calling thread into an open namespace."""
    _check(_libc.setns(descriptor, flags), "setns")


def enter(pid: int, name: str, flags: int) -> None:
    """Move the calling thread into the namespace of a process. `name` is the namespace's name in /proc/PID/ns."""
    descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(descriptor, flags)
    finally:
        os.close(descriptor)
