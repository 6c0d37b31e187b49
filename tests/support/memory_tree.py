"""Files in memory, for what judges a runtime's configuration."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Collection, Mapping

#: The kernel's own bound for a chain of symbolic links.
_MAX_LINKS = 40


class MemoryTree:
    """Files, links and empty folders held in memory."""

    def __init__(
        self, files: Mapping[str, bytes], links: Mapping[str, str] | None = None, folders: Collection[str] = ()
    ) -> None:
        self._files = dict(files)
        self._links = dict(links or {})
        self._folders = {"/"}
        for path in (*self._files, *self._links):
            self._add_folder(posixpath.dirname(path))
        for path in folders:
            self._add_folder(path)

    def _add_folder(self, path: str) -> None:
        while path not in self._folders:
            self._folders.add(path)
            path = posixpath.dirname(path)

    def _resolve(self, path: str) -> str:
        """Follow the links in a path."""
        resolved, parts, links = "", path.split("/")[::-1], 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                resolved = posixpath.dirname(resolved).rstrip("/")
                continue
            candidate = f"{resolved}/{part}"
            target = self._links.get(candidate)
            if target is None:
                resolved = candidate
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                resolved = ""
            parts += target.split("/")[::-1]
        return resolved or "/"

    def read(self, path: str) -> bytes:
        """Read a file."""
        place = self._resolve(path)
        if place in self._folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if place not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[place]

    def names(self, folder: str) -> list[str]:
        """List the names in a folder."""
        place = self._resolve(folder)
        if place not in self._folders:
            kind = NotADirectoryError if place in self._files else FileNotFoundError
            raise kind(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        paths = {*self._files, *self._links, *self._folders} - {"/"}
        return [posixpath.basename(path) for path in paths if posixpath.dirname(path) == place]

    def is_folder(self, path: str) -> bool:
        """Tell whether a path is a folder."""
        return self._resolve(path) in self._folders

    def is_link(self, path: str) -> bool:
        """Tell whether a path is a link itself."""
        return posixpath.normpath(path) in self._links

    def exists(self, path: str) -> bool:
        """Tell whether something is at a path."""
        place = self._resolve(path)
        return place in self._files or place in self._folders
