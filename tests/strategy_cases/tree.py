"""The files of a case, which behave as the kernel's where it matters. Next: `tests.strategy_cases.cpu`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Tree", "differences"]

_ABSENT = "absent"
#: Hierarchy and file on v1, and the file on v2, by knob; without a hierarchy it is only on v2 or has one name.
_FILES = {
    "cpu.cfs_quota": ("cpu", "cpu.cfs_quota_us", "cpu.max"),
    "cpu.cfs_burst": ("cpu", "cpu.cfs_burst_us", "cpu.max.burst"),
    "cpuset.cpus": ("cpuset", "cpuset.cpus", "cpuset.cpus"),
    **{
        name: ("memory", name, name)
        for name in (
            "memory.min", "memory.low", "memory.high", "memory.wmark_ratio", "memory.wmark_scale_factor",
            "memory.wmark_min_adj", "memory.priority", "memory.use_priority_oom",
        )
    },
    **{
        f"memory.pagecache_limit.{name}": ("", "", f"memory.pagecache_limit.{name}")
        for name in ("enable", "size", "sync")
    },
    "memory.oom_group": ("memory", "memory.oom.group", "memory.oom.group"),
}  # fmt: skip

#: The least and the greatest value of knobs that have such; it is told of others, and not written.
_BOUNDS = {
    "cpu.cfs_burst": (0, 100_000_000),
    "memory.min": (0, 1 << 63),
    "memory.low": (0, 1 << 63),
    "memory.high": (0, 1 << 63),
    "memory.wmark_ratio": (0, 100),
    "memory.wmark_scale_factor": (1, 1000),
    "memory.wmark_min_adj": (-25, 50),
    "memory.priority": (0, 12),
    "memory.use_priority_oom": (0, 1),
    "memory.oom_group": (0, 1),
    "memory.pagecache_limit.size": (0, 1 << 63),
    "memory.pagecache_limit.enable": (0, 1),
    "memory.pagecache_limit.sync": (0, 1),
}


class Tree:
    """Files by path; a file that is not there is not made."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.files: dict[str, str] = {name: text or "" for name, text in (given.get("files") or {}).items()}
        self.v2 = bool(given.get("cgroup_v2"))
        self.writes: list[dict[str, str]] = []

    def known(self, knob: str) -> bool:
        """Whether Koordinator knows a knob on this version; it limits page caches on v2 alone."""
        return self.v2 or bool(_FILES[knob][1])

    def path(self, folder: str, knob: str) -> str:
        """Return the file of a knob."""
        hierarchy, old, new = _FILES[knob]
        inside = folder.strip("/")
        return f"/{inside}/{new}" if self.v2 else f"/{hierarchy}/{inside}/{old}"

    def read(self, folder: str, knob: str) -> str | None:
        """Return a knob's text, None if there is no such file."""
        return self.files.get(self.path(folder, knob))

    def cpus_in_force(self, folder: str) -> str | None:
        """Return the CPUs that a folder has, by itself or by what is above it; None if there is no such file."""
        found = self.read(folder, "cpuset.cpus")
        return self.files.get(f"{self.path(folder, 'cpuset.cpus')}.effective", found) if self.v2 else found

    def number(self, folder: str, knob: str) -> int | None:
        """Return a knob's value as a number; -1 for `max`."""
        text = (self.read(folder, knob) or "").split()
        return None if not text else -1 if text[0] == "max" else int(text[0])

    def children(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder of CPU sets."""
        front = f"/{folder.strip('/')}/" if self.v2 else f"/cpuset/{folder.strip('/')}/"
        inside = (path[len(front) :] for path in self.files if path.startswith(front))
        return sorted({rest.split("/", 1)[0] for rest in inside if "/" in rest})

    def apply(self, writes: Iterable[tuple[str, str, str]]) -> None:
        """Apply writes in order: folder, knob and value; what changes nothing is none."""
        for folder, knob, value in writes:
            path = self.path(folder, knob)
            before = self.files.get(path)
            if before is None or not self._taken(knob, value):
                continue
            text = self._text(knob, value, before)
            if text == before:
                continue
            self.files[path] = text
            self.writes.append({"path": path, "value": value})
            if self.v2 and knob == "cpuset.cpus" and f"{path}.effective" in self.files:
                self.files[f"{path}.effective"] = value

    def _taken(self, knob: str, value: str) -> bool:
        """Whether a value is one that Koordinator writes."""
        least, most = _BOUNDS.get(knob, (-(1 << 63), 1 << 63))
        if knob == "cpu.cfs_burst" and self.v2:
            most = 1 << 63
        return not value.lstrip("-").isdigit() or least <= int(value) <= most

    def _text(self, knob: str, value: str, before: str) -> str:
        if knob == "cpu.cfs_quota" and self.v2:
            period = before.split()[1] if len(before.split()) > 1 else "100000"
            return f"{'max' if value == '-1' else value} {period}"
        return value


def differences(found: Any, expected: Any) -> str:
    """Say where an outcome differs from the recorded one, place by place."""
    return "; ".join(_differing(found, expected, ""))


def _differing(found: Any, expected: Any, place: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            if found.get(key, _ABSENT) != expected.get(key, _ABSENT):
                yield from _differing(found.get(key, _ABSENT), expected.get(key, _ABSENT), f"{place}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            if one != other:
                yield from _differing(one, other, f"{place}[{number}]")
    else:
        yield f"{place} is {found!r}, recorded is {expected!r}"
