"""Limit the disk space of an image while it is pulled and unpacked.

The files on the disk are counted, because the sizes in an image's documents may be false. Even without a configured
limit, an image must not use all of the free disk space.
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

from nri.engine.images.pull_timer import UNPACKING, PullTimer
from nri.engine.support.errors import EngineError
from nri.files import Usage, usage
from nri.host.process import io_bytes
from nri.host.root import MACHINE

#: An image must leave one _RESERVE-th of the disk space free that was free when the pull began.
_RESERVE = 10
#: The pause between two counts is _PAUSES times the duration of a count, and at least _PAUSE_S.
_PAUSES, _PAUSE_S = 9, 0.5


class Limits(NamedTuple):
    """The maximum size and number of files of an unpacked image. 0 means no limit."""

    size_bytes: int = 64 << 30
    entries: int = 1_000_000


class SpaceBudget:
    """The disk space for one image below an existing folder.

    Attributes:
        name: the image's name in errors.
        timer: the deadlines of the image's pull.
        spent: the disk space of the image's layers that are already unpacked.
    """

    def __init__(self, name: str, folder: Path, limits: Limits, timer: PullTimer) -> None:
        self.name, self.timer, self.spent = name, timer, Usage(0, 0)
        self._folder, self._limits = folder, limits
        self._least_free = shutil.disk_usage(folder).free // _RESERVE

    def check_bytes(self, size_bytes: int, what: str = "it") -> None:
        """Raise EngineError if the size exceeds the image's limit, or if too little disk space is left."""
        if size_bytes > (self._limits.size_bytes or inf):
            self._reject(f"{what} needs {size_bytes} bytes", f"size_limit) is {self._limits.size_bytes} bytes")
        free = shutil.disk_usage(self._folder).free
        if free < self._least_free:
            raise EngineError(
                f"no space left for image {self.name}: {self._folder} has {free} free bytes, "
                f"and {self._least_free} must remain free"
            )

    def check_tree(self, tree: Path, what: str = "it", *, grows: bool = False) -> Usage:
        """Count the unpacked files. Raises EngineError if there are too many files, or too many bytes.

        With `grows`, another program is writing the files, so folders may vanish during the count.
        """
        remaining = (self._limits.entries or inf) - self.spent.inodes
        tree_usage = usage(tree, most_entries=remaining)
        if tree_usage.inodes > remaining or not (tree_usage.whole or grows):
            self._reject_entries(what)
        self.check_bytes(self.spent.size_bytes + tree_usage.size_bytes, what)
        return tree_usage

    def spend(self, layer: Usage) -> None:
        """Count a layer that is unpacked. Raises EngineError if the image is too large now."""
        self.spent = Usage(self.spent.size_bytes + layer.size_bytes, self.spent.inodes + layer.inodes)
        if self.spent.inodes > (self._limits.entries or inf):
            self._reject_entries("it")
        self.check_bytes(self.spent.size_bytes)

    def _reject_entries(self, what: str) -> None:
        entries = self._limits.entries
        self._reject(f"{what} contains more than {entries or inf} files", f"entries_limit) is {entries}")

    def _reject(self, reason: str, limit: str) -> None:
        raise EngineError(f"image {self.name}: {reason}; the limit (images.{limit}")

    def watch(self, tree: Path, blobs: Path) -> Callable[[int], None]:
        """Return a callback for `run` that checks `tree` while a program unpacks layers from `blobs` into it.

        A program makes progress while it reads or writes files, because counting a large tree takes too long.
        """
        due = 0.0
        self.timer.start_step(UNPACKING)

        def check(pid: int) -> None:
            nonlocal due
            if (done_bytes := io_bytes(MACHINE, pid)) is not None:
                self.timer.check(done_bytes)
            if (began := time.monotonic()) < due:
                return
            layer = _open_blob(pid, blobs)
            try:
                self.check_tree(tree, f"layer {layer}" if layer else "it", grows=True)
            except FileNotFoundError:  # the folder is not created yet, or was removed by a program that failed
                return
            now = time.monotonic()
            due = now + max(_PAUSE_S, (now - began) * _PAUSES)

        return check


def _open_blob(pid: int, blobs: Path) -> str:
    """Return the digest of the blob that a process has open, or "" if it has no blob open."""
    with suppress(OSError):
        for name in os.listdir(folder := f"/proc/{pid}/fd"):
            with suppress(OSError):
                path = Path(os.readlink(f"{folder}/{name}"))
                if path.is_relative_to(blobs):
                    return f"{path.parent.name}:{path.name}"
    return ""
