"""Cgroups of the engine's own making: those of pods that name none, and those of conmons.

Rules: cgroups of containers are the OCI runtime's; what a client named is the client's to remove. On cgroup v1 a
conmon is placed where something is counted or limited, in each hierarchy alike. One that is busy for a moment after
its last process is tried again; one that is still in use stays, unless all in it is to be ended. Next:
:mod:`nri.engine.lifecycle.parts.pod_namespaces`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from nri.engine.support.command import readable
from nri.files import remove_tree

__all__ = ["Cgroups"]

_ROOT = Path("/sys/fs/cgroup")
_COUNTED = ("memory", "cpu", "cpuacct", "pids")
#: How long a process that was killed has to end, in seconds.
_END_S = 2.0


class Cgroups:
    """The hierarchies below `root`: one of cgroup v2, or those of v1."""

    def __init__(self, *, v2: bool, root: Path = _ROOT) -> None:
        self._v2, self._root = v2, root

    def place(self, path: str) -> Callable[[int], None]:
        """Return a function that makes this cgroup and puts a process into it; it raises OSError."""

        def put(pid: int) -> None:
            seen = set()
            for top in self._tops(_COUNTED):
                folder = top / path.lstrip("/")
                folder.mkdir(parents=True, exist_ok=True)
                number = folder.stat().st_ino, folder.stat().st_dev
                if number not in seen:  # cpu and cpuacct may be one hierarchy
                    (folder / "cgroup.procs").write_text(str(pid))
                    seen.add(number)

        return put

    def remove(self, path: str) -> None:
        """Take a cgroup away with all below it, in all hierarchies, where nothing runs in it."""
        if not path.strip("/"):
            return
        for top in self._tops(()):
            with suppress(OSError):  # it is in use below
                remove_tree(top / path.lstrip("/"), files=False)

    def end(self, path: str) -> None:
        """Kill all that runs in a cgroup itself, and wait for its end."""
        killed: set[int] = set()
        while new := self._processes(path) - killed:
            for pid in new:
                with suppress(OSError):  # it has ended
                    self._kill(pid, path)
            killed |= new

    def _kill(self, pid: int, path: str) -> None:
        descriptor = os.pidfd_open(pid)
        try:
            if pid in self._processes(path):  # else the number is another one's by now
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                readable(descriptor, _END_S)
        finally:
            os.close(descriptor)

    def _processes(self, path: str) -> set[int]:
        found: set[int] = set()
        for top in self._tops(()):
            with suppress(OSError):
                found.update(map(int, (top / path.lstrip("/") / "cgroup.procs").read_text().split()))
        return found - {0}  # of a process that cannot be seen from here

    def _tops(self, wanted: tuple[str, ...]) -> Iterator[Path]:
        if self._v2:
            yield self._root
            return
        for top in sorted(self._root.iterdir()):
            if top.is_dir() and not top.is_symlink() and (not wanted or set(top.name.split(",")) & set(wanted)):
                yield top
