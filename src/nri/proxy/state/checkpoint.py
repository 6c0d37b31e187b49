"""Records on disk, so that a restarted proxy knows plugins' ids of containers and what was reported to plugins.

Each pod and container has a file, which is replaced atomically. A file that cannot be read is moved below ``broken``,
and the runtime is queried instead.
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

#: The version of the file format. A file of a higher version is not read.
VERSION = 1
#: Attributes that have a different key on disk, as in records of earlier proxies.
_KEYS = {"reported_step": "told", "requested_resources": "asked", "plugin_view": "shown"}
#: A record with a larger file is stored only in memory.
MAX_BYTES = 1 << 20
#: The folder has at most this many files; further records are stored only in memory.
MAX_FILES = 20_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COMPLAIN_S = 60.0
_KINDS: dict[str, Any] = {"pod": PodRecord, "container": ContainerRecord}
#: The fields that are messages; the others are strings and flags.
_MESSAGES: dict[str, dict[str, Any]] = {
    "pod": {"config": pb.PodSandboxConfig, "plugin_view": m.PodSandbox},
    "container": {
        "config": pb.ContainerConfig, "requested_resources": pb.LinuxContainerResources,
        "resources": pb.LinuxContainerResources,
        "plugin_view": m.Container,
    },
}  # fmt: skip
Record = PodRecord | ContainerRecord

_log = logging.getLogger("nri.proxy")


class Checkpoint:
    """The records of a proxy in a folder, which is locked between `open` and `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: Lock | None = None
        self._last_complaint = -_COMPLAIN_S
        self._names: set[str] = set()

    def open(self) -> None:
        """Lock the folder. Raises OSError if it cannot be created, has another owner, or is used by another proxy."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = self.folder.stat().st_uid
        if owner != os.geteuid():  # records contain environments of containers, which the owner could read
            raise PermissionError(errno.EPERM, f"the folder belongs to user {owner}", str(self.folder))
        try:
            self._lock = Lock(self.folder / "lock")
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another proxy uses this folder", str(self.folder)) from None
        self._records = Records(self.folder, self.folder / "broken", version=VERSION, most_bytes=MAX_BYTES)

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            self._lock.close()

    def load(self) -> list[Record]:
        """Load all records. Unreadable records are moved below ``broken`` and logged."""
        records, unreadable = self._records.load(_read)
        self._names.update(map(_name, records))
        for row in unreadable:
            _log.warning("cannot read a record of the proxy; the runtime is queried instead: %s", row.complaint)
        return records

    def put(self, record: Record) -> None:
        """Write a record. Errors are only logged, at most once a minute, because the record is in memory."""
        try:
            name = _name(record)
            if len(self._names) >= MAX_FILES and name not in self._names:
                raise OSError(errno.EFBIG, f"the folder already has {len(self._names)} files", name)
            self._records.put(name, _record_row(record), sync=False)
            self._names.add(name)
        except (OSError, ValueError) as error:
            self._log_error(error)

    def delete(self, record: Record) -> None:
        """Remove a record's file."""
        with suppress(ValueError):
            name = _name(record)
            self._names.discard(name)
            try:
                self._records.remove(name, sync=False)
            except OSError as error:
                self._log_error(error)

    def _log_error(self, error: Exception) -> None:
        now = monotonic()
        if now - self._last_complaint >= _COMPLAIN_S:
            self._last_complaint = now
            _log.warning("cannot write records of the proxy; a restart will query the runtime instead: %s", error)


def _name(record: Record) -> str:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    if not _ID.fullmatch(record.id):
        raise ValueError(f"the id {record.id!r} cannot be a file name")
    return f"{kind}-{record.id}"


def _record_row(record: Record) -> dict[str, Any]:
    kind = "pod" if isinstance(record, PodRecord) else "container"
    row: dict[str, Any] = {"kind": kind}
    for name in type(record).__slots__:
        value = getattr(record, name)
        row[_KEYS.get(name, name)] = (
            base64.b64encode(value.SerializeToString()).decode() if name in _MESSAGES[kind] else value
        )
    return row


def _read(name: str, row: dict[str, Any]) -> Record:
    """Create a record from a row. Raises ValueError for an invalid row."""
    if row.get("kind") not in _KINDS:
        raise ValueError("not a record of a pod or container")
    kind = str(row["kind"])
    values: dict[str, Any] = {}
    for key in _KINDS[kind].__slots__:
        stored_key = _KEYS.get(key, key)
        value = row.get(stored_key)
        if key in _MESSAGES[kind]:
            try:
                values[key] = _MESSAGES[kind][key].FromString(base64.b64decode(value or "", validate=True))
            except (binascii.Error, TypeError, DecodeError) as error:
                raise ValueError(f"{stored_key} is not a message in base64: {error}") from None
        elif not isinstance(value, bool if key == "skipped" else str):
            raise ValueError(f"{stored_key} is {value!r}")
        else:
            values[key] = value
    record: Record = _KINDS[kind](**values)
    if _name(record) != name:
        raise ValueError(f"the file has the record of {record.id}")
    return record
