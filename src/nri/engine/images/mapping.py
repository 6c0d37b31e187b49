"""The ID mapping of a pod's user namespace, applied to root file systems.

Images are not changed. IDs that are not mapped stay, and have no owner inside the namespace.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.errors import EngineError
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
        own_folders: the engine's outermost folders, see `allow_traversal`.
    """

    namespace: Path
    uid: int
    gid: int
    uids: int
    gids: int
    own_folders: Sequence[Path] = ()

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

    def owner(self, uid: int, gid: int) -> tuple[int, int]:
        """The node's IDs of a user and a group; IDs that are not mapped stay."""
        return self.uid + uid if uid < self.uids else uid, self.gid + gid if gid < self.gids else gid

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
        os.chown(name, *self.owner(status.st_uid, status.st_gid), dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):  # chown has removed the set-user-id bit
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder)


def allow_traversal(folder: Path, gid: int, own_folders: Sequence[Path]) -> None:
    """Let a user namespace's root reach a folder, by its group; nobody else can enter the folder.

    The parent folders can be traversed then, but not listed; their contents are protected by their own modes.

    Raises:
        EngineError: a parent above the engine's `own_folders` does not allow traversal; nothing is changed then.
    """
    own_real_folders = [path.resolve() for path in own_folders]
    closed = [parent for parent in folder.resolve().parents if not parent.stat().st_mode & stat.S_IXOTH]
    for parent in closed:
        if not any(parent.is_relative_to(path) for path in own_real_folders):
            raise EngineError(
                f"a pod with a user namespace cannot reach {folder}: other users may not enter {parent}, which is not "
                f"the engine's folder. Allow that by 'chmod o+x {parent}', or set root and state to other folders"
            )
    os.chown(folder, -1, gid)
    folder.chmod(0o710)
    for parent in closed:
        parent.chmod(stat.S_IMODE(parent.stat().st_mode) | stat.S_IXOTH)
