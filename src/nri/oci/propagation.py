"""The spread of mounts and unmounts: what this host's mount table says of a path.

A bind mount that is to pass mounts on (`rshared`) or to take them in (`rslave`) can do so only if its source is on
a mount that does. `MountTable` answers that; it is read from ``/proc/self/mountinfo``, or from any text of that form.
Next: `nri.oci.mounts`, which asks it.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from nri import mountinfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MountPoint", "MountTable"]


class MountPoint(NamedTuple):
    """One mount of the host. `optional` has its tags, such as ``shared:12``; those of private mounts are empty."""

    path: str
    optional: str = ""

    @property
    def propagation(self) -> str:
        """`rshared`, `rslave`, or "" for a private one. Of a mount that is both, the first tag counts."""
        for tag in self.optional.split(" "):
            if tag.startswith("shared:"):
                return "rshared"
            if tag.startswith("master:"):
                return "rslave"
        return ""


class MountTable:
    """The mounts of a host, asked by path."""

    def __init__(self, mounts: Iterable[MountPoint]) -> None:
        self.mounts = list(mounts)

    @classmethod
    def of_host(cls, path: str = mountinfo.OWN) -> MountTable:
        """Read the mounts of this process's mount namespace, now. OSError if there is no such file."""
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return cls.parse(file.read())

    @classmethod
    def parse(cls, text: str) -> MountTable:
        """Read a text in the form of mountinfo (proc(5)); lines of another form are passed over."""
        return cls(MountPoint(mount.path, " ".join(mount.tags)) for mount in mountinfo.parse(text.splitlines()))

    def propagation(self, path: str, *, by_prefix: bool = False) -> str | None:
        """The propagation of the mount that a path is on: `rshared`, `rslave`, "" for none, None for no mount.

        By prefix, as the reference has it, /dat counts as above /data. Of mounts on one point the last one is seen
        there; the reference takes the first.
        """
        clean = clean_path(path)
        best: MountPoint | None = None
        for mount in self.mounts:
            above = clean.startswith(mount.path) if by_prefix else _holds(mount.path, clean)
            if not above or not mount.path:
                continue
            if best is None or len(mount.path) > len(best.path) or (not by_prefix and mount.path == best.path):
                best = mount
        return None if best is None else best.propagation


def _holds(mount: str, path: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def clean_path(path: str) -> str:
    """The shortest path that means the same, as Go's filepath.Clean has it: "." for none, one leading slash."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean
