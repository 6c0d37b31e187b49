"""Read manifests from a file or a folder, and read them again after a change.

While a file is invalid or empty, its last valid content stays in force. A bad file does not affect the others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nri.config.source import read_file
from nri.config.watch import fingerprint
from nri.errors import ConfigError
from nri.kube.document import Document, objects

if TYPE_CHECKING:
    from nri.config.watch import Fingerprint

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 1000
MAX_OBJECTS = 5000


class Folder:
    """The manifests at a path. Not thread-safe.

    Attributes:
        files: the last valid objects of each file, with their documents.
        errors: errors of files and of the folder, by path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._stamps: dict[str, Fingerprint] = {}
        self._is_first = True
        self.files: dict[str, list[tuple[Document, dict[str, Any]]]] = {}
        self.errors: dict[str, ConfigError] = {}

    def changed(self) -> bool:
        """Read changed files. Returns whether a file has changed. The first call always returns True."""
        first, self._is_first = self._is_first, False
        try:
            names = self._names()
        except OSError as error:
            error_ = ConfigError(self._path, "", (error.strerror or str(error)).lower())
            previous = self.errors.get(self._path)
            self.errors[self._path] = error_
            return first or str(previous) != str(error_)
        now = {name: fingerprint(name) for name in names}
        now = {name: stamp for name, stamp in now.items() if stamp is not None}
        if now == self._stamps and self._path not in self.errors:
            return first
        for name in self._stamps.keys() - now.keys():
            self.files.pop(name, None)
        self.errors = {name: error for name, error in self.errors.items() if name in now}
        for name, stamp in now.items():
            if self._stamps.get(name) != stamp:
                self._read(name)
        self.files = {name: self.files[name] for name in now if name in self.files}
        self._stamps = now
        return True

    def _names(self) -> list[str]:
        """The files in order. Returns an empty list for a missing path. Raises OSError if it cannot be read."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return [self._path]
        manifests = sorted(name for name in names if name.endswith(SUFFIXES) and not name.startswith("."))
        if len(manifests) > MAX_FILES:
            raise OSError(0, f"more than {MAX_FILES} files")
        return [os.path.join(self._path, name) for name in manifests]

    def _read(self, name: str) -> None:
        self.errors.pop(name, None)
        try:
            source = read_file(name)
            if self.files.get(name) and not source.text.strip():
                # For `kubectl get ... > rules.yaml` a shell empties the file before the answer, which may never arrive.
                raise ConfigError(name, "", "the file has become empty", "remove the file if that is intended")
            contents = list(objects(source))
        except ConfigError as error:
            self.errors[name] = error
        else:
            if len(contents) > MAX_OBJECTS:
                self.errors[name] = ConfigError(name, "", f"contains more than {MAX_OBJECTS} objects")
            else:
                self.files[name] = contents
