"""Root file systems of containers: an image's files below, what the container writes above.

Overlayfs where the kernel mounts it on this folder, else a copy, decided once and said in `driver`; each
container's folder carries its id, so that what a crash left is found by name; mounting twice is mounting once. Where
ids are mapped, the image's files are mounted mapped; a file system that cannot do that has them copied.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from nri.config.syntax import parse_json
from nri.engine.images.mapping import Mapping, open_way
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.engine.support.kernel import is_mount_point, mount, unmount
from nri.files import Usage, private_folder, read_regular, remove_tree, usage, write_whole

#: The longest record.
_RECORD_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COPY_S = 1800.0
#: Files of a container are counted up to so many and for so long, in seconds, and those of all for so long.
_MOST_FILES, _COUNT_S, _COUNT_ALL_S = 1_000_000, 2.0, 10.0
#: A count of all that takes more of a processor than the second is good for so many times what it took.
_PATIENCE, _SLOW_S = 20, 0.05


class Snapshots:
    """All containers' root file systems below `root`. `driver` is ``overlay``, ``copy``, or ``auto`` for the best."""

    def __init__(self, root: Path, driver: str = "auto") -> None:
        if re.search(r"[:,\\\s]", str(root)):
            raise InvalidRequest(f"{root}: overlayfs takes no path with a colon, comma, backslash or blank")
        self.root = private_folder(root)
        self.driver = driver if driver != "auto" else "overlay" if overlay_works(self.root) else "copy"
        self._all, self._all_until = Usage(0, 0), 0.0

    def mount(self, lower: Path, container_id: str, image_id: str = "", mapping: Mapping | None = None) -> Path:
        """The root file system of a container over an image's files; mounted again if it was there before.

        With `mapping` the files belong to those that its user namespace maps their owners to. Raises EngineError;
        nothing new is left then.
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
            raise EngineError(f"the root file system of {container_id} cannot be made: {error}") from error

    def _mount(self, folder: Path, lower: Path, image_id: str, mapping: Mapping | None) -> Path:
        record = folder / "snapshot.json"
        merged = folder / "merged"
        if mapping is not None:
            open_way(folder, mapping.gid)
        if not record.exists():
            driver = self.driver
            if mapping is not None and driver == "overlay":
                below = mapping.mount(lower, folder / "lower")
                lower, driver = (below, driver) if below is not None else (lower, "copy")
            if driver == "copy":
                _copy(lower, folder, mapping)
            else:
                for name in ("upper", "work", "merged"):
                    (folder / name).mkdir(exist_ok=True)
                shutil.copystat(lower, folder / "upper")
                owner = lower.stat()
                os.chown(folder / "upper", owner.st_uid, owner.st_gid)
            data = {"driver": driver, "image": image_id, "lower": str(lower)}
            # Not synced: no mount outlives the machine's sudden end, after which no container is mounted again.
            write_whole(record, json.dumps(data).encode(), sync=False)
        kept = self._record(folder)
        if kept["driver"] == "overlay" and not is_mount_point(merged):
            options = f"lowerdir={kept['lower']},upperdir={folder / 'upper'},workdir={folder / 'work'}"
            mount("overlay", merged, "overlay", data=options)
        return merged

    def unmount(self, container_id: str) -> None:
        """Take the root file system away with all that was written to it; one that is not there is no error."""
        folder = self._folder(container_id)
        self.detach(container_id)
        remove_tree(folder)

    def detach(self, container_id: str) -> None:
        """Unmount only: what was written stays, for logs and for a later :meth:`mount`. Raises EngineError."""
        for name in ("merged", "lower"):
            path = self._folder(container_id) / name
            while unmount(path, lazily=True):
                pass  # once for each time that it was mounted
            if is_mount_point(path):
                raise EngineError(f"{path} is still mounted")  # and nothing below it may be deleted

    def images(self) -> dict[str, str]:
        """The image that each container uses, by container: what must not be removed."""
        found = {}
        for folder in self.root.iterdir():
            try:
                found[folder.name] = self._record(folder)["image"]
            except (OSError, KeyError):
                continue  # half made; `mount` finishes it, or `unmount` takes it away
        return found

    def usage(self, container_id: str, within_s: float = _COUNT_S) -> Usage:
        """The room that a container takes besides its image. Raises FileNotFoundError if it has no root file system.

        Of one with more files than can be counted in time it is the least that it takes.
        """
        folder = self._folder(container_id)
        driver = self._record(folder)["driver"]
        tree = folder / ("upper" if driver == "overlay" else "merged")
        return usage(tree, most_entries=_MOST_FILES, within_s=within_s)

    def all_usage(self) -> Usage:
        """The room that all containers take together, besides their images; if counting takes long, as it was."""
        began, spent = time.monotonic(), time.thread_time()
        if began < self._all_until:
            return self._all
        size, inodes, whole = 0, 0, True
        end = began + _COUNT_ALL_S
        for name in self.images():
            try:
                found = self.usage(name, min(max(end - time.monotonic(), 0), _COUNT_S))
            except OSError:
                continue  # removed meanwhile
            size, inodes, whole = size + found.size_bytes, inodes + found.inodes, whole and found.whole
        spent = time.thread_time() - spent
        self._all, self._all_until = Usage(size, inodes, whole), began + (_PATIENCE * spent if spent > _SLOW_S else 0)
        return self._all

    def _folder(self, container_id: str) -> Path:
        if not _NAME.fullmatch(container_id):
            raise InvalidRequest(f"{container_id!r} is no id")
        return self.root / container_id

    @staticmethod
    def _record(folder: Path) -> dict[str, str]:
        """Raises FileNotFoundError also for one that a machine's sudden end has emptied."""
        path = folder / "snapshot.json"
        try:
            return dict(parse_json(read_regular(path, _RECORD_BYTES)))
        except (ValueError, TypeError):
            raise FileNotFoundError(errno.ENOENT, "half written", str(path)) from None


def _copy(lower: Path, folder: Path, mapping: Mapping | None) -> None:
    partial = folder / "partial"
    remove_tree(partial)
    run(["cp", "-a", "--reflink=auto", str(lower), str(partial)], timeout_s=_COPY_S, action="copying the image")
    if mapping is not None:
        mapping.give(partial)
    partial.rename(folder / "merged")


def overlay_works(folder: Path) -> bool:
    """Whether this process can mount overlayfs with its upper folder here: tried, not guessed."""
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
