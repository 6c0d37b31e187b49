"""The cgroups that the engine creates: for pods that request no parent cgroup, and for conmon processes.

The OCI runtime manages the cgroups of containers. A client that requests a parent cgroup must remove it itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nri.engine.support.command import wait_readable
from nri.engine.support.errors import EngineError
from nri.files import WalkEntry, remove_tree, walk

_ROOT = Path("/sys/fs/cgroup")
#: The hierarchies of cgroup v1 in which a conmon is counted or limited.
_COUNTED = ("memory", "cpu", "cpuacct", "pids")
#: How long a killed process may take to end.
_END_S = 2.0
#: The maximum number of pids in an error.
_MAX_NAMED_PIDS = 8
#: The maximum number of processes that are killed at the same time. Each of them takes a descriptor.
_BATCH = 256


class Cgroups:
    """The cgroup hierarchies below `root`: the single hierarchy of cgroup v2, or all hierarchies of v1."""

    def __init__(self, *, v2: bool, root: Path = _ROOT) -> None:
        self._v2, self._root = v2, root

    def place(self, path: str) -> Callable[[int], None]:
        """Return a function that creates a cgroup and moves a process into it. The function raises OSError."""

        def put(pid: int) -> None:
            written = set()
            for top in self._tops(_COUNTED):
                folder = _cgroup_folder(top, path)
                folder.mkdir(parents=True, exist_ok=True)
                number = folder.stat().st_ino, folder.stat().st_dev
                if number not in written:  # cpu and cpuacct may be one hierarchy
                    (folder / "cgroup.procs").write_text(str(pid))
                    written.add(number)

        return put

    def remove(self, path: str) -> None:
        """Remove a cgroup and the cgroups below it in all hierarchies. Cgroups with processes stay."""
        if not path.strip("/."):
            return
        for top in self._tops(()):
            with suppress(OSError):  # a cgroup below it is in use
                remove_tree(_cgroup_folder(top, path), files=False)

    def end(self, path: str) -> None:
        """Kill all processes in a cgroup and below it, and wait for their end. Raises EngineError if one remains."""
        if not path.strip("/."):
            return  # the root of a hierarchy is not a container's cgroup
        killed: set[int] = set()
        deadline = time.monotonic() + _END_S
        remaining: list[int] = []
        while new := sorted(self._processes(path) - killed)[:_BATCH]:  # a process may start others until it is killed
            self._thaw_cgroup(path)  # a frozen process does not end
            remaining += self._kill(new, path, deadline)
            killed.update(new)
        if remaining:
            pids = ", ".join(map(str, remaining[:_MAX_NAMED_PIDS]))
            raise EngineError(f"cgroup {path}: {len(remaining)} processes remain {_END_S:g} s after SIGKILL: {pids}")

    def find(self, identity: str) -> list[str]:
        """Search all hierarchies for the cgroups of a container or pod, and of its conmon, by their names.

        This is for containers without a record. Cgroups below a cgroup in the result are left out.
        """
        names, paths = {identity, f"conmon-{identity}"}, set[str]()
        for top in self._tops(()):
            folders = [""]
            while folders:
                folder = folders.pop()
                with suppress(OSError), os.scandir(f"{top}/{folder}") as entries:
                    for entry in entries:
                        if not entry.is_dir(follow_symlinks=False):
                            continue
                        path = f"{folder}/{entry.name}"
                        if entry.name in names or entry.name.endswith(f"-{identity}.scope"):
                            paths.add(path)
                        else:
                            folders.append(path)
        return sorted(paths)

    def _kill(self, pids: list[int], path: str, deadline: float) -> list[int]:
        """Kill processes of a cgroup, and return the pids of those that have not ended at the deadline."""
        descriptors: dict[int, int] = {}
        try:
            for pid in pids:
                with suppress(OSError):  # it has ended
                    descriptors[pid] = os.pidfd_open(pid)
            present = self._processes(path)  # a pid that is not in the cgroup now was reused by another process
            ending = {pid: descriptor for pid, descriptor in descriptors.items() if pid in present}
            for descriptor in ending.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return [
                pid for pid, descriptor in ending.items() if not wait_readable(descriptor, deadline - time.monotonic())
            ]
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _thaw_cgroup(self, path: str) -> None:
        values = {"cgroup.freeze": "0", "freezer.state": "THAWED"}
        for entry in self._files(path, values):
            with suppress(OSError), open(_open_entry(entry, os.O_WRONLY), "w", encoding="ascii") as file:
                file.write(values[entry.name])

    def _processes(self, path: str) -> set[int]:
        """Return the pids in a cgroup and below it, in all hierarchies."""
        pids: set[int] = set()
        for entry in self._files(path, ("cgroup.procs",)):
            with suppress(OSError), open(_open_entry(entry, os.O_RDONLY), encoding="ascii") as file:
                pids.update(map(int, file.read().split()))
        return pids - {0}  # 0 is a process in another pid namespace

    def _files(self, path: str, names: Collection[str]) -> Iterator[WalkEntry]:
        """Yield the files of these names in a cgroup and below it, in all hierarchies."""
        for top in self._tops(()):
            with suppress(OSError):
                yield from (entry for entry in walk(_cgroup_folder(top, path)) if entry.name in names)

    def _tops(self, controllers: tuple[str, ...]) -> Iterator[Path]:
        if self._v2:
            yield self._root
            return
        for top in sorted(self._root.iterdir()):
            if (
                top.is_dir()
                and not top.is_symlink()
                and (not controllers or set(top.name.split(",")) & set(controllers))
            ):
                yield top


def _cgroup_folder(top: Path, path: str) -> Path:
    """Return a cgroup's folder in a hierarchy. Raises EngineError if the path leads out of the hierarchy."""
    if ".." in path.split("/"):
        raise EngineError(f"cgroup {path}: the path must not contain '..'")
    return top / path.lstrip("/")


def _open_entry(entry: WalkEntry, flags: int) -> int:
    return os.open(entry.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry.folder)
