"""The room on the disk that one image may take, looked at while it is brought and unpacked.

What is on the disk counts, never what an image says of itself; an image that has no bound of its own still
leaves the disk a part of what was free.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import NamedTuple

from nri.engine.support.errors import EngineError
from nri.files import Usage, usage

#: The part of the free room that one image leaves to others.
_LEFT = 10
#: Files are counted again after so many times what the last count took, and at least after so many seconds.
_PAUSES, _PAUSE_S = 9, 0.5


class Limits(NamedTuple):
    """The most that one image may take, unpacked; 0 for no limit."""

    size_bytes: int = 64 << 30
    entries: int = 1_000_000


class Room:
    """The room for one image, whose name is for errors, below a folder that is there. Raises OSError."""

    def __init__(self, name: str, folder: Path, limits: Limits) -> None:
        self.name = name
        self._folder, self._limits = folder, limits
        self._least_free = shutil.disk_usage(folder).free // _LEFT

    def for_bytes(self, size_bytes: int, what: str = "it") -> None:
        """Raises EngineError if that is more than the image may take, or if the disk has little left."""
        if size_bytes > (self._limits.size_bytes or inf):
            self._refuse(what, size_bytes, "bytes", "size_limit", self._limits.size_bytes)
        free = shutil.disk_usage(self._folder).free
        if free < self._least_free:
            raise EngineError(f"no space left for image {self.name}: {what} has left {free} bytes of {self._folder}")

    def for_tree(self, tree: Path, what: str = "it", *, grows: bool = False) -> Usage:
        """What is unpacked, counted. Raises EngineError as `for_bytes`, and for too many files."""
        most = self._limits.entries or inf
        found = usage(tree, most_entries=most)
        if found.inodes > most or not (found.whole or grows):  # while it grows, folders may vanish from it
            self._refuse(what, f"more than {most}", "files", "entries_limit", self._limits.entries)
        self.for_bytes(found.size_bytes, what)
        return found

    def _refuse(self, what: str, number: object, unit: str, key: str, limit: int) -> None:
        raise EngineError(f"image {self.name}: {what} takes {number} {unit}, and images.{key} is {limit}")

    def watch(self, tree: Path, blobs: Path) -> Callable[[int], None]:
        """Have a look at `tree` while a program unpacks layers out of `blobs` into it: for `run`."""
        due = 0.0

        def look(pid: int) -> None:
            nonlocal due
            if (began := time.monotonic()) < due:
                return
            layer = _opened(pid, blobs)
            try:
                self.for_tree(tree, f"layer {layer}" if layer else "it", grows=True)
            except FileNotFoundError:  # not made yet, or removed again by a program that cannot go on
                return
            now = time.monotonic()
            due = now + max(_PAUSE_S, (now - began) * _PAUSES)

        return look


def _opened(pid: int, blobs: Path) -> str:
    """The digest of the blob that a program has open; "" for none."""
    with suppress(OSError):
        for each in os.listdir(folder := f"/proc/{pid}/fd"):
            with suppress(OSError):
                path = Path(os.readlink(f"{folder}/{each}"))
                if path.is_relative_to(blobs):
                    return f"{path.parent.name}:{path.name}"
    return ""
