"""The cgroup hierarchies of a machine: the version of each controller, and the folder of a cgroup for it.

On a hybrid machine some controllers are on version 1 and others on version 2. The path of a cgroup is the same in all
hierarchies, without a leading slash.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from nri import mountinfo
from nri.host.root import Files, Root
from nri.mountinfo import Mount

_TOP = "/sys/fs/cgroup"
#: Processes of a cgroup are looked up in the hierarchies of these controllers first, in this order, then in all other
#: hierarchies. "" is version 2.
_SEARCH_ORDER = ("cpu", "memory", "cpuset", "pids", "")
_V1_PROCESSES, _V1_THREADS, _V2_THREADS = "cgroup.procs", "tasks", "cgroup.threads"
_CRUN_CGROUP = "container"

Version = Literal[1, 2]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted hierarchy.

    Attributes:
        version: 1 or 2.
        path: the folder of the root cgroup.
        controllers: its controllers; on version 2 all controllers that are not on version 1.
    """

    version: Version
    path: str
    controllers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """All hierarchies of a machine, and its files.

    Attributes:
        files: the files of the machine.
        rows: the hierarchies.
    """

    files: Files
    rows: tuple[Hierarchy, ...]
    _by_controller: dict[str, Hierarchy] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_controller: dict[str, Hierarchy] = {}
        for row in sorted(self.rows, key=lambda row: row.version):
            for controller in row.controllers:
                by_controller.setdefault(controller, row)
            if row.version == 2:
                by_controller[""] = row
        object.__setattr__(self, "_by_controller", by_controller)

    @property
    def mode(self) -> Literal["v1", "v2", "hybrid", "none"]:
        """The layout: `hybrid` has hierarchies of both versions."""
        versions = {row.version for row in self.rows}
        return "none" if not versions else "hybrid" if len(versions) == 2 else "v1" if versions == {1} else "v2"

    def of(self, controller: str) -> Hierarchy | None:
        """The hierarchy of a controller; "" means the hierarchy of version 2. Returns None if it is not mounted."""
        return self._by_controller.get(controller)

    def folder(self, controller: str, cgroup: str, *, inner: bool = True) -> str | None:
        """The folder of a cgroup in a controller's hierarchy. Returns None if the hierarchy is not mounted.

        Args:
            controller: the name of a controller, or "" for the hierarchy of version 2.
            cgroup: the cgroup's path.
            inner: for a scope, return the folder of the cgroup that crun creates in the scope, if there is one
                (`inner_folder`).

        Raises:
            ValueError: the path leads out of the hierarchy.
        """
        row = self.of(controller)
        if row is None:
            return None
        folder = _join(row.path, cgroup)
        return inner_folder(self.files, folder) if inner and row.version == 2 else folder

    def exists(self, cgroup: str) -> bool:
        """Whether any hierarchy has this cgroup."""
        return any(self.files.exists(_join(row.path, cgroup)) for row in self.rows)

    def processes(self, cgroup: str) -> list[int]:
        """The processes of a cgroup, ascending, without cgroups below. Raises FileNotFoundError if it is missing."""
        return self._listed_ids(cgroup, _V1_PROCESSES, _V1_PROCESSES)

    def threads(self, cgroup: str) -> list[int]:
        """The threads of a cgroup, ascending, without cgroups below. Raises FileNotFoundError if it is missing."""
        return self._listed_ids(cgroup, _V1_THREADS, _V2_THREADS)

    def below(self, cgroup: str, controller: str = "") -> list[str]:
        """The names of a cgroup's children in a controller's hierarchy.

        Without a controller, the first hierarchy in which the cgroup has children is used.
        """
        for row in self._in_order(controller):
            names = self.files.folders(_join(row.path, cgroup))
            if names:
                return names
        return []

    def _in_order(self, controller: str = "") -> Iterator[Hierarchy]:
        names = (controller,) if controller else _SEARCH_ORDER
        rows = [row for row in map(self.of, names) if row is not None]
        yield from dict.fromkeys([*rows, *(() if controller else self.rows)])

    def _listed_ids(self, cgroup: str, v1: str, v2: str) -> list[int]:
        for row in self._in_order():
            try:
                text = self.files.read(f"{_join(row.path, cgroup)}/{v1 if row.version == 1 else v2}")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno in (errno.ENODEV, errno.EOPNOTSUPP):  # the cgroup was just removed, or is threaded
                    continue
                raise
            # A process in an outer pid namespace is listed as 0, which system calls would take for the caller.
            return sorted({int(word) for word in text.split()} - {0})
        raise FileNotFoundError(errno.ENOENT, "the cgroup does not exist in any hierarchy", cgroup)


def inner_folder(files: Files, folder: str) -> str:
    """The folder with the limits and processes of the container in a scope: the scope, or crun's cgroup below it.

    On cgroup v2 with systemd, crun creates a cgroup in the scope. A container may create a cgroup with
    the same name, so crun's cgroup is recognised by the fact that no processes are in the scope itself.
    """
    inner = f"{folder}/{_CRUN_CGROUP}"
    try:
        is_crun = folder.endswith(".scope") and files.exists(inner) and files.folders(folder) == [_CRUN_CGROUP]
        return inner if is_crun and not files.read(f"{folder}/{_V1_PROCESSES}").strip() else folder
    except OSError:  # the cgroup was just removed, or is threaded, so that its processes cannot be read
        return folder


def detect(root: Root) -> Hierarchies:
    """Find the hierarchies of a machine in its mount table (`mounts`), or else by the folders below /sys/fs/cgroup."""
    rows = tuple(_in_mount_table(root)) or tuple(_by_folder_name(root))
    return Hierarchies(root, rows)


def mounts(root: Root) -> Iterator[Mount]:
    """Yield the mounts of a machine.

    The mount table of this machine is read from this process; for another root, from the root's process 1.
    """
    yield from mountinfo.parse(
        (root.find(mountinfo.OWN_MOUNT_TABLE if root.is_own else "/proc/1/mountinfo") or "").splitlines()
    )


def _in_mount_table(root: Root) -> Iterator[Hierarchy]:
    """Yield the hierarchies in the mount table. A hierarchy that is mounted several times is yielded once."""
    devices: set[str] = set()
    for mount in mounts(root):
        if mount.kind not in ("cgroup", "cgroup2") or mount.device in devices or not root.exists(mount.path):
            continue
        devices.add(mount.device)
        if mount.kind == "cgroup2":
            yield _version_2(root, mount.path)
        else:
            mount_flags = {"rw", "ro", "xattr", "noprefix", "clone_children"}
            yield Hierarchy(1, mount.path, frozenset(mount.options) - mount_flags)


def _by_folder_name(root: Root) -> Iterator[Hierarchy]:
    """Yield the hierarchies below /sys/fs/cgroup; a folder's name lists the controllers of version 1."""
    if root.exists(f"{_TOP}/cgroup.controllers"):
        yield _version_2(root, _TOP)
        return
    for name in root.folders(_TOP):
        path = f"{_TOP}/{name}"
        if root.exists(f"{path}/cgroup.controllers"):
            yield _version_2(root, path)
        else:
            yield Hierarchy(1, path, frozenset(name.split(",")))


def _version_2(root: Root, path: str) -> Hierarchy:
    return Hierarchy(2, path, frozenset((root.find(f"{path}/cgroup.controllers") or "").split()))


def _join(top: str, cgroup: str) -> str:
    if ".." in cgroup.split("/"):
        raise ValueError(f"{cgroup!r} leads out of the hierarchy")
    return os.path.join(top, cgroup.strip("/")).rstrip("/")
