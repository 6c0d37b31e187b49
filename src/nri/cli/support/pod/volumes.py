"""The volumes of a pod on this machine: folders of its own, and what of the machine is mounted.

Rules: what is to be there is looked at before it is mounted; a folder is made only where the manifest says so. Next:
`nri.cli.support.pod.lifecycle`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nri.cli.errors import Failure

__all__ = ["EMPTY_DIR", "HOST_PATH", "HOST_TYPES", "Volume", "prepare"]

EMPTY_DIR, HOST_PATH = "emptyDir", "hostPath"
#: The types of a hostPath: what a path must be, in words and for the kernel.
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
        path: on this machine.
        kind: `EMPTY_DIR`, or one of `HOST_TYPES`.
        place: file and line, for errors.
        group: it belongs to; -1 for none of its own.
        below: the folders in it that are mounted by themselves.
    """

    path: str
    kind: str
    place: str
    group: int = -1
    below: set[str] = field(default_factory=set)


def prepare(volume: Volume) -> None:
    """Make a volume that is to be made, and look at one that is to be there. Raises Failure, OSError."""
    path = Path(volume.path)
    if volume.kind == EMPTY_DIR:
        _make(path, volume.group)
    else:
        if volume.kind == "DirectoryOrCreate":
            path.mkdir(0o755, parents=True, exist_ok=True)
        elif volume.kind == "FileOrCreate":
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644))
        what, holds = HOST_TYPES[volume.kind]
        if holds is not None and not (path.exists() and holds(path.stat().st_mode)):
            raise Failure(f"{volume.place}: volumes.hostPath.path: {path} is not there, or no {what}")
    for name in sorted(volume.below):
        if not (path / name).exists():
            if volume.kind != EMPTY_DIR and not path.is_dir():
                raise Failure(f"{volume.place}: volumeMounts.subPath: {path} is not a folder")
            _make(path / name, volume.group)


def _make(path: Path, group: int) -> None:
    """Make a folder in which every user of the pod may write, as the kubelet does."""
    path.mkdir(0o755, parents=True, exist_ok=True)
    path.chmod(0o777 if group < 0 else 0o2777)
    if group >= 0:
        os.chown(path, -1, group)
