"""A program that prints each value written to cgroups of pods: `python -m bench.studies.modes.watcher NAME`.

NAME is the cgroup below which the kubelet has its pods; a second argument replaces /sys/fs/cgroup. Each change of a
file of `pods.FILES` is a line of JSON: `cgroup` (the last part: a container's id, or pod and its uid), `file`,
`value`, `ns` (nanoseconds since 1970). It sleeps in inotify, which reports writes to cgroup files by any process.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time
from pathlib import Path

from bench.studies.modes.pods import FILES

_TOP = "/sys/fs/cgroup"
_MODIFY, _CREATE, _IS_FOLDER, _OVERFLOW = 0x2, 0x100, 0x40000000, 0x4000
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Watcher:
    """Follows folders, and prints new values."""

    def __init__(self) -> None:
        self._fd = _libc.inotify_init1(os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, Path] = {}
        self._told: dict[tuple[Path, str], str] = {}

    def follow(self, folder: Path) -> None:
        """Watch a folder and all below it, and print their present values."""
        number = _libc.inotify_add_watch(self._fd, os.fsencode(folder), _MODIFY | _CREATE)
        if number < 0:
            return  # removed meanwhile
        self._folders[number] = folder
        for name in FILES:
            self._tell(folder, name)
        try:
            below = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
        except OSError:
            return
        for path in below:
            self.follow(Path(path))

    def run(self) -> None:
        """Tell until the end of the process."""
        while True:
            data = os.read(self._fd, 1 << 16)
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                name = data[at : at + length].rstrip(b"\0").decode()
                at += length
                self._take(number, mask, name)
            sys.stdout.flush()

    def _take(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            raise RuntimeError("more changes than the kernel keeps")
        folder = self._folders.get(number)
        if folder is None:
            return
        if mask & _IS_FOLDER:
            self.follow(folder / name)
        elif name in FILES:
            self._tell(folder, name)

    def _tell(self, folder: Path, name: str) -> None:
        try:
            value = (folder / name).read_text().strip()
        except OSError:
            return
        if self._told.get((folder, name)) != value:
            self._told[folder, name] = value
            line = {"cgroup": folder.name, "file": name, "value": value, "ns": time.time_ns()}
            sys.stdout.write(json.dumps(line) + "\n")


def main() -> None:
    """Watch what the command line names."""
    watcher = Watcher()
    name, top = [*sys.argv[1:], _TOP][:2]
    for controller in sorted(set(FILES.values())):
        watcher.follow(Path(top, controller, name))
    sys.stdout.write('{"event": "ready"}\n')
    sys.stdout.flush()
    watcher.run()


if __name__ == "__main__":
    main()
