"""The folders of the host that a container with a share of a GPU mounts, made before the container is created.

That of HAMi's locks is for all containers, and made if it is missing; the one that HAMi's monitor shares with one
container is made empty. Rules: one name below the folder of all containers, never a path that an id leads elsewhere;
what an earlier container of the name has left is moved aside at once and removed by a thread, because a container can
fill it as it likes.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
import threading
import uuid
from typing import Final

from nri.agent.koordinator.gpu import LOCKS
from nri.agent.koordinator.node import Node
from nri.agent.model import Changes
from nri.host import Outcome, Result, Root
from nri.host.outcome import explain

__all__ = ["make_folder"]

_MODE: Final = 0o777
_NAME: Final = "monitor folder"


def make_folder(root: Root, changes: Changes, node: Node) -> list[Result]:
    """Make the folders that changes want mounted; nothing if they want none.

    Args:
        root: the machine.
        changes: what was decided for the container.
        node: with HAMi-core's library, beside which the folder is.
    """
    beside = posixpath.dirname(node.gpu_library)
    wanted = [each.source for each in changes.mounts if each.destination == beside and each.source != beside]
    results = [_made(root, f"{beside}/containers", source) for source in wanted]
    # A mount of a folder that is not there would refuse the container.
    locks = any(each.source == LOCKS for each in changes.mounts) and not root.exists(LOCKS)
    return [*results, _shared(root, LOCKS)] if locks else results


def _shared(root: Root, path: str) -> Result:
    try:
        root.make_folder(path)
        descriptor = root.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, _MODE | stat.S_ISVTX)
        finally:
            os.close(descriptor)
    except OSError as error:
        return Result(path, "folder", "there", *explain(error))
    return Result(path, "folder", "there", Outcome.APPLIED)


def _made(root: Root, folder: str, path: str) -> Result:
    above, _, name = path.rpartition("/")
    if above != folder or name in ("", ".", ".."):
        return Result(path, _NAME, "empty", Outcome.REFUSED, f"it is not a folder of {folder}")
    try:
        with contextlib.suppress(FileExistsError):
            root.make_folder(folder)
        descriptor = root.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _empty(descriptor, name)
        finally:
            os.close(descriptor)
    except OSError as error:
        return Result(path, _NAME, "empty", *explain(error))
    return Result(path, _NAME, "empty", Outcome.APPLIED)


def _empty(folder: int, name: str) -> None:
    try:
        os.mkdir(name, _MODE, dir_fd=folder)
    except FileExistsError:
        aside = f".{uuid.uuid4()}"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        os.mkdir(name, _MODE, dir_fd=folder)
        copy = os.dup(folder)
        threading.Thread(target=_remove, args=(copy, aside), name="nri-agent-remove", daemon=True).start()
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        os.fchmod(made, _MODE)  # whatever the umask is
    finally:
        os.close(made)


def _remove(folder: int, name: str) -> None:
    """Remove a tree below an open folder; symlinks in it are not followed.

    Each folder in it is first moved to the top: a container can nest them deeper than there are descriptors.
    """
    left = [name]
    try:
        while left:
            _take_apart(folder, left.pop(), left)
    finally:
        os.close(folder)


def _take_apart(folder: int, name: str, left: list[str]) -> None:
    """Remove one folder; those in it are moved beside it, and are left. A file that cannot be removed stays."""
    with contextlib.suppress(OSError):
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            aside = f".{uuid.uuid4()}"
                            os.rename(entry.name, aside, src_dir_fd=opened, dst_dir_fd=folder)
                            left.append(aside)
                        else:
                            os.unlink(entry.name, dir_fd=opened)
        finally:
            os.close(opened)
        os.rmdir(name, dir_fd=folder)
