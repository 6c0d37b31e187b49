"""Limit the disk space of an image while it is pulled and unpacked.

The files on the disk count, never what an image says about itself. Even without a limit, an image leaves a part of the
free disk space to others.
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

#: An image has to leave this part of the free disk space to others: one in _RESERVE.
_RESERVE = 10
#: Files are counted again after _PAUSES times the duration of the last count, and at least after _PAUSE_S seconds.
_PAUSES, _PAUSE_S = 9, 0.5


class Limits(NamedTuple):
    """The most disk space and files of an unpacked image; 0 for no limit."""

    size_bytes: int = 64 << 30
    entries: int = 1_000_000


class SpaceBudget:
    """The disk space for one image below an existing folder. `name` is for errors. Raises OSError."""

    def __init__(self, name: str, folder: Path, limits: Limits) -> None:
        self.name = name
        self._folder, self._limits = folder, limits
        self._least_free = shutil.disk_usage(folder).free // _RESERVE

    def check_bytes(self, size_bytes: int, what: str = "it") -> None:
        """EngineError if the size exceeds the image's limit, or if the disk has too little space left."""
        if size_bytes > (self._limits.size_bytes or inf):
            self._reject(what, size_bytes, "bytes", "size_limit", self._limits.size_bytes)
        free = shutil.disk_usage(self._folder).free
        if free < self._least_free:
            raise EngineError(f"no space left for image {self.name}: {what} has left {free} bytes of {self._folder}")

    def check_tree(self, tree: Path, what: str = "it", *, grows: bool = False) -> Usage:
        """Count the unpacked files. EngineError as in `check_bytes`, and for too many files."""
        max_entries = self._limits.entries or inf
        tree_usage = usage(tree, most_entries=max_entries)
        if tree_usage.inodes > max_entries or not (
            tree_usage.whole or grows
        ):  # while it grows, folders may vanish from it
            self._reject(what, f"more than {max_entries}", "files", "entries_limit", self._limits.entries)
        self.check_bytes(tree_usage.size_bytes, what)
        return tree_usage

    def _reject(self, what: str, number: object, unit: str, key: str, limit: int) -> None:
        raise EngineError(f"image {self.name}: {what} takes {number} {unit}; images.{key} is {limit}")

    def watch(self, tree: Path, blobs: Path) -> Callable[[int], None]:
        """Return a function that checks `tree` while a program unpacks layers of `blobs` into it; for `run`."""
        due = 0.0

        def check(pid: int) -> None:
            nonlocal due
            if (began := time.monotonic()) < due:
                return
            layer = _opened(pid, blobs)
            try:
                self.check_tree(tree, f"layer {layer}" if layer else "it", grows=True)
            except FileNotFoundError:  # not created yet, or removed by a program that fails
                return
            now = time.monotonic()
            due = now + max(_PAUSE_S, (now - began) * _PAUSES)

        return check


def _opened(pid: int, blobs: Path) -> str:
    """The digest of the blob that a program has open; "" if there is none."""
    with suppress(OSError):
        for name in os.listdir(folder := f"/proc/{pid}/fd"):
            with suppress(OSError):
                path = Path(os.readlink(f"{folder}/{name}"))
                if path.is_relative_to(blobs):
                    return f"{path.parent.name}:{path.name}"
    return ""
