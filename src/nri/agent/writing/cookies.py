"""Core scheduling of containers: the groups of cookies, applied to this machine's processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from nri.agent.writing.cookie_groups import CookieGroups, Membership
from nri.host import CoreScheduler, Outcome, Result

__all__ = ["CoreScheduling", "KernelCookies"]

_NAME = "core_sched.cookie"


class KernelCookies:
    """The kernel's cookies of this machine's processes (`nri.agent.writing.cookie_groups.Cookies`)."""

    def __init__(self, scheduler: CoreScheduler) -> None:
        self._scheduler = scheduler

    def get(self, pid: int) -> int:
        """The cookie of a process. Raises OSError if it has ended."""
        return self._scheduler.cookie(pid)

    def create(self, pid: int) -> None:
        """Give a process a new cookie. Raises OSError."""
        result = self._scheduler.create(pid)
        if not result.in_force:
            raise OSError(result.reason)

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        """Give processes the cookie of another one; return those that failed."""
        return _failed(targets, self._scheduler.share(source, targets))

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Remove the cookies of processes; return those that failed."""
        return _failed(pids, self._scheduler.clear(pids))


class CoreScheduling:
    """The groups of one node. Thread-safe.

    Attributes:
        groups: the cookies by group; changed under a lock.
    """

    def __init__(self, scheduler: CoreScheduler, clock: Callable[[], float]) -> None:
        self._scheduler, self._clock = scheduler, clock
        self.groups = CookieGroups(KernelCookies(scheduler))
        self._lock = threading.Lock()

    def apply(
        self, membership: Membership, container: str, pids: Sequence[int], *, forget_moved: bool = True
    ) -> list[Result]:
        """Give a container's processes the cookie of its group, or remove it; return one result.

        Args:
            membership: whether it takes part, and in which group.
            container: `pod uid/container id`.
            pids: its processes; without processes there is no result.
            forget_moved: see `CookieGroups.enable`.
        """
        if not pids:
            return []
        group = membership.group if membership.enabled else "none"
        missing = self._scheduler.probe()
        if missing is not None:
            return [Result(container, _NAME, group, Outcome.UNSUPPORTED, missing.reason)]
        with self._lock:
            if not membership.enabled:
                before, member = self.groups.current(pids)[0], container in self.groups.members
                self.groups.disable(container, pids, self._clock())
                after = self.groups.current(pids)[0]
                return [_result(container, group, before, after, in_force=after == 0 or not member)]
            before = self.groups.current(pids)[0]
            succeeded = self.groups.enable(membership.group, container, pids, self._clock(), forget_moved=forget_moved)
            return [_result(container, group, before, self.groups.current(pids)[0], in_force=succeeded)]

    def learn(self, membership: Membership, container: str, pids: Sequence[int]) -> None:
        """Take over the cookie that a container has from an earlier run of the agent, as that of its group.

        A container that no longer takes part becomes its own group, so that its cookie can be removed.
        """
        if pids and self._scheduler.probe() is None:
            group = membership.group if membership.enabled else container
            with self._lock:
                self.groups.load(group, container, pids, self._clock())


def _failed(pids: Sequence[int], results: Sequence[Result]) -> list[int]:
    return [pid for pid, result in zip(pids, results, strict=True) if not result.in_force]


def _result(container: str, group: str, before: int, after: int, *, in_force: bool) -> Result:
    if not in_force:
        return Result(container, _NAME, group, Outcome.REFUSED, "no process got it", before, after)
    return Result(container, _NAME, group, Outcome.UNCHANGED if before == after else Outcome.APPLIED, "", before, after)
