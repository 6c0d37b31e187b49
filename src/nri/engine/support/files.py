"""Files that are there whole or not at all, and folders that only we can read.

Rules: what was written is on the disk when a call returns (fsync of the file and of its folder), unless the caller
needs it for no longer than the machine is up; folders are made 0700.
Next: :mod:`nri.engine.support.locks`.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

__all__ = ["TEMPORARY", "private_folder", "remove_tree", "rename_into", "sync_folder", "write_whole"]

#: How the name of a file that is being written begins; what is found at start is left over from a kill.
TEMPORARY = ".writing-"
_ATTEMPTS, _PAUSE_S = 20, 0.02


def private_folder(path: Path) -> Path:
    """Make a folder that only this user can enter, with its parents; one that is there is made private."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_mode & 0o777 != 0o700:
        path.chmod(0o700)
    return path


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
    """Write a file so that a reader, also one after a crash, sees the old content or the new, never a part.

    Without `sync` that holds for a crash of this process, not for one of the machine; it costs no wait for the disk.
    """
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk: give back what the attempt took
        raise
    if sync:
        sync_folder(path.parent)


def rename_into(source: Path, target: Path) -> None:
    """Move a finished file or folder to its place, for good."""
    source.rename(target)
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """Have the folder's entries on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it; one that is not there is no error.

    Python's own removal goes by descriptors and follows no symlink, so a container's files cannot lead it elsewhere.
    """
    for attempt in range(_ATTEMPTS):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not path.exists():
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)  # a program that was killed wrote its last file just now
        else:
            return
    raise OSError(errno.ENOTEMPTY, "it is still written to", str(path))
