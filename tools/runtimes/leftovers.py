"""Remove everything that a private runtime left behind: processes, mounts, cgroups, bridge, files, CNI's records.

It works from the name of the run directory alone, whether or not the runtime still lives. A live owner holds a lock on
its run directory, which a sweep leaves alone. Several processes may make run directories and sweep at once: `alone`
excludes others.
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
#: The cache of the CNI library; its place does not depend on the runtime's folders.
CNI_RESULTS = Path("/var/lib/cni/results")
#: A file of this name keeps a run directory after the end of its owner.
KEEP = "keep"

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCBRDELBR, _IFF_UP = 0x8913, 0x8914, 0x89A1, 1
_ATTEMPTS, _PAUSE_S = 100, 0.05


def sweep(*, include_kept: bool = False) -> list[Path]:
    """Remove run directories without a live owner, with `include_kept` also those to keep. Returns the directories."""
    with alone():
        return sweep_alone(include_kept=include_kept)


def sweep_alone(*, include_kept: bool = False) -> list[Path]:
    """The same for a caller that is `alone` already."""
    removed = []
    for place in PLACES:
        for run_dir in sorted(Path(place).glob(f"{PREFIX}*")):
            if not _is_folder_of_this_user(run_dir):
                continue
            # Checked last: an owner first writes `KEEP` and then releases its lock.
            if not is_owned(run_dir) and (include_kept or not (run_dir / KEEP).exists()):
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
    """Keep other processes from sweeping and from making a run directory while the block runs."""
    place = next(place for place in PLACES if os.access(place, os.R_OK))  # the same one for all
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock(run_dir: Path) -> int:
    """Mark a run directory as in use while the returned file descriptor is open; call it `alone`."""
    descriptor = os.open(run_dir / "owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_owned(run_dir: Path) -> bool:
    """Whether a live process has locked the directory."""
    try:
        os.close(lock(run_dir))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def remove(run_dir: Path) -> None:
    """End all processes of this run directory, then remove its mounts, cgroups, bridge and files, wherever they lie."""
    sockets = shim_sockets(run_dir)
    for _ in range(_ATTEMPTS):
        # Containers first: a shim cleans up when its container ends.
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
    """The CNI library's records of this run's pods, or of all runs without a directory.

    The library deletes only records of pods that were removed properly. Empty if this user may not change the folder.
    """
    if not os.access(CNI_RESULTS, os.R_OK | os.W_OK | os.X_OK):
        return []
    paths = [*CNI_RESULTS.glob("*")]
    # Listed after the records, because a run has its directory before it has a pod.
    run_names = {path.name for place in PLACES for path in Path(place).glob(f"{PREFIX}*")}
    records = []
    for path in paths:
        with contextlib.suppress(OSError):
            run = re.search(rf"{PREFIX}\w+", path.name) or re.search(rf"/{PREFIX}\w+", path.read_text(errors="replace"))
            name = run[0].lstrip("/") if run else ""
            if name and (name not in run_names if run_dir is None else name == run_dir.name):
                records.append(path)
    return records


def shim_sockets(run_dir: Path) -> list[Path]:
    """The sockets of this run's live shims, in /run/containerd/s wherever the daemon's folders are."""
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
    prefix = f"{run_dir}/".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if any(part.startswith(prefix) for part in (entry / "cmdline").read_bytes().split(b"\0")):
                    pids.append(int(entry.name))
    return pids


def _remove_cgroups(name: str) -> None:
    """Remove the run's cgroups; that is possible only when their killed processes have ended."""
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
