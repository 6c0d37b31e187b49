"""The host's mounts and their propagation, read from mountinfo.

A bind mount can only propagate mounts to the host (`rshared`) or receive mounts from it (`rslave`) if the source's
mount does the same.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from nri import mountinfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class MountPoint(NamedTuple):
    """A mount of the host. `optional` has its tags, for example ``shared:12``. Private mounts have no tags."""

    path: str
    optional: str = ""

    @property
    def propagation(self) -> str:
        """`rshared`, `rslave`, or "" for a private mount. The first tag of a mount is used."""
        for tag in self.optional.split(" "):
            if tag.startswith("shared:"):
                return "rshared"
            if tag.startswith("master:"):
                return "rslave"
        return ""


class MountTable:
    """The mounts of a host, for queries by path."""

    def __init__(self, mounts: Iterable[MountPoint]) -> None:
        self.mounts = list(mounts)

    @classmethod
    def of_host(cls, path: str = mountinfo.OWN_MOUNT_TABLE) -> MountTable:
        """Read the mounts of this process's mount namespace. Raises OSError if the file does not exist."""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return cls.parse(file.read())

    @classmethod
    def parse(cls, text: str) -> MountTable:
        """Parse a text in the format of mountinfo (proc(5)). Other lines are skipped."""
        return cls(MountPoint(mount.path, " ".join(mount.tags)) for mount in mountinfo.parse(text.splitlines()))

    def propagation(self, path: str, *, by_prefix: bool = False) -> str | None:
        """The propagation of a path's mount: `rshared`, `rslave`, "" for private, or None without a mount.

        Of several mounts at one path, the last mount is used, because it hides the others; in the Go library the first
        counts. With `by_prefix`, as in the Go library, /dat counts as a parent of /data.
        """
        clean = clean_path(path)
        best: MountPoint | None = None
        for mount in self.mounts:
            is_parent = clean.startswith(mount.path) if by_prefix else _is_at_or_below(mount.path, clean)
            if not is_parent or not mount.path:
                continue
            if best is None or len(mount.path) > len(best.path) or (not by_prefix and mount.path == best.path):
                best = mount
        return None if best is None else best.propagation


def _is_at_or_below(mount: str, path: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def clean_path(path: str) -> str:
    """The shortest equivalent path, like Go's filepath.Clean: "." for an empty path, one leading slash."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean
