"""Records on disk: one JSON file for each pod and each container, replaced atomically.

An unreadable file is set aside in the folder ``broken``, and the others are loaded.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nri.engine.state.records import ContainerRecord, PodRecord, Record
from nri.files import Records, Unreadable, private_folder

#: The version of the file format. A file with a higher version is set aside.
VERSION = 1
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

R = TypeVar("R", bound=Record)


class LoadedRecords(NamedTuple):
    """All records on disk, by id.

    Attributes:
        lost_pods, lost_containers: a line for each unreadable record, with the path to which its file was moved.
        complaints: a line for every file that was set aside, including the unreadable records.
    """

    pods: dict[str, PodRecord]
    containers: dict[str, ContainerRecord]
    lost_pods: dict[str, str]
    lost_containers: dict[str, str]
    complaints: list[str]


class Store:
    """The records of one engine below `root`. The caller must have locked the folder."""

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        aside = root / "broken"
        self._pods = Records(root / "pods", aside, version=VERSION)
        self._containers = Records(root / "containers", aside, version=VERSION)

    def put(self, record: PodRecord | ContainerRecord, *, sync: bool = True) -> None:
        """Write a record. Raises OSError if writing fails; then the previous record is still valid.

        Without `sync` the record may be lost if the machine crashes.
        """
        self._records_of(record).put(_checked_id(record.id), record.to_json(), sync=sync)

    def remove(self, identity: str, *, sync: bool = True) -> None:
        """Remove the record of a pod or container. No effect if it does not exist."""
        for records in (self._pods, self._containers):
            records.remove(_checked_id(identity), sync=sync)

    def load(self) -> LoadedRecords:
        """Read all records. Half-written files are deleted, invalid ones set aside."""
        pods, bad_pods = self._pods.load(partial(_read, PodRecord))
        containers, bad_containers = self._containers.load(partial(_read, ContainerRecord))
        return LoadedRecords(
            {pod.id: pod for pod in pods},
            {container.id: container for container in containers},
            _unreadable_records(bad_pods),
            _unreadable_records(bad_containers),
            [row.complaint for row in (*bad_pods, *bad_containers)],
        )

    def set_aside(self, record: PodRecord | ContainerRecord) -> str:
        """Move a record to the folder ``broken``, and return a description of its new path."""
        return self._records_of(record).set_aside(_checked_id(record.id))

    def _records_of(self, record: PodRecord | ContainerRecord) -> Records:
        return self._pods if isinstance(record, PodRecord) else self._containers


def _read(kind: type[R], name: str, row: dict[str, Any]) -> R:
    record = kind.from_json(row)
    if record.id != name:
        raise ValueError(f"the file contains the record of {record.id!r}")
    return record


def _unreadable_records(rows: list[Unreadable]) -> dict[str, str]:
    """Return the lines about unreadable records by id. A file whose name is not an id was not a record."""
    return {row.name: row.complaint for row in rows if _ID.fullmatch(row.name)}


def _checked_id(identity: str) -> str:
    if not _ID.fullmatch(identity):
        raise ValueError(f"{identity!r} is not a valid id")
    return identity
