"""Sleep until files may have changed, by the kernel's inotify on their folders, with several checks after each event.

changes = FileChanges("/etc/nri/policy.toml")
while changes.wait():                    # sleeps as long as nothing changes
        ...                                  # check the files: `nri.config.watch`
"""

from __future__ import annotations

import errno
import os
import select
import threading
from typing import Any

#: Interval of checks without an event: some file systems do not report changes that another machine makes.
IDLE_CHECK_INTERVAL_S = 60.0
#: Number of checks after an event, `interval_s` apart. The event comes with the first byte of a change, and a file
#: that is being replaced is missing for a moment.
CHECKS_PER_EVENT = 3

_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE, _SELF = 0x2, 0x4, 0xC0, 0x100, 0x200, 0xC00
_ONLY_FOLDERS = 0x1000000
_MASK = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _SELF
_MAX_LINKS = 40


class FileChanges:
    """Wait until files may have changed. `wait` is for one thread, `wake` and `end` for any thread.

    Without a free inotify descriptor, `wait` returns every `interval_s` seconds.

    Args:
        paths: the files, which need not exist.
        interval_s: the interval of checks, in seconds.
    """

    def __init__(self, *paths: str | os.PathLike[str], interval_s: float = 1.0) -> None:
        self._paths = [os.path.abspath(path) for path in paths]
        self._interval_s = interval_s
        self._checks_due = 0
        self._stopped = threading.Event()
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._inotify = _inotify() if paths else -1
        self._watch()

    def wait(self) -> bool:
        """Sleep until it is time to check the files. Returns False after `end`."""
        if not self._checks_due and (self._inotify >= 0 or not self._paths):
            if not _readable(IDLE_CHECK_INTERVAL_S, self._woken, self._inotify):
                self._watch()  # there is no event for a folder that was moved together with its parent
                return True
            self._checks_due = CHECKS_PER_EVENT
            _drain(self._woken)
            if _drain(self._inotify):
                self._watch()
        self._checks_due = max(0, self._checks_due - 1)
        return not self._stopped.wait(self._interval_s)

    def wake(self) -> None:
        """Make `wait` return several times, as after an event."""
        try:
            os.write(self._wake, b"\0")
        except OSError:
            pass  # full, which wakes as well; or closed

    def end(self) -> None:
        """Make `wait` return False at once."""
        self._stopped.set()
        self.wake()

    def close(self) -> None:
        """Close the descriptors. No thread may be waiting."""
        for fd in (self._woken, self._wake, self._inotify):
            if fd >= 0:
                os.close(fd)
        self._woken = self._wake = self._inotify = -1

    def _watch(self) -> None:
        """Watch the files, and all folders on the way to them. Watching a folder again has no effect."""
        if self._inotify < 0:
            return
        for path in self._paths:
            # A file that is a mount, or has several names, may change without an event for its folder.
            for watched in (*folders_on_the_way(path), path):
                if not _add(self._inotify, watched, _MASK if watched == path else _MASK | _ONLY_FOLDERS):
                    os.close(self._inotify)
                    self._inotify = -1
                    return


def folders_on_the_way(path: str) -> set[str]:
    """Return the folders in which a change can put another file at a path: its folder, and the folders of its links.

    If a folder is missing, the last folder is the existing parent in which it would appear.
    """
    folders: set[str] = set()
    for _ in range(_MAX_LINKS):
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
    """Read all waiting data. Returns whether there was any data."""
    has_data = False
    try:
        while fd >= 0 and os.read(fd, 65536):
            has_data = True
    except BlockingIOError:
        pass
    return has_data


def _inotify() -> int:
    """Open an inotify descriptor. Returns -1 if the kernel refuses."""
    return int(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def _add(inotify: int, path: str, mask: int) -> bool:
    """Watch a folder or file. Returns True even if it no longer exists: the parent folder has an event for that."""
    import ctypes

    descriptor = _libc().inotify_add_watch(inotify, os.fsencode(path), mask)
    return bool(descriptor >= 0 or ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


def _libc() -> Any:
    """Load the C library, and ctypes only when a file is watched."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
