"""Records on disk, so that a proxy that comes back knows plugins' names of containers and what they have heard.

Rules: one file for each pod and each container, replaced whole, so that a kill leaves the old one or the new one; a
machine that loses power may leave a torn one. A file that cannot be read is set aside below ``broken``, named, and
nothing else is lost, because the runtime can be asked again. A write that fails (a full disk) is reported once a minute
and changes nothing for the calls that run. Next: `nri.proxy.state.store`.
"""

from __future__ import annotations

import base64
import binascii
import errno
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from google.protobuf.message import DecodeError

from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.files import Lock, Records
from nri.proxy.state.records import ContainerRecord, PodRecord

__all__ = ["MOST_BYTES", "MOST_FILES", "VERSION", "Checkpoint"]

#: The form of what is written; a file of a higher one is set aside, not guessed at.
VERSION = 1
#: Attributes that have another key on disk, so that records of earlier proxies can be read.
_KEYS = {"reported": "told"}
#: The longest file, and the most of them: what is more stays in memory alone.
MOST_BYTES = 1 << 20
MOST_FILES = 20_000
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
        self._lock: Lock | None = None
        self._complained = -_COMPLAIN_S
        self._names: set[str] = set()

    def open(self) -> None:
        """Take the folder. Raises OSError if it cannot be had, is another user's, or another proxy has it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = self.folder.stat().st_uid
        if owner != os.geteuid():  # records hold the environment of containers, and its owner could read them
            raise PermissionError(errno.EPERM, f"it belongs to user {owner}", str(self.folder))
        try:
            self._lock = Lock(self.folder / "lock")
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another proxy keeps its records there", str(self.folder)) from None
        self._records = Records(self.folder, self.folder / "broken", version=VERSION, most_bytes=MOST_BYTES)

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            self._lock.close()

    def load(self) -> list[Record]:
        """All that can be read; the rest is set aside and named in the log."""
        records, unreadable = self._records.load(_read)
        self._names.update(map(_name, records))
        for row in unreadable:
            _log.warning("a record of the proxy cannot be read, the runtime is asked instead: %s", row.complaint)
        return records

    def put(self, record: Record) -> None:
        """Write a record. Errors are logged, never raised: the record is in memory."""
        try:
            name = _name(record)
            if len(self._names) >= MOST_FILES and name not in self._names:
                raise OSError(errno.EFBIG, f"{len(self._names)} files are there", name)
            self._records.put(name, _row(record), sync=False)
            self._names.add(name)
        except (OSError, ValueError) as error:
            self._complain(error)

    def delete(self, record: Record) -> None:
        """Remove a record's file."""
        with suppress(ValueError):
            name = _name(record)
            self._names.discard(name)
            try:
                self._records.remove(name, sync=False)
            except OSError as error:
                self._complain(error)

    def _complain(self, error: Exception) -> None:
        now = monotonic()
        if now - self._complained >= _COMPLAIN_S:
            self._complained = now
            _log.warning("records of the proxy cannot be written, a restart will ask the runtime instead: %s", error)


def _name(record: Record) -> str:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    if not _ID.fullmatch(record.id):
        raise ValueError(f"{record.id!r} is no id for a file's name")
    return f"{kind}-{record.id}"


def _row(record: Record) -> dict[str, Any]:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    row: dict[str, Any] = {"kind": kind}
    for name in type(record).__slots__:
        value = getattr(record, name)
        row[_KEYS.get(name, name)] = (
            base64.b64encode(value.SerializeToString()).decode() if name in _MESSAGES[kind] else value
        )
    return row


def _read(name: str, row: dict[str, Any]) -> Record:
    """A record. Raises ValueError for a row that holds none."""
    if row.get("kind") not in _KINDS:
        raise ValueError("it is no record of a pod or container")
    kind = str(row["kind"])
    values: dict[str, Any] = {}
    for key in _KINDS[kind].__slots__:
        value = row.get(_KEYS.get(key, key))
        if key in _MESSAGES[kind]:
            try:
                values[key] = _MESSAGES[kind][key].FromString(base64.b64decode(value or "", validate=True))
            except (binascii.Error, TypeError, DecodeError) as error:
                raise ValueError(f"{key} is no message in base64: {error}") from None
        elif not isinstance(value, bool if key == "skipped" else str):
            raise ValueError(f"{key} is {value!r}")
        else:
            values[key] = value
    made: Record = _KINDS[kind](**values)
    if _name(made) != name:
        raise ValueError(f"it is the record of {made.id}")
    return made
