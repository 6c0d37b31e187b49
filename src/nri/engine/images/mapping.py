"""The ID mapping of a pod's user namespace, applied to root file systems.

Images are not changed. IDs that are not mapped stay, and have no owner inside the namespace.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.kernel import is_mount_point, mount_mapped
from nri.files import Seen, walk

#: The file system or the kernel does not support mapped mounts.
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


class Mapping(NamedTuple):
    """The IDs of the node to which a user namespace maps its IDs.

    Attributes:
        namespace: the path of the pinned namespace.
        uid, gid: the node's IDs of id 0.
        uids, gids: the number of mapped IDs.
    """

    namespace: Path
    uid: int
    gid: int
    uids: int
    gids: int

    def mount(self, source: Path, target: Path) -> Path | None:
        """Mount a folder with its owners mapped; None if its file system does not support it. Raises OSError."""
        target.mkdir(exist_ok=True)
        if is_mount_point(target):
            return target
        try:
            mount_mapped(source, target, self.namespace)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return None
            raise
        return target

    def chown_tree(self, tree: Path) -> None:
        """Change the owners of a folder and of everything in it to those that they map to. Raises OSError."""
        folder = os.open(tree.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._chown(Seen(folder, tree.name, tree.lstat()))
        finally:
            os.close(folder)
        for entry in walk(tree):
            self._chown(entry)

    def _chown(self, entry: Seen) -> None:
        folder, name, status = entry
        uid = self.uid + status.st_uid if status.st_uid < self.uids else status.st_uid
        gid = self.gid + status.st_gid if status.st_gid < self.gids else status.st_gid
        os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):  # chown has removed the set-user-id bit
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder)


def allow_traversal(folder: Path, gid: int) -> None:
    """Let a user namespace's root reach a folder, by its group; nobody else can enter the folder.

    The parent folders can be traversed then, but not listed; their contents are protected by their own modes.
    """
    os.chown(folder, -1, gid)
    folder.chmod(0o710)
    for parent in folder.parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)
