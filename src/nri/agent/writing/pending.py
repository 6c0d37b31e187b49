"""Writes that wait for their cgroup, which a runtime makes later than it reports it.

Rules: pure but for the clock that is given; bounded in cgroups and in time, because a pod that vanished never comes for
its writes. The newest word for a knob counts. Next: `nri.agent.executor`, which keeps and retries them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nri.agent.model import Write

__all__ = ["Pending"]


class _Folder(NamedTuple):
    since: float
    writes: dict[str, Write]


class Pending:
    """Writes by cgroup, none for longer than `kept_s` seconds, and of the newest `most` cgroups."""

    def __init__(self, now: Callable[[], float], most: int = 2048, kept_s: float = 300.0) -> None:
        self._now, self._most, self._kept_s = now, most, kept_s
        self._folders: OrderedDict[str, _Folder] = OrderedDict()

    def __len__(self) -> int:
        """The number of writes that wait."""
        return sum(len(row.writes) for row in self._folders.values())

    def keep(self, write: Write) -> int:
        """Keep a write; return how many others had to go for it."""
        folder = write.folder.strip("/")
        row = self._folders.pop(folder, None) or _Folder(self._now(), {})
        row.writes[write.knob] = write
        self._folders[folder] = _Folder(self._now(), row.writes)
        return self._bound()

    def drop(self, writes: Sequence[Write]) -> None:
        """Forget what has been written since, or has another value now."""
        for write in writes:
            folder = write.folder.strip("/")
            row = self._folders.get(folder)
            if row is not None:
                row.writes.pop(write.knob, None)
                if not row.writes:
                    del self._folders[folder]

    def take(self, folder: str) -> list[Write]:
        """Take out all that waits for a cgroup and for those below it."""
        if not self._folders:
            return []
        return [write for name in self._below(folder) for write in self._folders.pop(name).writes.values()]

    def forget(self, folder: str) -> None:
        """Drop all that waits for a cgroup and for those below it."""
        for name in self._below(folder):
            del self._folders[name]

    def _below(self, folder: str) -> list[str]:
        path = folder.strip("/")
        if not path:
            return []
        return [name for name in self._folders if name == path or name.startswith(f"{path}/")]

    def _bound(self) -> int:
        gone, oldest = 0, self._now() - self._kept_s
        while self._folders:
            row = next(iter(self._folders.values()))
            if len(self._folders) <= self._most and row.since >= oldest:
                break
            gone += len(self._folders.popitem(last=False)[1].writes)
        return gone
