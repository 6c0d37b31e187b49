"""A kernel's cgroup files in memory, which refuses what the kernel refuses: for tests of what is written, and when.

Rules: paths and files are those of the table of knobs, on one cgroup version. A nested value that is not within that
of the cgroup above is refused, whichever of the two is written; so are a burst above the quota, a weight while
`cpu.idle` is 1 and a memory limit above that of memory and swap. Memory is counted in pages. `refused` and `written`
tell what came.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

from nri.host.cgroups.hierarchies import Hierarchies, Hierarchy, Version
from nri.host.cgroups.knobs import KNOBS, Knob, Place
from nri.host.cgroups.units import Value

PAGE = 4096
CONTROLLERS = {1: ("cpu", "cpuset", "memory", "pids", "blkio"), 2: ("cpu", "cpuset", "memory", "pids", "io")}
_NEW = {
    "cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.cfs_burst_us": "0",
    "cpu.idle": "0", "cpuset.cpus": "", "cpuset.mems": "", "memory.limit_in_bytes": "9223372036854771712",
    "memory.memsw.limit_in_bytes": "9223372036854771712", "pids.max": "max",
    "cpu.weight": "100", "cpu.max": "max 100000", "cpu.max.burst": "0", "memory.max": "max", "memory.min": "0",
    "memory.low": "0", "memory.high": "max", "memory.swap.max": "max", "io.weight": "default 100",
}  # fmt: skip


class FakeKernel:
    """The files below /sys/fs/cgroup. `lacking` are files that this kernel has not."""

    def __init__(self, version: Version = 1, missing_keys: frozenset[str] = frozenset()) -> None:
        self.version, self.lacking = version, missing_keys
        self.files: dict[str, str] = {}
        self.made: dict[str, int] = {}
        self.refused: list[tuple[str, str]] = []
        self.written: list[tuple[str, str]] = []
        self.add("")

    # The tree.

    def hierarchies(self) -> Hierarchies:
        tops = {self._top(name): name for name in CONTROLLERS[self.version]}
        if self.version == 2:
            return Hierarchies(self, (Hierarchy(2, "/sys/fs/cgroup", frozenset(CONTROLLERS[2])),))
        return Hierarchies(self, tuple(Hierarchy(1, top, frozenset({name})) for top, name in tops.items()))

    def add(self, cgroup: str, values: Mapping[str, Value] | None = None) -> None:
        """Make a cgroup with the kernel's first values, or with these, which are not looked at."""
        number = len(self.made) + 1
        for controller in CONTROLLERS[self.version]:
            self.made[self._folder(controller, cgroup)] = number
        for _, place in self._places():
            if place.file in _NEW and place.file not in self.lacking:
                self.files[f"{self._folder(place.controller, cgroup)}/{place.file}"] = _NEW[place.file]
        for name, value in (values or {}).items():
            place = KNOBS[name].places(self.version)[0]
            path = f"{self._folder(place.controller, cgroup)}/{place.file}"
            self.files[path] = self._merged(path, place.codec.encode(value, self.files[path])[-1].strip())

    def remove(self, cgroup: str) -> None:
        for controller in CONTROLLERS[self.version]:
            folder = self._folder(controller, cgroup)
            self.made = {path: number for path, number in self.made.items() if not f"{path}/".startswith(f"{folder}/")}
            self.files = {path: text for path, text in self.files.items() if not path.startswith(f"{folder}/")}

    def value(self, cgroup: str, name: str) -> Value:
        place = KNOBS[name].places(self.version)[0]
        return place.codec.decode(self.files[f"{self._folder(place.controller, cgroup)}/{place.file}"])

    # What `nri.host.root.Files` asks.

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return f"{self.files[path]}\n"

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.made

    def identity(self, path: str) -> tuple[int, int] | None:
        folder = path if path in self.made else path.rpartition("/")[0]
        return (1, self.made[folder]) if self.exists(path) else None

    def folders(self, path: str) -> list[str]:
        return sorted(
            {
                entry.removeprefix(f"{path}/")
                for entry in self.made
                if entry.rpartition("/")[0] == path and entry != path
            }
        )

    def write(self, path: str, text: str) -> None:
        before = self.read(path).strip()
        folder, _, file = path.rpartition("/")
        self.files[path] = self._merged(path, text.strip())
        if (number := self._complaint(folder, file)) is not None:
            self.files[path] = before
            self.refused.append((path, text))
            raise OSError(number, os.strerror(number), path)
        self.written.append((path, text.strip()))
        if file == "cpu.idle" and self.files[path] != before:
            other = f"{folder}/{'cpu.shares' if self.version == 1 else 'cpu.weight'}"
            weights = {1: ("1024", "3"), 2: ("100", "1")}[self.version]
            self.files[other] = weights[int(self.files[path])]

    # The rules.

    def _merged(self, path: str, text: str) -> str:
        """The text as the kernel keeps it."""
        file = path.rpartition("/")[2]
        if file == "cpu.max":
            words = text.split()
            return f"{words[0]} {words[1] if len(words) > 1 else self.files[path].split()[1]}"
        if file.startswith("memory.") and text.lstrip("-").isdigit():
            number = int(text)
            return "9223372036854771712" if number < 0 else str(number // PAGE * PAGE)
        if file == "cpu.shares":
            return str(min(max(int(text), 2), 262144))
        return text

    def _complaint(self, folder: str, file: str) -> int | None:
        if file in ("cpu.shares", "cpu.weight") and self.files.get(f"{folder}/cpu.idle") == "1":
            return errno.EINVAL
        for row, place in self._places():
            if place.file == file and row.nested and not self._nests(row, place):
                return errno.EBUSY if row.name.startswith("cpuset") else errno.EINVAL
        quota, burst = (self._number(folder, name) for name in ("cpu.cfs_quota", "cpu.cfs_burst"))
        if quota is not None and burst is not None and burst > quota >= 0:
            return errno.EINVAL
        limit, both = (self._number(folder, name) for name in ("memory.limit", "memory.and_swap_limit"))
        if limit is not None and both is not None and both >= 0 and (limit < 0 or limit > both):
            return errno.EINVAL
        return None

    def _number(self, folder: str, name: str) -> int | None:
        places = KNOBS[name].places(self.version)
        text = self.files.get(f"{folder}/{places[0].file}") if places else None
        results = None if text is None else places[0].codec.decode(text)
        assert results is None or isinstance(results, int)
        return results

    def _nests(self, row: Knob, place: Place) -> bool:
        """Whether each value is within that of the cgroup above; what has no limit has that of the one above."""
        top = self._top(place.controller)
        force: dict[str, Value] = {}
        for folder in sorted(path for path in self.made if f"{path}/".startswith(f"{top}/")):
            text = self.files.get(f"{folder}/{place.file}")
            if text is None:
                continue
            value = place.codec.decode(text)
            above = force.get(folder.rpartition("/")[0])
            if isinstance(value, frozenset):
                if isinstance(above, frozenset) and not value <= above and folder.rpartition("/")[0] != top:
                    return False
            elif isinstance(value, int) and isinstance(above, int) and above >= 0:
                if value > above:
                    return False
                value = above if value < 0 else value
            force[folder] = value
        return True

    # Names.

    def _places(self) -> Iterator[tuple[Knob, Place]]:
        for row in KNOBS.values():
            for place in row.places(self.version):
                if "SIZE" not in place.file:
                    yield row, place

    def _top(self, controller: str) -> str:
        return "/sys/fs/cgroup" if self.version == 2 else f"/sys/fs/cgroup/{controller}"

    def _folder(self, controller: str, cgroup: str) -> str:
        return f"{self._top(controller)}/{cgroup}".rstrip("/")
