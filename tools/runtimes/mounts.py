"""The system calls mount and umount, and the table of mounts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: Path, options: str) -> bool:
    """Mount a file system of that type; False if this machine does not let us."""
    name = kind.encode()
    return bool(_libc.mount(name, os.fsencode(target), name, ctypes.c_ulong(0), options.encode()) == 0)


def unmount(target: str | Path) -> None:
    """Detach a mount; it goes when its last user does."""
    _libc.umount2(os.fsencode(target), _MNT_DETACH)


def unmount_all(folder: Path) -> None:
    """Detach everything mounted on the folder or below it, the last mounted first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for target in reversed(mounts):
        if target == str(folder) or target.startswith(f"{folder}/"):
            unmount(target)
