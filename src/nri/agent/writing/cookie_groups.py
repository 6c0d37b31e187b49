"""Core-scheduling cookies by group: how the processes of a container get their group's cookie, or lose it.

Groups and members are remembered for five minutes after they were last used. A group whose processes have all ended
gets a new cookie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["NO_COOKIE", "CookieGroups", "Cookies", "HeldCookie", "Membership"]

#: The cookie of processes without core scheduling.
NO_COOKIE: Final = 0
_FORGET_AFTER_S: Final = 300.0


class Membership(NamedTuple):
    """Whether a container takes part, and in which group."""

    enabled: bool
    group: str


class Cookies(Protocol):
    """Cookies of processes. All methods raise OSError for an ended process."""

    def get(self, pid: int) -> int:
        """The cookie of a process."""
        ...

    def create(self, pid: int) -> None:
        """Give a process, with all its threads, a new cookie."""
        ...

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        """Give processes the cookie of another one; return those that failed."""
        ...

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Remove the cookies of processes; return those that failed."""
        ...


class HeldCookie:
    """A cookie and the processes that have it."""

    def __init__(self, cookie: int, pids: Iterable[int] = ()) -> None:
        self.cookie = cookie
        self.pids = set(pids)

    @property
    def valid(self) -> bool:
        """Whether it is a real cookie that a process has."""
        return self.cookie > NO_COOKIE and bool(self.pids)


class CookieGroups:
    """Groups and their cookies on one node.

    Attributes:
        entries: the cookie of each group.
        members: the group of each container, by `pod uid/container id`.
    """

    def __init__(self, cookies: Cookies) -> None:
        self._cookies = cookies
        self.entries: dict[str, HeldCookie] = {}
        self.members: dict[str, str] = {}
        self._seen: dict[tuple[str, str], float] = {}

    def enable(
        self, group: str, container: str, pids: Sequence[int], now: float = 0.0, *, forget_moved: bool = True
    ) -> bool:
        """Give a container's processes the cookie of its group; return whether that succeeded.

        Args:
            group: the group's name.
            container: `pod uid/container id`.
            pids: the processes of the container.
            now: monotonic seconds.
            forget_moved: whether processes from another group are removed from that group.
        """
        self._forget(now)
        if not pids:
            return True
        if forget_moved:
            for name, other in self.entries.items():
                other.pids.difference_update(pids if name != group else ())
        entry = self._valid(group)
        if entry is not None:
            if entry.pids.issuperset(pids):
                self._keep(group, container, entry, now)
                return True
            shared, lost = self.share(pids, sorted(entry.pids), entry.cookie)
            entry.pids.difference_update(lost if shared is None or shared else ())
            if shared is not None:
                entry.pids.update(shared)
                if shared:
                    self._keep(group, container, entry, now)
                return bool(shared)
            self._drop(group, container, entry)
        try:
            cookie, added = self.add(pids)
        except OSError:
            return False
        if cookie > NO_COOKIE:
            self._keep(group, container, HeldCookie(cookie, added), now)
        return cookie > NO_COOKIE

    def disable(self, container: str, pids: Sequence[int], now: float = 0.0) -> None:
        """Remove the cookie from a container's processes, if it ever had one."""
        self._forget(now)
        last = self.members.get(container)
        entry = self._valid(last) if last is not None else None
        if last is None or not pids:
            return
        entry = entry or HeldCookie(NO_COOKIE)
        entry.pids.difference_update(self.clear(pids))
        self._drop(last, container, entry)

    def load(self, group: str, container: str, pids: Sequence[int], now: float = 0.0) -> bool:
        """Take over the cookie that a container has at the start; return whether it has processes."""
        if not pids:
            return False
        cookie, having = self.current(pids)
        if cookie <= NO_COOKIE:
            return True
        entry = self.entries.get(group)
        if entry is not None and entry.cookie not in (NO_COOKIE, cookie):
            return True  # two cookies for one group: the reconciler repairs that
        if entry is None:
            entry = HeldCookie(cookie)
        entry.pids.update(having)
        self._keep(group, container, entry, now)
        return True

    def current(self, pids: Sequence[int]) -> tuple[int, list[int]]:
        """Return the first cookie that any of the processes has, and those that have it."""
        first, having = NO_COOKIE, []
        for pid in pids:
            cookie = self._cookie_of(pid)
            if cookie and first in (NO_COOKIE, cookie):
                first = cookie
                having.append(pid)
        return first, having

    def add(self, pids: Sequence[int]) -> tuple[int, list[int]]:
        """Create a cookie on the first process and share it with the others. Raises OSError if the first has ended."""
        if not pids:
            return NO_COOKIE, []
        first = pids[0]
        self._cookies.get(first)
        self._cookies.create(first)
        cookie = self._cookies.get(first)
        failed = self._assign(first, pids[1:])
        return cookie, sorted(set(pids) - set(failed))

    def share(self, pids: Sequence[int], siblings: Sequence[int], cookie: int) -> tuple[list[int] | None, list[int]]:
        """Give processes the cookie of a sibling.

        Returns:
            The processes that have it now, None if no sibling has it any more; and the siblings that lost it.
        """
        cookie_by_pid = {pid: current for pid in pids if (current := self._cookie_of(pid)) is not None}
        without_cookie = sorted(pid for pid, current in cookie_by_pid.items() if current != cookie)
        having = [pid for pid, current in cookie_by_pid.items() if current == cookie]
        if not cookie_by_pid or not without_cookie:
            return having, []
        lost: list[int] = []
        for sibling in siblings:
            if self._cookie_of(sibling) == cookie:
                failed = self._assign(sibling, without_cookie)
                return sorted({*having, *without_cookie} - set(failed)), lost
            lost.append(sibling)
        return None, lost

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Remove the cookies of processes; return those without one now."""
        cookie_by_pid = {pid: current for pid in pids if (current := self._cookie_of(pid)) is not None}
        having = sorted(pid for pid, current in cookie_by_pid.items() if current != NO_COOKIE)
        failed = self._cookies.clear(having) if having else []
        return sorted(set(cookie_by_pid) - set(failed))

    def _cookie_of(self, pid: int) -> int | None:
        try:
            return self._cookies.get(pid)
        except OSError:
            return None

    def _assign(self, source: int, targets: Sequence[int]) -> list[int]:
        try:
            return self._cookies.assign(source, targets) if targets else []
        except OSError:
            return list(targets)

    def _valid(self, group: str) -> HeldCookie | None:
        entry = self.entries.get(group)
        return entry if entry is not None and entry.valid else None

    def _keep(self, group: str, container: str, entry: HeldCookie, now: float) -> None:
        self.members[container] = group
        if entry.valid:
            self.entries[group] = entry
        else:
            self.entries.pop(group, None)
        self._seen[("group", group)] = self._seen[("member", container)] = now

    def _drop(self, group: str, container: str, entry: HeldCookie) -> None:
        self.members.pop(container, None)
        if not entry.valid:
            self.entries.pop(group, None)

    def _forget(self, now: float) -> None:
        """Forget groups and members that were not used for five minutes."""
        for kind, name in [key for key, last_seen in self._seen.items() if now - last_seen > _FORGET_AFTER_S]:
            del self._seen[(kind, name)]
            (self.entries if kind == "group" else self.members).pop(name, None)
