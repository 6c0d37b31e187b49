"""Files that change: a fingerprint that differs when a file's content does, and a watch over several files.

A fingerprint is made of one `stat`, which follows symbolic links. A changed mode or owner is not a change.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: Equal for as long as the content is the same; None for a file that is not there.
    Fingerprint = tuple[int, ...] | None

__all__ = ["Watch", "fingerprint", "fingerprint_of"]


def fingerprint(path: str | os.PathLike[str]) -> Fingerprint:
    """Look at a file and return its fingerprint, or None without a file.

    A file that cannot be examined exists: its fingerprint is the error, and reading it reports the reason.
    """
    try:
        return fingerprint_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return (error.errno or -1,)


def fingerprint_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the fingerprint of a file whose status is known: device, inode, size, and time of its last change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Watch:
    """Tell whether files have changed since the last time it was asked, by one `stat` each.

    Poll `changed()` every second or two. A ConfigMap is a symbolic link that is swapped; `stat` follows it, so that
    counts as a change, as do a file that appears and one that goes away.
    """

    __slots__ = ("_paths", "_seen")

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._seen = [fingerprint(path) for path in self._paths]

    def changed(self) -> bool:
        """Whether any file differs from what was seen by the last call (or at construction)."""
        now = [fingerprint(path) for path in self._paths]
        differs = now != self._seen
        self._seen = now
        return differs
