"""The private folder of a pod: logs, volumes, the targets of sub-paths, and a record of the pod that has it.

A run creates the folder of its pod's uid or refuses, and what is removed is only what a run created: the folder that a
record names, and a cgroup that did not exist before.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.errors import NriError
from nri.files import TEMPORARY, read_regular, remove_tree, write_whole
from nri.host.cgroups import detect
from nri.host.root import MACHINE
from nri.pods.sub_paths import unbind_all

__all__ = ["LOGS", "SUB_PATHS", "VOLUMES", "PodRecord", "create", "remove", "set_pod_id"]

LOGS, VOLUMES, SUB_PATHS = "logs", "volumes", "subpaths"
_RECORD = "pod.json"
_MAX_RECORD_BYTES = 64 << 10
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The pod that has a folder.

    Attributes:
        name: `NAMESPACE/NAME`.
        id: of the sandbox; "" until the runtime has created it.
        cgroup: the cgroup that is removed with the pod, below the root of each hierarchy; one of systemd's is a slice.
    """

    name: str
    id: str
    cgroup: str


def create(folder: Path, name: str, cgroup: str) -> None:
    """Create the folder of a pod. Raises NriError if another pod has it or the cgroup, OSError if it cannot be made."""
    _create_parent(folder.parent)
    remedy = "remove that pod, or leave metadata.uid out of the manifest"
    if path := next((path for path in _cgroup_paths(cgroup) if os.path.lexists(path)), ""):
        raise NriError(f"pod {name}: another pod has the uid {folder.name}: the cgroup {path} already exists; {remedy}")
    unnamed = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
    try:
        for part in (LOGS, VOLUMES, SUB_PATHS):
            (unnamed / part).mkdir(0o700)
        _write_record(unnamed, PodRecord(name, "", cgroup))
        os.rename(unnamed, folder)  # fails where another run was first, whose folder is never empty
    except OSError as error:
        if error.errno not in _TAKEN:
            raise OSError(error.errno, error.strerror, str(folder)) from None
        owner = _read_record(folder)
        other = f"pod {owner.name} already has" if owner else f"{folder} already exists: another pod has"
        raise NriError(f"pod {name}: {other} the uid {folder.name}; {remedy}") from None
    finally:
        remove_tree(unnamed)


def set_pod_id(folder: Path, pod_id: str) -> None:
    """Add the id of the sandbox to the record of a folder. Raises OSError."""
    record = _read_record(folder)
    if record is not None:
        _write_record(folder, PodRecord(record.name, pod_id, record.cgroup))


def remove(folder: Path, name: str, pod_id: str) -> None:
    """Remove the folder of a pod, what is mounted in it, and its cgroup. Raises OSError.

    A folder without a record, or of another pod, stays.
    """
    record = _read_record(folder)
    if record is None or record.name != name or record.id not in ("", pod_id):
        return
    if record.cgroup.endswith(f"/pod{folder.name}"):
        for path in _cgroup_paths(record.cgroup):
            with suppress(OSError):
                remove_tree(path, files=False)
    unbind_all(folder / SUB_PATHS)
    remove_tree(folder)


def _create_parent(folder: Path) -> None:
    """Create the folder of all pods, or check that no other user can exchange what is in an existing one."""
    with suppress(FileExistsError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o750)
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if status.st_uid not in (0, os.geteuid()):
        raise NriError(f"{folder}: user {status.st_uid} owns the folder of pods; name another one with --pods-dir")
    if status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
        raise NriError(f"{folder}: other users may write to the folder of pods; chmod go-w {folder}")


def _cgroup_paths(cgroup: str) -> list[str]:
    """The paths of a cgroup in all hierarchies; none of one that systemd manages."""
    if not cgroup.startswith("/") or ".." in cgroup.split("/"):
        return []
    return [f"{row.path}{cgroup}" for row in detect(MACHINE).rows]


def _read_record(folder: Path) -> PodRecord | None:
    """The record of a folder; None if there is no record, or one that cannot be read."""
    try:
        row: Any = parse_json(read_regular(folder / _RECORD, _MAX_RECORD_BYTES, follow=False))
        values = [row[key] for key in PodRecord.__slots__]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return PodRecord(*values) if all(isinstance(value, str) for value in values) else None


def _write_record(folder: Path, record: PodRecord) -> None:
    write_whole(folder / _RECORD, json.dumps(asdict(record)).encode())
