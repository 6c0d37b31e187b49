"""Create the folders of the host that a container with a share of a GPU mounts.

The folder of HAMi's locks is shared by all containers. The folder of HAMi's monitor is created empty for one container;
its name must be a single path component, because it contains an id. The folder of an earlier container is renamed
immediately and removed by a thread, because a container can fill the folder with any number of files.
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

_MODE: Final = 0o777
_NAME: Final = "monitor folder"


def make_folder(root: Root, changes: Changes, node: Node) -> list[Result]:
    """Create the folders that changes mount.

    Args:
        root: the machine.
        changes: the changes of the container.
        node: the rules of the node; the folder is next to HAMi-core's library.
    """
    folder = posixpath.dirname(node.gpu_library)
    sources = [mount.source for mount in changes.mounts if mount.destination == folder and mount.source != folder]
    results = [_make_folder(root, f"{folder}/containers", source) for source in sources]
    # The creation of the container would fail if the folder of the mount were missing.
    locks = any(mount.source == LOCKS for mount in changes.mounts) and not root.exists(LOCKS)
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
        return Result(path, "folder", "present", *explain(error))
    return Result(path, "folder", "present", Outcome.APPLIED)


def _make_folder(root: Root, folder: str, path: str) -> Result:
    parent, _, name = path.rpartition("/")
    if parent != folder or name in ("", ".", ".."):
        return Result(path, _NAME, "empty", Outcome.REFUSED, f"not a folder in {folder}")
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
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        os.fchmod(descriptor, _MODE)  # independent of the umask
    finally:
        os.close(descriptor)


def _remove(folder: int, name: str) -> None:
    """Remove a tree below an open folder without following symlinks.

    Each subfolder is first moved to the top, because a container can nest folders deeper than the limit of descriptors.
    """
    folders = [name]
    try:
        while folders:
            _take_apart(folder, folders.pop(), folders)
    finally:
        os.close(folder)


def _take_apart(folder: int, name: str, folders: list[str]) -> None:
    """Remove one folder. Subfolders are moved next to it and added to `folders`. Files that cannot be removed stay."""
    with contextlib.suppress(OSError):
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            aside = f".{uuid.uuid4()}"
                            os.rename(entry.name, aside, src_dir_fd=opened, dst_dir_fd=folder)
                            folders.append(aside)
                        else:
                            os.unlink(entry.name, dir_fd=opened)
        finally:
            os.close(opened)
        os.rmdir(name, dir_fd=folder)
