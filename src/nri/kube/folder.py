"""Files of manifests that are read again when they change: one file, or those of a folder.

Rules: one `stat` a file tells whether to read it; what a file held stays until it can be read again or is gone, and
until it holds something again if it has become empty; every file is by itself, so that a bad one spoils no other.
Bounded: more files or bigger ones than people write are errors. Next: `nri.kube.document`, which reads one.
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

__all__ = ["SUFFIXES", "Folder"]

SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILES = 1000
MAX_OBJECTS = 5000


class Folder:
    """The files below a path, and what they hold. For one thread.

    Attributes:
        files: the objects of each file, with the documents that say where they are; the last good ones.
        errors: what is wrong with a file or with the folder, by its path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._stamps: dict[str, Fingerprint] = {}
        self._first = True
        self.files: dict[str, list[tuple[Document, dict[str, Any]]]] = {}
        self.errors: dict[str, ConfigError] = {}

    def changed(self) -> bool:
        """Look, and read what differs; return whether anything does. The first look always finds a change."""
        first, self._first = self._first, False
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
        """The files, in order. A path that is not there has none; OSError if that cannot be known."""
        try:
            names = os.listdir(self._path)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return [self._path]
        manifests = sorted(name for name in names if name.endswith(SUFFIXES) and not name.startswith("."))
        if len(manifests) > MAX_FILES:
            raise OSError(0, f"there are more than {MAX_FILES} files")
        return [os.path.join(self._path, name) for name in manifests]

    def _read(self, name: str) -> None:
        self.errors.pop(name, None)
        try:
            source = read_file(name)
            if self.files.get(name) and not source.text.strip():
                # As it is between a shell's `kubectl get ... > rules.yaml` and the answer, or for good without one.
                raise ConfigError(name, "", "it has become empty", "remove the file, if that is meant")
            contents = list(objects(source))
        except ConfigError as error:
            self.errors[name] = error
        else:
            if len(contents) > MAX_OBJECTS:
                self.errors[name] = ConfigError(name, "", f"holds more than {MAX_OBJECTS} objects")
            else:
                self.files[name] = contents
