"""Remove everything that a private runtime left behind: processes, mounts, cgroups, bridge, files, CNI's memory.

Rules: works from the run directory's name alone, whether or not the runtime still lives, so
it serves the normal end, an interrupted one, and a sweep after a kill. A live owner holds a
lock on its run directory; a sweep leaves such directories alone. Several processes may make
run directories and sweep at once: `alone` is for one at a time. Next: `containerd` calls this.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import shutil
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from tools.runtimes.mounts import unmount_all

PREFIX = "nri-rt-"
PLACES = ("/run", "/tmp")
SHIM_SOCKETS = "/run/containerd/s"
#: Where the library of CNI keeps what it has told plugins, whatever the runtime's folders are.
CNI_RESULTS = Path("/var/lib/cni/results")
KEEP = "keep"
"""A file of this name in a run directory says: its owner has ended and wants it to stay."""

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCBRDELBR, _IFF_UP = 0x8913, 0x8914, 0x89A1, 1
_ATTEMPTS, _PAUSE_S = 100, 0.05


def sweep(*, kept: bool = False) -> list[Path]:
    """Remove what dead owners left; with `kept`, also what was asked to stay. Returns the directories."""
    with alone():
        return sweep_alone(kept=kept)


def sweep_alone(*, kept: bool = False) -> list[Path]:
    """The same for who is `alone` already."""
    removed = []
    for place in PLACES:
        for run_dir in sorted(Path(place).glob(f"{PREFIX}*")):
            if not _is_folder_of_this_user(run_dir):
                continue
            # Asked for last: its owner lets go of it after it has said that it is to stay.
            if not is_owned(run_dir) and (kept or not (run_dir / KEEP).exists()):
                remove(run_dir)
                removed.append(run_dir)
    for path in cni_results():
        path.unlink(missing_ok=True)
    return removed


def _is_folder_of_this_user(path: Path) -> bool:
    """Whether a path is a folder that this user owns: in /tmp every user can create one of any name."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other processes from sweeping while the block lasts, and from making a run directory."""
    place = next(place for place in PLACES if os.access(place, os.R_OK))  # the same one for all
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def own(run_dir: Path) -> int:
    """Mark a run directory as in use for as long as the returned file descriptor is open; to be called `alone`."""
    descriptor = os.open(run_dir / "owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_owned(run_dir: Path) -> bool:
    """Whether a live process holds the directory's mark."""
    try:
        os.close(own(run_dir))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def remove(run_dir: Path) -> None:
    """End all processes of this run directory, then remove its mounts, cgroups, bridge and files, wherever they lie."""
    sockets = shim_sockets(run_dir)
    for _ in range(_ATTEMPTS):
        # Containers first: a shim that sees its container end tidies up by itself.
        alive = cgroup_processes(run_dir.name) + _processes_naming(run_dir)
        if not alive:
            break
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    unmount_all(run_dir)
    _remove_cgroups(run_dir.name)
    _remove_bridge(run_dir.name)
    shutil.rmtree(run_dir, ignore_errors=True)
    for path in (*sockets, *cni_results(run_dir)):
        path.unlink(missing_ok=True)


def cni_results(run_dir: Path | None = None) -> list[Path]:
    """What the library of CNI remembers of this run's pods, or of all runs whose directory is gone.

    It forgets only pods that were removed in order. A user who may not change that folder gets nothing.
    """
    if not os.access(CNI_RESULTS, os.R_OK | os.W_OK | os.X_OK):
        return []
    paths = [*CNI_RESULTS.glob("*")]
    # Looked at afterwards, since a run has its directory before it has a pod.
    there = {path.name for place in PLACES for path in Path(place).glob(f"{PREFIX}*")}
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            run = re.search(rf"{PREFIX}\w+", path.name) or re.search(rf"/{PREFIX}\w+", path.read_text(errors="replace"))
            name = run[0].lstrip("/") if run else ""
            if name and (name not in there if run_dir is None else name == run_dir.name):
                found.append(path)
    return found


def shim_sockets(run_dir: Path) -> list[Path]:
    """The sockets that live shims of this run listen on: in /run/containerd/s, whatever the daemon's folders are."""
    owned = set()
    for pid in {*cgroup_processes(run_dir.name), *_processes_naming(run_dir)}:
        with contextlib.suppress(OSError):
            owned |= {os.readlink(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
    # Columns: Num RefCount Protocol Flags Type St Inode Path
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    named = [(row[6], Path(row[7])) for row in rows if len(row) == 8]
    return [path for inode, path in named if f"socket:[{inode}]" in owned and path.is_relative_to(SHIM_SOCKETS)]


def cgroup_dirs(name: str) -> list[str]:
    """All cgroup directories of that run, children before parents (both cgroup versions)."""
    roots = glob.glob(f"/sys/fs/cgroup/{name}") + glob.glob(f"/sys/fs/cgroup/*/{name}")
    return [folder for root in roots for folder, _, _ in os.walk(root, topdown=False)]


def cgroup_processes(name: str) -> list[int]:
    """The ids of all processes in the run's cgroups."""
    pids: set[int] = set()
    for folder in cgroup_dirs(name):
        with contextlib.suppress(OSError):
            pids.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return sorted(pids)


def _processes_naming(run_dir: Path) -> list[int]:
    """Daemons, shims and plugins whose command line has a path in the run directory."""
    wanted = f"{run_dir}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if any(part.startswith(wanted) for part in (entry / "cmdline").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return found


def _remove_cgroups(name: str) -> None:
    """A cgroup can be removed only once its killed processes are gone, so this may take a moment."""
    for _ in range(_ATTEMPTS):
        for folder in cgroup_dirs(name):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if not cgroup_dirs(name):
            return
        time.sleep(_PAUSE_S)


def _remove_bridge(name: str) -> None:
    """Take the pod network's bridge down and delete it, if there is one of this name."""
    if not Path("/sys/class/net", name, "bridge").exists():
        return
    interface = name.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, contextlib.suppress(OSError):
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", interface, 0))
        flags = struct.unpack("16sH14x", answer)[1] & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", interface, flags))
        fcntl.ioctl(control, _SIOCBRDELBR, interface + bytes(16 - len(interface)))
