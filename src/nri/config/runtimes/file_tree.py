"""The files that a runtime reads: below a root folder, or with one file replaced before it is written."""

from __future__ import annotations

import errno
import os
import posixpath
from typing import Protocol

from nri.config.root import resolve_below
from nri.files import read_regular

#: Maximum size of a file. Configuration of runtimes is much smaller; a device or a wrong path may exceed it.
MAX_BYTES = 4 << 20


class FileTree(Protocol):
    """Access to the files of a runtime. Paths are absolute; errors are OSErrors."""

    def read(self, path: str) -> bytes:
        """Read a file."""

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, unsorted."""

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder. Links are followed."""

    def is_link(self, path: str) -> bool:
        """Whether a path is a link itself."""

    def exists(self, path: str) -> bool:
        """Whether a path exists. Links are followed."""


class DiskTree:
    """The files below a root folder, with links resolved as if the folder were /."""

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        """Read a regular file: reading a pipe or a device could wait forever."""
        place = resolve_below(self._root, path)
        if os.path.isdir(place):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return read_regular(place, MAX_BYTES)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder."""
        return os.listdir(resolve_below(self._root, folder))

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder."""
        return os.path.isdir(resolve_below(self._root, path))

    def is_link(self, path: str) -> bool:
        """Whether a path is a link itself."""
        folder, name = os.path.split(path)
        return os.path.islink(os.path.join(resolve_below(self._root, folder), name))

    def exists(self, path: str) -> bool:
        """Whether something is at a path."""
        return os.path.exists(resolve_below(self._root, path))


class ReplacedFile:
    """A tree in which one file has new content, as after a planned change."""

    def __init__(self, tree: FileTree, path: str, content: bytes) -> None:
        self._tree = tree
        self._path = path
        self._content = content

    def read(self, path: str) -> bytes:
        """Read a file, or return the new content."""
        return self._content if path == self._path else self._tree.read(path)

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, the new file included."""
        parent, name = posixpath.split(self._path)
        if folder.rstrip("/") != parent:
            return self._tree.names(folder)
        try:
            names = self._tree.names(folder)
        except FileNotFoundError:
            names = []
        return names if name in names else [*names, name]

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder, or would be a parent folder of the new file."""
        return path != self._path and (self._path.startswith(f"{path.rstrip('/')}/") or self._tree.is_folder(path))

    def is_link(self, path: str) -> bool:
        """Whether a path is a link itself."""
        return path != self._path and self._tree.is_link(path)

    def exists(self, path: str) -> bool:
        """Whether something is at a path."""
        return path == self._path or self.is_folder(path) or self._tree.exists(path)
