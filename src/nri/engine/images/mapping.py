"""The ids of a pod with a user namespace, as its root file systems need them.

Nothing of the image itself is changed; ids that are not mapped stay, and have no owner inside.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.kernel import is_mount_point, mount_mapped
from nri.files import Seen, walk

#: A file system, or a kernel, that cannot map ids of mounts.
_CANNOT = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


class Mapping(NamedTuple):
    """The place of a user namespace's ids among the node's.

    Attributes:
        namespace: the namespace, pinned.
        uid, gid: the node's id of id 0.
        uids, gids: how many there are.
    """

    namespace: Path
    uid: int
    gid: int
    uids: int
    gids: int

    def mount(self, source: Path, target: Path) -> Path | None:
        """Mount a folder with its owners mapped; None where its file system cannot. Raises OSError."""
        target.mkdir(exist_ok=True)
        if is_mount_point(target):
            return target
        try:
            mount_mapped(source, target, self.namespace)
        except OSError as error:
            if error.errno in _CANNOT:
                return None
            raise
        return target

    def give(self, tree: Path) -> None:
        """Have all of a folder owned by those that its owners are mapped to. Raises OSError."""
        folder = os.open(tree.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._give(Seen(folder, tree.name, tree.lstat()))
        finally:
            os.close(folder)
        for seen in walk(tree):
            self._give(seen)

    def _give(self, seen: Seen) -> None:
        folder, name, found = seen
        uid = self.uid + found.st_uid if found.st_uid < self.uids else found.st_uid
        gid = self.gid + found.st_gid if found.st_gid < self.gids else found.st_gid
        os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):  # a change of owners has taken set-user-id away
            os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=folder)


def open_way(folder: Path, gid: int) -> None:
    """Let a user namespace's root alone, by its group, into a folder to which it has to find its way.

    The folders above can be passed then, and still not be listed: what lies in them is closed by its own mode.
    """
    os.chown(folder, -1, gid)
    folder.chmod(0o710)
    for above in folder.parents:
        mode = stat.S_IMODE(above.stat().st_mode)
        if not mode & stat.S_IXOTH:
            above.chmod(mode | stat.S_IXOTH)
