"""Root file systems of containers: a writable layer over the image's files by overlayfs, or a copy of the files.

The name of a container's folder is the container's id, so that remains of a crash can be found. With an ID mapping, the
image's files are mounted with mapped owners, or copied if the file system does not support such mounts.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.images.mapping import IdMapping, allow_traversal
from nri.engine.images.overlay import Stack, copy_attributes, mount_overlay, overlay_works
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.engine.support.kernel import detach_below, is_mount_point, unmount
from nri.files import Usage, private_folder, read_regular, remove_tree, usage, write_whole
from nri.host.root import Root, open_below

#: The maximum size of the record of a root file system.
_RECORD_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
#: The time limit for copying an image's files.
_COPY_S = 1800.0
#: The maximum number of files that are counted for one container.
_MAX_FILES = 1_000_000
#: The time limits for counting the files of one container, and of all containers.
_COUNT_S, _COUNT_ALL_S = 2.0, 10.0
#: If a count of all containers takes more than _SLOW_S of processor time, the next count is made only after
#: _SLOW_FACTOR times the duration.
_SLOW_FACTOR, _SLOW_S = 20, 0.05


class Snapshots:
    """The root file systems below `root`. `driver` is ``overlay``, ``copy``, or ``auto`` (overlay if it works)."""

    def __init__(self, root: Path, driver: str = "auto") -> None:
        if re.search(r"[:,\\\s]", str(root)):
            raise InvalidRequest(f"{root}: overlayfs does not support paths with a colon, comma, backslash or space")
        self.root = private_folder(root)
        self.driver = driver if driver != "auto" else "overlay" if overlay_works(self.root) else "copy"
        self._all, self._all_until = Usage(0, 0), 0.0

    def mount(self, stack: Stack, container_id: str, image_id: str = "", mapping: IdMapping | None = None) -> Path:
        """Mount the root file system of a container. `stack` has the folders with the image's files.

        A root file system that exists is mounted again, with the files that the container wrote. With `mapping`, the
        files' owners are mapped to IDs of the node. Raises EngineError if the mount fails; then new files are removed.
        """
        folder = self._folder(container_id)
        fresh = not folder.exists()
        try:
            return self._mount(private_folder(folder), stack, image_id, mapping)
        except (OSError, EngineError) as error:
            if fresh:
                self.unmount(container_id)
            if isinstance(error, EngineError):
                raise
            raise EngineError(f"the root file system of {container_id} cannot be created: {error}") from error

    def _mount(self, folder: Path, stack: Stack, image_id: str, mapping: IdMapping | None) -> Path:
        record = folder / "snapshot.json"
        merged = folder / "merged"
        if mapping is not None:
            allow_traversal(folder, mapping.gid, mapping.engine_folders)
        driver = self._record(folder)["driver"] if record.exists() else self.driver
        if driver == "overlay" and not is_mount_point(merged):
            driver = _mount_layers(folder, stack, mapping)
        if not record.exists():
            if driver == "copy":
                _copy(stack, folder, mapping)
            # Not synced: after a crash of the machine no container is mounted again.
            write_whole(record, json.dumps({"driver": driver, "image": image_id}).encode(), sync=False)
        return merged

    def copy_volumes(
        self, container_id: str, paths: Sequence[str], limit_bytes: int, mapping: IdMapping | None = None
    ) -> dict[str, str]:
        """Copy folders of a mounted root file system with their owners and modes. `unmount` removes the copies.

        Returns the path of each copy by the path of the folder. If a folder does not exist, its copy is empty and
        belongs to root. Symbolic links cannot lead out of the root file system.

        Raises:
            EngineError: a path is not a folder, cannot be copied, or the folders together exceed `limit_bytes`.
        """
        folder = self._folder(container_id)
        top = private_folder(folder / "volumes")
        if mapping is not None:
            os.chown(top, -1, mapping.gid)
            top.chmod(0o710)
        copies: dict[str, str] = {}
        for number, path in enumerate(paths):
            copy = top / str(number)
            try:
                limit_bytes -= _copy_volume(folder / "merged", path, copy, limit_bytes, mapping)
            except OSError as error:
                raise EngineError(f"the volume {path} of the image cannot be copied: {error.strerror}") from error
            copies[path] = str(copy)
        return copies

    def make_volumes(self, container_id: str, paths: Sequence[str], uid: int, gid: int) -> None:
        """Create missing folders in a mounted root file system. The user `uid` and the group `gid` own new folders.

        Symbolic links cannot lead out of the root file system. Raises EngineError if a folder cannot be created.
        """
        root = Root(self._folder(container_id) / "merged")
        for path in paths:
            try:
                for position in (at for at, char in enumerate(f"{path}/") if char == "/" and at):
                    _make_below(root, path[:position], uid, gid)
            except OSError as error:
                raise EngineError(f"the volume {path} of the image cannot be created: {error.strerror}") from error

    def unmount(self, container_id: str) -> None:
        """Remove the root file system with all files that the container wrote. No effect if it does not exist."""
        folder = self._folder(container_id)
        self.detach(container_id)
        remove_tree(folder)

    def detach(self, container_id: str) -> None:
        """Unmount the root file system, but keep its files for a later :meth:`mount`.

        Raises EngineError if the root file system is still mounted afterwards.
        """
        folder = self._folder(container_id)
        detach_below(folder)  # all of several stacked mounts, and a mount that a kill left during a copy
        for path in (folder / "merged", folder / "lower"):
            if is_mount_point(path):
                raise EngineError(f"{path} is still mounted")  # callers must not delete files below it

    def images(self) -> dict[str, str]:
        """Return the id of the image that each container uses, by container id. These images must not be removed."""
        images = {}
        for folder in self.root.iterdir():
            try:
                images[folder.name] = self._record(folder)["image"]
            except (OSError, KeyError):
                continue  # half created; `mount` completes it, or `unmount` removes it
        return images

    def usage(self, container_id: str, within_s: float = _COUNT_S) -> Usage:
        """Return the disk space of a container's writable layer, or a lower bound if counting takes too long.

        Raises FileNotFoundError if the container has no root file system.
        """
        folder = self._folder(container_id)
        driver = self._record(folder)["driver"]
        tree = folder / ("upper" if driver == "overlay" else "merged")
        return usage(tree, most_entries=_MAX_FILES, within_s=within_s)

    def all_usage(self) -> Usage:
        """Return the disk space of all writable layers together. If counting takes long, the result may be old."""
        began, spent = time.monotonic(), time.thread_time()
        if began < self._all_until:
            return self._all
        size, inodes, is_complete = 0, 0, True
        end = began + _COUNT_ALL_S
        for name in self.images():
            try:
                container_usage = self.usage(name, min(max(end - time.monotonic(), 0), _COUNT_S))
            except OSError:
                continue  # removed meanwhile
            size, inodes, is_complete = (
                size + container_usage.size_bytes,
                inodes + container_usage.inodes,
                is_complete and container_usage.whole,
            )
        spent = time.thread_time() - spent
        self._all, self._all_until = (
            Usage(size, inodes, is_complete),
            began + (_SLOW_FACTOR * spent if spent > _SLOW_S else 0),
        )
        return self._all

    def _folder(self, container_id: str) -> Path:
        if not _NAME.fullmatch(container_id):
            raise InvalidRequest(f"{container_id!r} is not a valid id")
        return self.root / container_id

    @staticmethod
    def _record(folder: Path) -> dict[str, str]:
        """Read the record of a root file system. Raises FileNotFoundError if it is missing, or damaged by a crash."""
        path = folder / "snapshot.json"
        try:
            return dict(parse_json(read_regular(path, _RECORD_BYTES)))
        except (ValueError, TypeError):
            raise FileNotFoundError(errno.ENOENT, "half-written", str(path)) from None


def _copy_volume(merged: Path, path: str, copy: Path, limit_bytes: int, mapping: IdMapping | None) -> int:
    """Copy a folder of a root file system, or create an empty folder. Returns the size of the copy in bytes.

    Raises EngineError if the folder exceeds `limit_bytes`, and OSError or EngineError if copying fails.
    """
    try:
        descriptor = open_below(merged, path, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError:
        copy.mkdir(mode=0o755)
        os.chown(copy, *((0, 0) if mapping is None else (mapping.uid, mapping.gid)))
        return 0
    try:
        source = f"/proc/{os.getpid()}/fd/{descriptor}/."
        size = usage(source).size_bytes
        if size > limit_bytes:
            raise EngineError(
                f"the volume {path} of the image has {size} bytes; only {limit_bytes} bytes are left for volumes"
            )
        _run_copy(source, copy, f"copying the volume {path} of the image")
    finally:
        os.close(descriptor)
    return size


def _make_below(root: Root, path: str, uid: int, gid: int) -> None:
    """Create a folder in a root file system, and set its owner. No effect if the folder exists."""
    try:
        root.make_folder(path)
    except FileExistsError:
        os.close(root.open(path, os.O_PATH | os.O_DIRECTORY))  # raises OSError for a file or a dangling link
        return
    descriptor = root.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        os.chown(f"/proc/self/fd/{descriptor}", uid, gid)
        os.chmod(f"/proc/self/fd/{descriptor}", 0o755)  # noqa: S103  as in CRI-O
    finally:
        os.close(descriptor)


def _run_copy(source: str, target: Path, action: str) -> None:
    run(["cp", "-a", "--reflink=auto", source, str(target)], timeout_s=_COPY_S, action=action)


def _mount_layers(folder: Path, stack: Stack, mapping: IdMapping | None) -> str:
    """Mount the layers with a writable layer above. Returns the driver: copy if owners cannot be mapped otherwise."""
    mapped_root = None
    if mapping is not None:
        mapped_root = mapping.mount(stack.root, folder / "lower")
        if mapped_root is None:
            return "copy"
    upper = folder / "upper"
    if not upper.exists():
        for name in ("work", "merged", "upper"):
            (folder / name).mkdir(exist_ok=True)
        copy_attributes(stack.at(mapped_root or stack.root).top, upper)
    mount_overlay(folder / "merged", stack.at(mapped_root or stack.root), upper, folder / "work")
    if mapped_root is not None:
        unmount(mapped_root, lazily=True)  # overlayfs has its own clone of the mount
    return "overlay"


def _copy(stack: Stack, folder: Path, mapping: IdMapping | None) -> None:
    partial = folder / "partial"
    remove_tree(partial)
    with stack.merged(folder) as lower:
        _run_copy(str(lower), partial, "copying the image")
    if mapping is not None:
        mapping.chown_tree(partial)
    partial.rename(folder / "merged")
