"""The cgroups that the engine itself creates: those of pods that name none, and those of conmons.

Cgroups of containers are the OCI runtime's; a cgroup that a client names is the client's to remove. On cgroup v1 a
conmon is placed where something is counted or limited, in each hierarchy alike. A cgroup that is busy for a moment
after its last process is tried again; one that is still in use stays, unless all in it is to be ended. A path with ".."
is refused, because it leads out of the hierarchies.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from nri.engine.support.command import readable
from nri.engine.support.errors import EngineError
from nri.files import Seen, remove_tree, walk

_ROOT = Path("/sys/fs/cgroup")
_COUNTED = ("memory", "cpu", "cpuacct", "pids")
#: How long a process that was killed has to end, in seconds.
_END_S = 2.0
#: Processes that an error names.
_MAX_NAMED_PIDS = 8
#: Processes that are killed at a time; each takes a descriptor.
_BATCH = 256


class Cgroups:
    """The hierarchies below `root`: one of cgroup v2, or those of v1."""

    def __init__(self, *, v2: bool, root: Path = _ROOT) -> None:
        self._v2, self._root = v2, root

    def place(self, path: str) -> Callable[[int], None]:
        """Return a function that makes this cgroup and puts a process into it; it raises OSError."""

        def put(pid: int) -> None:
            seen = set()
            for top in self._tops(_COUNTED):
                folder = _below(top, path)
                folder.mkdir(parents=True, exist_ok=True)
                number = folder.stat().st_ino, folder.stat().st_dev
                if number not in seen:  # cpu and cpuacct may be one hierarchy
                    (folder / "cgroup.procs").write_text(str(pid))
                    seen.add(number)

        return put

    def remove(self, path: str) -> None:
        """Take a cgroup away with all below it, in all hierarchies, where nothing runs in it."""
        if not path.strip("/."):
            return
        for top in self._tops(()):
            with suppress(OSError):  # it is in use below
                remove_tree(_below(top, path), files=False)

    def end(self, path: str) -> None:
        """Kill all processes in a cgroup and below it, and wait for their end. Raises EngineError if one remains."""
        if not path.strip("/."):
            return  # a hierarchy's top is not a container's cgroup
        killed: set[int] = set()
        deadline = time.monotonic() + _END_S
        remaining: list[int] = []
        while new := sorted(self._processes(path) - killed)[:_BATCH]:  # a process may start others until it is killed
            self._thaw(path)  # a frozen process does not end
            remaining += self._kill(new, path, deadline)
            killed.update(new)
        if remaining:
            pids = ", ".join(map(str, remaining[:_MAX_NAMED_PIDS]))
            raise EngineError(f"cgroup {path}: {len(remaining)} processes remain {_END_S:g} s after SIGKILL: {pids}")

    def find(self, identity: str) -> list[str]:
        """The cgroups of a container or pod and of its conmon, by their names, wherever they are.

        For one whose record is lost. A cgroup that is below another one of the result is left out.
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
        """Kill processes of a cgroup; returns those that have not ended at the deadline, in monotonic seconds."""
        descriptors: dict[int, int] = {}
        try:
            for pid in pids:
                with suppress(OSError):  # it has ended
                    descriptors[pid] = os.pidfd_open(pid)
            present = self._processes(path)  # else the pid is another process's by now
            ending = {pid: descriptor for pid, descriptor in descriptors.items() if pid in present}
            for descriptor in ending.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return [pid for pid, descriptor in ending.items() if not readable(descriptor, deadline - time.monotonic())]
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _thaw(self, path: str) -> None:
        words = {"cgroup.freeze": "0", "freezer.state": "THAWED"}
        for seen in self._files(path, words):
            with suppress(OSError), open(_opened(seen, os.O_WRONLY), "w", encoding="ascii") as file:
                file.write(words[seen.name])

    def _processes(self, path: str) -> set[int]:
        """The pids in a cgroup and below it, in all hierarchies."""
        pids: set[int] = set()
        for seen in self._files(path, ("cgroup.procs",)):
            with suppress(OSError), open(_opened(seen, os.O_RDONLY), encoding="ascii") as file:
                pids.update(map(int, file.read().split()))
        return pids - {0}  # of a process that cannot be seen from here

    def _files(self, path: str, names: Collection[str]) -> Iterator[Seen]:
        """The files of these names in a cgroup and below it, in all hierarchies; none of a cgroup that is missing."""
        for top in self._tops(()):
            with suppress(OSError):
                yield from (seen for seen in walk(_below(top, path)) if seen.name in names)

    def _tops(self, wanted: tuple[str, ...]) -> Iterator[Path]:
        if self._v2:
            yield self._root
            return
        for top in sorted(self._root.iterdir()):
            if top.is_dir() and not top.is_symlink() and (not wanted or set(top.name.split(",")) & set(wanted)):
                yield top


def _below(top: Path, path: str) -> Path:
    """A cgroup's folder below the top of a hierarchy. Raises EngineError for a path that leads out of it."""
    if ".." in path.split("/"):
        raise EngineError(f"cgroup {path}: leads out of the hierarchy")
    return top / path.lstrip("/")


def _opened(seen: Seen, flags: int) -> int:
    return os.open(seen.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=seen.folder)
