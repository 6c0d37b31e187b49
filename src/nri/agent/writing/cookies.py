"""Core scheduling of containers: groups with a common cookie, applied to the processes of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from nri.agent.writing.cookie_groups import CookieGroups, Membership
from nri.host import CoreScheduler, Outcome, Result

_NAME = "core_sched.cookie"


class KernelCookies:
    """The kernel's cookies of this machine's processes (`nri.agent.writing.cookie_groups.Cookies`)."""

    def __init__(self, scheduler: CoreScheduler) -> None:
        self._scheduler = scheduler

    def get(self, pid: int) -> int:
        """Return the cookie of a process. Raises OSError if the process has ended."""
        return self._scheduler.cookie(pid)

    def create(self, pid: int) -> None:
        """Give a new cookie to a process. Raises OSError if that fails."""
        result = self._scheduler.create(pid)
        if not result.in_force:
            raise OSError(result.reason)

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        """Give the cookie of one process to others, and return the processes that did not get it."""
        return _failed_pids(targets, self._scheduler.share(source, targets))

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Remove the cookies of processes, and return the processes that kept their cookie."""
        return _failed_pids(pids, self._scheduler.clear(pids))


class CoreScheduling:
    """The core scheduling groups of one node. Thread-safe.

    Attributes:
        groups: the groups and their cookies; changed under a lock.
    """

    def __init__(self, scheduler: CoreScheduler, clock: Callable[[], float]) -> None:
        self._scheduler, self._clock = scheduler, clock
        self.groups = CookieGroups(KernelCookies(scheduler))
        self._lock = threading.Lock()

    def apply(
        self, membership: Membership, container: str, pids: Sequence[int], *, forget_moved: bool = True
    ) -> list[Result]:
        """Give the cookie of a group to a container's processes, or remove their cookie. Returns the result.

        Args:
            membership: whether core scheduling is enabled for the container, and its group.
            container: the container, as `pod uid/container id`.
            pids: the processes of the container; without processes there is no result.
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
        """Record a container's cookie from an earlier run of the agent as the cookie of its group.

        If core scheduling is now disabled for the container, it becomes its own group, so that its cookie can be
        removed.
        """
        if pids and self._scheduler.probe() is None:
            group = membership.group if membership.enabled else container
            with self._lock:
                self.groups.load(group, container, pids, self._clock())


def _failed_pids(pids: Sequence[int], results: Sequence[Result]) -> list[int]:
    return [pid for pid, result in zip(pids, results, strict=True) if not result.in_force]


def _result(container: str, group: str, before: int, after: int, *, in_force: bool) -> Result:
    if not in_force:
        return Result(container, _NAME, group, Outcome.REFUSED, "no process got the cookie", before, after)
    return Result(container, _NAME, group, Outcome.UNCHANGED if before == after else Outcome.APPLIED, "", before, after)
