"""Detect changes of files: a fingerprint that changes with a file's content, and a watch of several files.

A fingerprint is made of one `stat`, which follows symbolic links. A changed mode or owner is not a change.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: Equal as long as the content is the same; None for a missing file.
    Fingerprint = tuple[int, ...] | None


def fingerprint(path: str | os.PathLike[str]) -> Fingerprint:
    """Return the fingerprint of a file, or None if the file does not exist.

    If the file's status cannot be read, the fingerprint is the error, and reading the file reports the reason.
    """
    try:
        return fingerprint_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return (error.errno or -1,)


def fingerprint_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the fingerprint for a file status: device, inode, size, and time of the last change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Watch:
    """Detect changes of files since the last call, by one `stat` of each file.

    Call `changed()` every second or two. `stat` follows symbolic links, so that a replaced ConfigMap counts as a
    change. Creating or removing a file is a change, too.
    """

    __slots__ = ("_fingerprints", "_paths")

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._fingerprints = [fingerprint(path) for path in self._paths]

    def changed(self) -> bool:
        """Whether any file has changed since the last call, or since the construction."""
        now = [fingerprint(path) for path in self._paths]
        differs = now != self._fingerprints
        self._fingerprints = now
        return differs
