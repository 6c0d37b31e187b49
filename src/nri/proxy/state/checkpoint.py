"""Records on disk, so that a proxy that comes back knows plugins' names of containers and what they were told.

Rules: one file for each pod and each container, replaced whole, so that a kill leaves the old one or the new one; a
machine that loses power may leave a torn one. A file that cannot be read is set aside below ``broken``, named, and
nothing else is lost, because the runtime can be asked again. A write that fails (a full disk) is told once a minute
and changes nothing for the calls that run. Next: `nri.proxy.state.book`.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from google.protobuf.message import DecodeError

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.proxy.state.records import ContainerRecord, PodRecord

__all__ = ["MOST_BYTES", "MOST_FILES", "VERSION", "Checkpoint"]

#: The form of what is written; a file of a higher one is set aside, not guessed at.
VERSION = 1
#: The longest file, and the most of them: what is more stays in memory alone.
MOST_BYTES = 1 << 20
MOST_FILES = 20_000
_TEMPORARY = ".writing-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COMPLAIN_S = 60.0
_KINDS: dict[str, Any] = {"pod": PodRecord, "container": ContainerRecord}
#: Fields that are messages, by their names; the others are texts and flags.
_MESSAGES: dict[str, dict[str, Any]] = {
    "pod": {"config": pb.PodSandboxConfig, "shown": m.PodSandbox},
    "container": {
        "config": pb.ContainerConfig, "asked": pb.LinuxContainerResources, "resources": pb.LinuxContainerResources,
        "shown": m.Container,
    },
}  # fmt: skip
Record = PodRecord | ContainerRecord

_log = logging.getLogger("nri.proxy")


class Checkpoint:
    """The files of one proxy in a folder, which is its own from `open` to `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = -1
        self._complained = -_COMPLAIN_S
        self._files: set[str] = set()
        self._writing = threading.Lock()

    def open(self) -> None:
        """Take the folder. Raises OSError if it cannot be had, is another user's, or another proxy has it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = self.folder.stat().st_uid
        if owner != os.geteuid():  # records hold the environment of containers, and its owner could read them
            raise PermissionError(errno.EPERM, f"it belongs to user {owner}", str(self.folder))
        self.folder.chmod(0o700)
        lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise OSError(errno.EBUSY, "another proxy keeps its records there", str(self.folder)) from None
        self._lock = lock

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def load(self) -> list[Record]:
        """All that can be read; the rest is set aside and named in the log."""
        records: list[Record] = []
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(_TEMPORARY):
                path.unlink(missing_ok=True)  # a write that a kill has cut short
            elif path.suffix == ".json":
                try:
                    records.append(_read(path))
                    self._files.add(path.name)
                except (ValueError, OSError, DecodeError, RecursionError) as error:
                    self._set_aside(path, error)
        return records

    def put(self, record: Record) -> None:
        """Write a record. What goes wrong is told, never raised: the record is in memory."""
        try:
            name = _name(record)
            data = _written(record)
            with self._writing:
                if len(data) > MOST_BYTES or (len(self._files) >= MOST_FILES and name not in self._files):
                    raise OSError(errno.EFBIG, f"{len(data)} bytes, {len(self._files)} files are there", name)
                _write(self.folder, name, data)
                self._files.add(name)
        except (OSError, ValueError) as error:
            self._complain(error)

    def delete(self, record: Record) -> None:
        """Remove a record's file."""
        with suppress(ValueError), self._writing:
            name = _name(record)
            self._files.discard(name)
            try:
                (self.folder / name).unlink(missing_ok=True)
            except OSError as error:
                self._complain(error)

    def _set_aside(self, path: Path, error: Exception) -> None:
        broken = self.folder / "broken"
        with suppress(OSError):
            broken.mkdir(exist_ok=True, mode=0o700)
            path.replace(broken / path.name)
        _log.warning("a record of the proxy cannot be read, the runtime is asked instead: %s: %s", path, error)

    def _complain(self, error: Exception) -> None:
        now = monotonic()
        if now - self._complained >= _COMPLAIN_S:
            self._complained = now
            _log.warning("records of the proxy cannot be written, a restart will ask the runtime instead: %s", error)


def _name(record: Record) -> str:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    if not _ID.fullmatch(record.id):
        raise ValueError(f"{record.id!r} is no id for a file's name")
    return f"{kind}-{record.id}.json"


def _written(record: Record) -> bytes:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    row: dict[str, Any] = {"version": VERSION, "kind": kind}
    for name in type(record).__slots__:
        value = getattr(record, name)
        row[name] = base64.b64encode(value.SerializeToString()).decode() if name in _MESSAGES[kind] else value
    return json.dumps(row).encode()


def _write(folder: Path, name: str, data: bytes) -> None:
    temporary = folder / f"{_TEMPORARY}{name}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.rename(folder / name)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # a full disk: give back what the attempt took
        raise


def _read(path: Path) -> Record:
    """A record. Raises ValueError, DecodeError, OSError for a file that holds none."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    row = json.loads(path.read_bytes())
    if not isinstance(row, Mapping) or row.get("kind") not in _KINDS:
        raise ValueError("it is no record of a pod or container")
    if not isinstance(row.get("version"), int) or row["version"] > VERSION:
        raise ValueError(f"its version is {row.get('version')!r}, this proxy knows {VERSION}")
    kind = str(row["kind"])
    values: dict[str, Any] = {}
    for name in _KINDS[kind].__slots__:
        value = row.get(name)
        if name in _MESSAGES[kind]:
            try:
                values[name] = _MESSAGES[kind][name].FromString(base64.b64decode(value or "", validate=True))
            except (binascii.Error, TypeError) as error:
                raise ValueError(f"{name} is not in base64: {error}") from None
        elif not isinstance(value, bool if name == "skipped" else str):
            raise ValueError(f"{name} is {value!r}")
        else:
            values[name] = value
    made: Record = _KINDS[kind](**values)
    if _name(made) != path.name:
        raise ValueError(f"it is the record of {made.id}")
    return made
