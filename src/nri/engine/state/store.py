"""Records on disk: one JSON file for each pod and each container, replaced whole.

Rules: a call that returned is on the disk, unless it says that it need not be; a file that cannot be read is set aside
under ``broken`` and named, and the rest is loaded; the folder belongs to one engine at a time, held by a lock that dies
with it.
Next: :mod:`nri.engine.process`, what runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from pathlib import Path
from typing import NamedTuple, TypeVar

from nri.engine.state.records import ContainerRecord, PodRecord, Record
from nri.engine.support.errors import EngineError
from nri.engine.support.files import TEMPORARY, private_folder, rename_into, sync_folder, write_whole

__all__ = ["Loaded", "Store"]

#: The form of what is written; a file of a higher one is set aside, not guessed at.
VERSION = 1
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

R = TypeVar("R", bound=Record)


class Loaded(NamedTuple):
    """All that was on disk. A complaint is one line about a file that was set aside."""

    pods: dict[str, PodRecord]
    containers: dict[str, ContainerRecord]
    complaints: list[str]


class Store:
    """The records of one engine, below `root`. Raises EngineError if another engine has that folder."""

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        self._lock = os.open(root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise EngineError(f"another engine has {root}: stop it, or give this one a folder of its own") from None
        self._folders = {PodRecord: private_folder(root / "pods"), ContainerRecord: private_folder(root / "containers")}
        self._writing = threading.Lock()

    def close(self) -> None:
        """Let another engine have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def put(self, record: PodRecord | ContainerRecord, *, sync: bool = True) -> None:
        """Write a record. Raises OSError, and leaves the earlier one in force, if the disk does not take it.

        Without `sync` it outlives the engine, and perhaps not the machine's sudden end.
        """
        path = self._path(type(record), record.id)
        with self._writing:  # the same record by two threads: the later one wins whole
            data = {"version": VERSION, **record.to_json()}
            write_whole(path, json.dumps(data, sort_keys=True).encode(), sync=sync)

    def remove(self, identity: str, *, sync: bool = True) -> None:
        """Forget the pod or container of this id; one that is not there is no error."""
        with self._writing:
            for kind, folder in self._folders.items():
                path = self._path(kind, identity)
                if path.exists():
                    path.unlink()
                    if sync:
                        sync_folder(folder)

    def load(self) -> Loaded:
        """Read all that is there. What a kill left half written is deleted, what is broken set aside."""
        loaded = Loaded({}, {}, [])
        self._load_into(loaded.pods, PodRecord, loaded.complaints)
        self._load_into(loaded.containers, ContainerRecord, loaded.complaints)
        return loaded

    def _load_into(self, found: dict[str, R], kind: type[R], complaints: list[str]) -> None:
        for path in sorted(self._folders[kind].iterdir()):
            if path.name.startswith(TEMPORARY):
                path.unlink()
                continue
            try:
                record = self._read(path, kind)
            except (ValueError, RecursionError) as error:
                complaints.append(f"{path}: {error}; set aside as {self._set_aside(path)}")
            else:
                found[record.id] = record

    def _read(self, path: Path, kind: type[R]) -> R:
        data = json.loads(path.read_bytes())
        version = data.pop("version", None) if isinstance(data, dict) else VERSION
        if version != VERSION:
            raise ValueError(f"it is of version {version!r}, and this engine reads version {VERSION}")
        record = kind.from_json(data)
        if f"{record.id}.json" != path.name:
            raise ValueError(f"it holds the record of {record.id!r}")
        return record

    def _set_aside(self, path: Path) -> Path:
        folder = private_folder(self.root / "broken")
        target, number = folder / path.name, 0
        while target.exists():
            number += 1
            target = folder / f"{path.name}.{number}"
        rename_into(path, target)
        sync_folder(path.parent)
        return target

    def _path(self, kind: type[Record], identity: str) -> Path:
        if not _ID.fullmatch(identity):
            raise ValueError(f"{identity!r} is no id")
        return self._folders[kind] / f"{identity}.json"
