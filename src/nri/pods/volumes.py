"""The volumes of a pod: emptyDir folders, and files and folders of the machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nri.errors import NriError
from nri.text import plain

EMPTY_DIR, HOST_PATH = "emptyDir", "hostPath"
#: For each type of a hostPath, the required kind of file and a test of its mode.
HOST_TYPES: dict[str, tuple[str, Callable[[int], bool] | None]] = {
    "": ("", None),
    "DirectoryOrCreate": ("folder", stat.S_ISDIR),
    "Directory": ("folder", stat.S_ISDIR),
    "FileOrCreate": ("file", stat.S_ISREG),
    "File": ("file", stat.S_ISREG),
    "Socket": ("socket", stat.S_ISSOCK),
    "CharDevice": ("character device", stat.S_ISCHR),
    "BlockDevice": ("block device", stat.S_ISBLK),
}


@dataclass(slots=True)
class Volume:
    """A volume that a container mounts.

    Attributes:
        path: its path on this machine.
        kind: `EMPTY_DIR`, or a type in `HOST_TYPES`.
        place: file and line, for errors.
        group: the id of its group, or -1 for the default group.
    """

    path: str
    kind: str
    place: str
    group: int = -1


def prepare(volume: Volume) -> None:
    """Create an emptyDir, or check that a hostPath exists. Raises NriError, with file and line, if that fails."""
    path = Path(volume.path)
    kind, is_of_kind = HOST_TYPES.get(volume.kind, ("", None))
    try:
        if volume.kind == EMPTY_DIR:
            _create_empty_dir(path, volume.group)
        elif volume.kind == "DirectoryOrCreate":
            path.mkdir(0o755, parents=True, exist_ok=True)
        elif volume.kind == "FileOrCreate":
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644))
        is_usable = is_of_kind is None or (path.exists() and is_of_kind(path.stat().st_mode))
    except OSError as error:
        where = EMPTY_DIR if volume.kind == EMPTY_DIR else f"{HOST_PATH}.path"
        raise NriError(f"{volume.place}: volumes.{where}: {plain(str(path))}: {error.strerror or error}") from None
    if not is_usable:
        raise NriError(f"{volume.place}: volumes.hostPath.path: {plain(str(path))} does not exist, or is not a {kind}")


def _create_empty_dir(path: Path, group: int) -> None:
    """Create a folder that every user of the pod may write to, as in the kubelet. The pod's folder is private."""
    path.parent.mkdir(0o700, exist_ok=True)
    path.mkdir(0o700)
    if group >= 0:
        os.chown(path, -1, group)
    path.chmod(0o777 if group < 0 else 0o2777)
