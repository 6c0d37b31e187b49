"""Apply the ID mapping of a pod's user namespace to root file systems.

Images are not changed. A file whose owner has no mapping keeps its owner, who is unknown inside the namespace.
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
from nri.files import WalkEntry, walk

#: The errors of a file system or kernel that does not support ID-mapped mounts.
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


class IdMapping(NamedTuple):
    """The mapping of a user namespace's IDs to IDs of the node.

    Attributes:
        namespace: the path of the pinned namespace.
        uid, gid: the IDs of the node to which user 0 and group 0 are mapped.
        uid_count, gid_count: the number of mapped IDs.
        engine_folders: the engine's outermost folders; see `allow_traversal`.
    """

    namespace: Path
    uid: int
    gid: int
    uid_count: int
    gid_count: int
    engine_folders: Sequence[Path] = ()

    def mount(self, source: Path, target: Path) -> Path | None:
        """Mount `source` with mapped owners at `target`.

        Returns `target`, or None if the file system does not support ID-mapped mounts. Raises OSError if the mount
        fails for another reason.
        """
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
        """Return the node's IDs of a user and a group. An ID without a mapping is returned unchanged."""
        return self.uid + uid if uid < self.uid_count else uid, self.gid + gid if gid < self.gid_count else gid

    def chown_tree(self, tree: Path) -> None:
        """Change the owners of a folder and of all files in it to the mapped IDs. Raises OSError if that fails."""
        folder = os.open(tree.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._chown(WalkEntry(folder, tree.name, tree.lstat()))
        finally:
            os.close(folder)
        for entry in walk(tree):
            self._chown(entry)

    def _chown(self, entry: WalkEntry) -> None:
        folder, name, status = entry
        os.chown(name, *self.owner(status.st_uid, status.st_gid), dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):  # chown has removed the set-user-id bit
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder)


def allow_traversal(folder: Path, gid: int, engine_folders: Sequence[Path]) -> None:
    """Let the root user of a user namespace reach a folder. The folder's group becomes `gid`; others cannot enter it.

    The parent folders get the mode bit that lets every user traverse them, but not list them. The files in the parent
    folders are still protected by their own modes.

    Raises:
        EngineError: a parent above the engine's `engine_folders` does not allow traversal. Then nothing is changed.
    """
    resolved_folders = [path.resolve() for path in engine_folders]
    closed = [parent for parent in folder.resolve().parents if not parent.stat().st_mode & stat.S_IXOTH]
    for parent in closed:
        if not any(parent.is_relative_to(path) for path in resolved_folders):
            raise EngineError(
                f"a pod with a user namespace cannot reach {folder}: other users cannot enter {parent}, which is not "
                f"the engine's folder. Run 'chmod o+x {parent}', or set root and state to other folders"
            )
    os.chown(folder, -1, gid)
    folder.chmod(0o710)
    for parent in closed:
        parent.chmod(stat.S_IMODE(parent.stat().st_mode) | stat.S_IXOTH)
