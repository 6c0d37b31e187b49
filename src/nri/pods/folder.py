"""The private folder of a pod: logs, volumes, targets of sub-paths, and a record of its owner.

A run holds the folder's lock until the record has the id of the sandbox. So if a record has no id and the lock is free,
its run was killed before any container started.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.engine.support.kernel import detach_below
from nri.errors import NriError
from nri.files import TEMPORARY, Lock, read_regular, remove_tree, write_whole
from nri.host.cgroups import SystemdUnits, detect, expand_slice
from nri.host.root import MACHINE

LOGS, VOLUMES, SUB_PATHS = "logs", "volumes", "subpaths"
_RECORD, _LOCK = "pod.json", "lock"
_MAX_RECORD_BYTES = 64 << 10
#: Wait this long for another command that removes a folder.
REMOVAL_TIMEOUT_S = 30.0
#: Try the lock at this interval.
_LOCK_INTERVAL_S = 0.1
_SLICE = ".slice"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The owner of a folder.

    Attributes:
        name: `NAMESPACE/NAME`.
        id: the id of the sandbox, or "" until the runtime has created it.
        cgroup: the cgroup to remove with the pod, below the root of each hierarchy; with systemd a slice.
    """

    name: str
    id: str
    cgroup: str


def create(folder: Path, name: str, cgroup: str) -> Lock:
    """Create the folder of a pod. Returns its lock, which the caller holds until it has called `set_pod_id`.

    Folders of runs that were killed before their pod had a sandbox are removed.
    Raises NriError if another pod has the folder or the cgroup, OSError if the folder cannot be created.
    """
    _create_parent(folder.parent)
    _remove_abandoned(folder.parent)
    remedy = "remove that pod, or remove metadata.uid from the manifest"
    if path := next((path for path in _cgroup_paths(cgroup) if os.path.lexists(path)), ""):
        raise NriError(f"pod {name}: another pod has the uid {folder.name}: the cgroup {path} already exists; {remedy}")
    lock = _new_lock(folder)
    if lock is None:
        owner = _read_record(folder)
        other = f"pod {owner.name}" if owner else f"{folder} exists: another pod"
        raise NriError(f"pod {name}: {other} already has the uid {folder.name}; {remedy}")
    try:
        _write_record(folder, PodRecord(name, "", cgroup))
        for part in (LOGS, VOLUMES, SUB_PATHS):
            (folder / part).mkdir(0o700)
    except BaseException as error:
        with lock:
            _remove_locked(folder)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(folder)) from None
        raise
    return lock


def set_pod_id(folder: Path, pod_id: str) -> None:
    """Add the id of the sandbox to the record of a folder. Raises OSError if that fails."""
    record = _read_record(folder)
    if record is not None:
        _write_record(folder, PodRecord(record.name, pod_id, record.cgroup))


def remove(folder: Path, name: str, pod_id: str) -> None:
    """Remove the folder of a pod, its mounts, and its cgroup. Raises OSError if that fails.

    A folder without a record, of another pod, or of a run that has not created its sandbox yet, is kept.
    """
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while (record := _read_record(folder)) is not None and record.name == name and record.id in ("", pod_id):
        if _remove_unlocked(folder, record) or not record.id:
            return
        if time.monotonic() > deadline:
            raise OSError(errno.EBUSY, "another command is removing it", str(folder))
        time.sleep(_LOCK_INTERVAL_S)


def _remove_unlocked(folder: Path, record: PodRecord) -> bool:
    """Remove a folder with this record, and its cgroup. Returns False if another process holds the lock."""
    try:
        lock = Lock(folder / _LOCK)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    with lock:
        if _read_record(folder) != record:
            return False
        if record.cgroup.endswith((f"/pod{folder.name}", f"-pod{folder.name.replace('-', '_')}.slice")):
            _remove_cgroup(record.cgroup)
        _remove_locked(folder)
    return True


def _remove_locked(folder: Path) -> None:
    """Remove a folder whose lock this process holds, its record last, so that a failed removal can be repeated."""
    detach_below(folder)
    names = [name for name in os.listdir(folder) if name not in (_RECORD, _LOCK)]
    for name in [*names, _RECORD, _LOCK]:
        remove_tree(folder / name)
    with suppress(FileNotFoundError):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # another run has just used the folder
                raise


def _remove_abandoned(parent: Path) -> None:
    """Remove folders of runs that were killed before their pods had a sandbox. Errors are ignored."""
    for entry in os.scandir(parent):
        folder = Path(entry.path)
        record = _read_record(folder)
        if record is not None and not record.id and not any(map(os.path.lexists, _cgroup_paths(record.cgroup))):
            with suppress(OSError):
                _remove_unlocked(folder, record)


def _new_lock(folder: Path) -> Lock | None:
    """Create a folder and take its lock. Returns None if another run holds the lock, or if the folder is not empty."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(0o700)
        try:
            if not _is_own(folder) or not _is_unused(folder):
                return None
            lock = Lock(folder / _LOCK)
            if _is_unused(folder):
                return lock
            lock.close()
        except BlockingIOError:
            return None
        except FileNotFoundError:
            continue  # another command has just removed it
        except OSError as error:  # a full disk
            with suppress(OSError):
                folder.rmdir()
            raise OSError(error.errno, error.strerror, str(folder)) from None


def _is_unused(folder: Path) -> bool:
    """Whether a folder is empty, or has only files of a run that was killed before it had written its record."""
    return all(name == _LOCK or name.startswith(TEMPORARY) for name in os.listdir(folder))


def _is_own(folder: Path) -> bool:
    """Whether a path is a folder of this user and not a link. Raises OSError."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _create_parent(folder: Path) -> None:
    """Create the folder of all pods, or check that no other user can replace it or its files."""
    with suppress(FileExistsError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o750)
    real = folder.resolve()
    for path in (real, *real.parents):
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        what = "the folder of pods" if path == real else f"a folder above {folder}"
        if status.st_uid not in (0, os.geteuid()):
            raise NriError(f"{path}: user {status.st_uid} owns {what}; choose another folder with --pods-dir")
        if status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
            raise NriError(f"{path}: other users may write to {what}; chmod go-w {path}")


def _remove_cgroup(cgroup: str) -> None:
    paths = [path for path in _cgroup_paths(cgroup) if os.path.lexists(path)]
    if paths and cgroup.endswith(_SLICE):
        SystemdUnits(MACHINE).stop(cgroup)
        return
    for path in paths:
        with suppress(OSError):
            remove_tree(path, files=False)


def _cgroup_paths(cgroup: str) -> list[str]:
    """The paths of a cgroup, or of a slice of systemd, in all hierarchies."""
    if ".." in cgroup.split("/") or not (cgroup.startswith("/") or cgroup.endswith(_SLICE)):
        return []
    try:
        return [f"{row.path}/{expand_slice(cgroup)}" for row in detect(MACHINE).rows]
    except ValueError:  # not the name of a slice
        return []


def _read_record(folder: Path) -> PodRecord | None:
    """The record of a folder. Returns None if it is missing or invalid."""
    try:
        if not _is_own(folder):
            return None
        row: Any = parse_json(read_regular(folder / _RECORD, _MAX_RECORD_BYTES, follow=False))
        values = [row[key] for key in PodRecord.__slots__]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return PodRecord(*values) if all(isinstance(value, str) for value in values) else None


def _write_record(folder: Path, record: PodRecord) -> None:
    write_whole(folder / _RECORD, json.dumps(asdict(record)).encode())
