"""Writes that wait for their cgroup: a runtime reports a cgroup before it creates it.

Number and time are limited, because the cgroup of a vanished pod never appears. The newest value of a knob is used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nri.agent.model import Write


class _Folder(NamedTuple):
    since: float
    writes: dict[str, Write]


class PendingWrites:
    """Waiting writes by cgroup, for at most `max_writes` cgroups and `kept_s` seconds."""

    def __init__(self, now: Callable[[], float], max_writes: int = 2048, kept_s: float = 300.0) -> None:
        self._clock, self._max_writes, self._kept_s = now, max_writes, kept_s
        self._folders: OrderedDict[str, _Folder] = OrderedDict()

    def __len__(self) -> int:
        """The number of waiting writes."""
        return sum(len(row.writes) for row in self._folders.values())

    def keep(self, write: Write) -> int:
        """Add a write, and return the number of older writes that were dropped."""
        folder = write.folder.strip("/")
        row = self._folders.pop(folder, None) or _Folder(self._clock(), {})
        row.writes[write.knob] = write
        self._folders[folder] = _Folder(self._clock(), row.writes)
        return self._drop_excess()

    def drop(self, writes: Sequence[Write]) -> None:
        """Forget waiting writes that these writes replace."""
        for write in writes:
            folder = write.folder.strip("/")
            row = self._folders.get(folder)
            if row is not None:
                row.writes.pop(write.knob, None)
                if not row.writes:
                    del self._folders[folder]

    def take(self, folder: str) -> list[Write]:
        """Remove and return the waiting writes of a cgroup and of the cgroups below it."""
        if not self._folders:
            return []
        return [write for name in self._folders_below(folder) for write in self._folders.pop(name).writes.values()]

    def forget(self, folder: str) -> None:
        """Drop the waiting writes of a cgroup and of the cgroups below it."""
        for name in self._folders_below(folder):
            del self._folders[name]

    def _folders_below(self, folder: str) -> list[str]:
        path = folder.strip("/")
        if not path:
            return []
        return [name for name in self._folders if name == path or name.startswith(f"{path}/")]

    def _drop_excess(self) -> int:
        dropped, oldest = 0, self._clock() - self._kept_s
        while self._folders:
            row = next(iter(self._folders.values()))
            if len(self._folders) <= self._max_writes and row.since >= oldest:
                break
            dropped += len(self._folders.popitem(last=False)[1].writes)
        return dropped
