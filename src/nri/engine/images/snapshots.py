"""Root file systems of containers: an image's files with a writable layer, by overlayfs or as a copy.

Each container's folder is named by its id, so that the remains of a crash can be found. With an ID mapping the image's
files are mounted with mapped owners, or copied if the file system does not support that.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.images.mapping import Mapping, allow_traversal
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.engine.support.kernel import is_mount_point, mount, unmount
from nri.files import Usage, private_folder, read_regular, remove_tree, usage, write_whole
from nri.host.root import Root, open_below

#: The longest record of a root file system.
_RECORD_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COPY_S = 1800.0
#: The most files of a container to count, and the longest times for a container and for all, in seconds.
_MAX_FILES, _COUNT_S, _COUNT_ALL_S = 1_000_000, 2.0, 10.0
#: If counting all takes more than _SLOW_S seconds of processor time, the result is kept for _SLOW_FACTOR times that.
_SLOW_FACTOR, _SLOW_S = 20, 0.05


class Snapshots:
    """The root file systems below `root`. `driver` is ``overlay``, ``copy``, or ``auto`` for overlay if it works."""

    def __init__(self, root: Path, driver: str = "auto") -> None:
        if re.search(r"[:,\\\s]", str(root)):
            raise InvalidRequest(f"{root}: overlayfs does not support paths with a colon, comma, backslash or blank")
        self.root = private_folder(root)
        self.driver = driver if driver != "auto" else "overlay" if overlay_works(self.root) else "copy"
        self._all, self._all_until = Usage(0, 0), 0.0

    def mount(self, lower: Path, container_id: str, image_id: str = "", mapping: Mapping | None = None) -> Path:
        """Mount the root file system of a container over an image's files; an existing one is mounted again.

        With `mapping` the files' owners are mapped by its user namespace. EngineError; everything new is removed then.
        """
        folder = self._folder(container_id)
        fresh = not folder.exists()
        try:
            return self._mount(private_folder(folder), lower, image_id, mapping)
        except (OSError, EngineError) as error:
            if fresh:
                self.unmount(container_id)
            if isinstance(error, EngineError):
                raise
            raise EngineError(f"the root file system of {container_id} cannot be created: {error}") from error

    def _mount(self, folder: Path, lower: Path, image_id: str, mapping: Mapping | None) -> Path:
        record = folder / "snapshot.json"
        merged = folder / "merged"
        if mapping is not None:
            allow_traversal(folder, mapping.gid, mapping.own_folders)
        if not record.exists():
            driver = self.driver
            if mapping is not None and driver == "overlay":
                mapped_lower = mapping.mount(lower, folder / "lower")
                lower, driver = (mapped_lower, driver) if mapped_lower is not None else (lower, "copy")
            if driver == "copy":
                _copy(lower, folder, mapping)
            else:
                for name in ("upper", "work", "merged"):
                    (folder / name).mkdir(exist_ok=True)
                shutil.copystat(lower, folder / "upper")
                owner = lower.stat()
                os.chown(folder / "upper", owner.st_uid, owner.st_gid)
            data = {"driver": driver, "image": image_id, "lower": str(lower)}
            # Not synced: after a crash of the machine no container is mounted again.
            write_whole(record, json.dumps(data).encode(), sync=False)
        state = self._record(folder)
        if state["driver"] == "overlay" and not is_mount_point(merged):
            options = f"lowerdir={state['lower']},upperdir={folder / 'upper'},workdir={folder / 'work'}"
            mount("overlay", merged, "overlay", data=options)
        return merged

    def copy_volumes(
        self, container_id: str, paths: Sequence[str], limit_bytes: int, mapping: Mapping | None = None
    ) -> dict[str, str]:
        """Copy folders of a mounted root file system, with their owners and modes, to folders that are removed with it.

        Returns the copies by path; a folder that does not exist is empty, and belongs to root. Symbolic links cannot
        lead out of the root file system.

        Raises:
            EngineError: a path is not a folder, cannot be copied, or the folders exceed `limit_bytes` together.
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
        """Create missing folders in a mounted root file system, with this owner. EngineError if that is not possible.

        Symbolic links cannot lead out of the root file system.
        """
        root = Root(self._folder(container_id) / "merged")
        for path in paths:
            try:
                for position in (at for at, char in enumerate(f"{path}/") if char == "/" and at):
                    _make_below(root, path[:position], uid, gid)
            except OSError as error:
                raise EngineError(f"the volume {path} of the image cannot be created: {error.strerror}") from error

    def unmount(self, container_id: str) -> None:
        """Remove the root file system with everything written to it; no effect if there is none."""
        folder = self._folder(container_id)
        self.detach(container_id)
        remove_tree(folder)

    def detach(self, container_id: str) -> None:
        """Only unmount: written files stay for logs and for a later :meth:`mount`. Raises EngineError."""
        for name in ("merged", "lower"):
            path = self._folder(container_id) / name
            while unmount(path, lazily=True):
                pass  # it may have been mounted several times
            if is_mount_point(path):
                raise EngineError(f"{path} is still mounted")  # so nothing below it may be deleted

    def images(self) -> dict[str, str]:
        """The image that each container uses, by container; these images must not be removed."""
        images = {}
        for folder in self.root.iterdir():
            try:
                images[folder.name] = self._record(folder)["image"]
            except (OSError, KeyError):
                continue  # half created; `mount` completes it, or `unmount` removes it
        return images

    def usage(self, container_id: str, within_s: float = _COUNT_S) -> Usage:
        """The disk space of a container's writable layer. FileNotFoundError if it has no root file system.

        If it has too many files to count in time, the result is a lower bound.
        """
        folder = self._folder(container_id)
        driver = self._record(folder)["driver"]
        tree = folder / ("upper" if driver == "overlay" else "merged")
        return usage(tree, most_entries=_MAX_FILES, within_s=within_s)

    def all_usage(self) -> Usage:
        """The disk space of all writable layers together; an earlier result if counting takes long."""
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
        """The record of a root file system. FileNotFoundError also if a crash of the machine has emptied it."""
        path = folder / "snapshot.json"
        try:
            return dict(parse_json(read_regular(path, _RECORD_BYTES)))
        except (ValueError, TypeError):
            raise FileNotFoundError(errno.ENOENT, "half-written", str(path)) from None


def _copy_volume(merged: Path, path: str, copy: Path, limit_bytes: int, mapping: Mapping | None) -> int:
    """Copy a folder of a root file system, if it exists; returns its size in bytes. Raises OSError, EngineError."""
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
                f"the volume {path} of the image has {size} bytes; {limit_bytes} are left for its volumes"
            )
        _run_copy(source, copy, f"copying the volume {path} of the image")
    finally:
        os.close(descriptor)
    return size


def _make_below(root: Root, path: str, uid: int, gid: int) -> None:
    """Create a folder of a root file system with this owner; no effect if it exists."""
    try:
        root.make_folder(path)
    except FileExistsError:
        os.close(root.open(path, os.O_PATH | os.O_DIRECTORY))  # a file or a link to nothing is an error
        return
    descriptor = root.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        os.chown(f"/proc/self/fd/{descriptor}", uid, gid)
        os.chmod(f"/proc/self/fd/{descriptor}", 0o755)  # noqa: S103  as in CRI-O
    finally:
        os.close(descriptor)


def _run_copy(source: str, target: Path, action: str) -> None:
    run(["cp", "-a", "--reflink=auto", source, str(target)], timeout_s=_COPY_S, action=action)


def _copy(lower: Path, folder: Path, mapping: Mapping | None) -> None:
    partial = folder / "partial"
    remove_tree(partial)
    _run_copy(str(lower), partial, "copying the image")
    if mapping is not None:
        mapping.chown_tree(partial)
    partial.rename(folder / "merged")


def overlay_works(folder: Path) -> bool:
    """Whether this process can mount overlayfs with its upper folder here; tested by a mount."""
    with tempfile.TemporaryDirectory(prefix=".try-", dir=folder) as place:
        top = Path(place)
        for name in ("lower", "upper", "work", "merged"):
            (top / name).mkdir()
        try:
            mount(
                "overlay",
                top / "merged",
                "overlay",
                data=f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work",
            )
        except OSError:
            return False
        unmount(top / "merged")
        return True
