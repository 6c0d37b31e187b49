"""Sleep until files may have changed: the kernel's inotify on their folders, and looks in a row after that.

    changes = FileChanges("/etc/nri/policy.toml")
    while changes.wait():                    # nothing runs as long as nothing changes
        ...                                  # one look: `nri.config.watch`

An event says only that it is worth looking. It comes with the first byte of a change, so the looks follow it, `look_s`
apart: a file that is written at this moment, or away for a moment, is not taken for what it will be. Everything on the
way to a file counts as well: the links of a ConfigMap, which are swapped, and the folder in which it will appear. Some
file systems tell of no change that another machine makes, so there is a look once a minute all the same; and where the
kernel has no inotify left, one each `look_s`. Next: `nri.config.watch`, which says whether a file is another.
"""

from __future__ import annotations

import errno
import os
import select
import threading
from typing import Any

__all__ = ["FileChanges", "folders_on_the_way"]

#: A look without an event comes after so many seconds.
SELDOM_S = 60.0
#: So many looks follow an event: a file that is away is believed to be away at the second one.
LOOKS = 3

_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE, _SELF = 0x2, 0x4, 0xC0, 0x100, 0x200, 0xC00
_ONLY_FOLDERS = 0x1000000
_MASK = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _SELF
_MOST_LINKS = 40


class FileChanges:
    """Tells when it is time to look at some files. `wait` is for one thread, `wake` and `end` for any.

    Args:
        paths: the files, which need not be there.
        look_s: the time between two looks, in seconds.
    """

    def __init__(self, *paths: str | os.PathLike[str], look_s: float = 1.0) -> None:
        self._paths = [os.path.abspath(path) for path in paths]
        self._look_s = look_s
        self._looks = 0
        self._over = threading.Event()
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._inotify = _inotify() if paths else -1
        self._watch()

    def wait(self) -> bool:
        """Sleep until it is time to look; False once it is over."""
        if not self._looks and (self._inotify >= 0 or not self._paths):
            if not _readable(SELDOM_S, self._woken, self._inotify):
                self._watch()  # nothing tells of a folder that was moved with the one above it
                return True
            self._looks = LOOKS
            _drain(self._woken)
            if _drain(self._inotify):
                self._watch()
        self._looks = max(0, self._looks - 1)
        return not self._over.wait(self._look_s)

    def wake(self) -> None:
        """Have `wait` return some times in a row, as after an event."""
        try:
            os.write(self._wake, b"\0")
        except OSError:
            pass  # full, which wakes as well; or closed

    def end(self) -> None:
        """Have `wait` return at once, from now on."""
        self._over.set()
        self.wake()

    def close(self) -> None:
        """Give back what the kernel holds. Only when no thread waits."""
        for fd in (self._woken, self._wake, self._inotify):
            if fd >= 0:
                os.close(fd)
        self._woken = self._wake = self._inotify = -1

    def _watch(self) -> None:
        """Watch all folders on the way to the files, and these; those watched already stay so."""
        if self._inotify < 0:
            return
        for path in self._paths:
            # A file that is mounted by itself, or has several names, is written without a word to its folder.
            for watched in (*folders_on_the_way(path), path):
                if not _add(self._inotify, watched, _MASK if watched == path else _MASK | _ONLY_FOLDERS):
                    os.close(self._inotify)
                    self._inotify = -1
                    return


def folders_on_the_way(path: str) -> set[str]:
    """The folders in which a change can mean that another file is at a path: its own, and those of its links.

    Where a folder is missing, the one in which it would appear is the last.
    """
    folders: set[str] = set()
    for _ in range(_MOST_LINKS):
        folder, parts = "/", os.path.abspath(path).split("/")[1:]
        for place, part in enumerate(parts):
            entry = os.path.join(folder, part)
            try:
                target = os.readlink(entry)
            except OSError:
                if place + 1 < len(parts) and os.path.isdir(entry):
                    folder = entry
                    continue
                return folders | {folder}
            folders.add(folder)
            path = os.path.join(folder, target, *parts[place + 1 :])
            break
    return folders


def _readable(seconds: float, *descriptors: int) -> bool:
    poll = select.poll()
    for fd in descriptors:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))


def _drain(fd: int) -> bool:
    """Read what is there; whether that was anything."""
    has_data = False
    try:
        while fd >= 0 and os.read(fd, 65536):
            has_data = True
    except BlockingIOError:
        pass
    return has_data


def _inotify() -> int:
    """A new inotify descriptor; -1 where the kernel gives none."""
    return int(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def _add(inotify: int, path: str, mask: int) -> bool:
    """Watch a folder or file; True also if there is none any more, which the folder above tells of."""
    import ctypes

    descriptor = _libc().inotify_add_watch(inotify, os.fsencode(path), mask)
    return bool(descriptor >= 0 or ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


def _libc() -> Any:
    """The C library; ctypes is loaded only where a file is watched."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
