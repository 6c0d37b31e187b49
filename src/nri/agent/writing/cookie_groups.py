"""Core scheduling cookies by group: give the cookie of a group to the processes of a container, or remove it.

Groups and members are forgotten five minutes after their last use. A group gets a new cookie after all its processes
have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

#: The cookie of processes without core scheduling.
NO_COOKIE: Final = 0
#: The time in seconds after which an unused group or member is forgotten.
_FORGET_AFTER_S: Final = 300.0


class Membership(NamedTuple):
    """Whether core scheduling is enabled for a container, and its group."""

    enabled: bool
    group: str


class Cookies(Protocol):
    """An interface to the cookies of processes. All methods raise OSError if a process has ended."""

    def get(self, pid: int) -> int:
        """Return the cookie of a process."""
        ...

    def create(self, pid: int) -> None:
        """Give a new cookie to a process and all its threads."""
        ...

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        """Give the cookie of one process to others, and return the processes that did not get it."""
        ...

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Remove the cookies of processes, and return the processes that kept their cookie."""
        ...


class HeldCookie:
    """A cookie, and the processes that have the cookie."""

    def __init__(self, cookie: int, pids: Iterable[int] = ()) -> None:
        self.cookie = cookie
        self.pids = set(pids)

    @property
    def valid(self) -> bool:
        """Whether the cookie is not `NO_COOKIE` and a process has it."""
        return self.cookie > NO_COOKIE and bool(self.pids)


class CookieGroups:
    """The groups of one node and their cookies.

    Attributes:
        entries: the cookie of each group.
        members: the group of each container, by `pod uid/container id`.
    """

    def __init__(self, cookies: Cookies) -> None:
        self._cookies = cookies
        self.entries: dict[str, HeldCookie] = {}
        self.members: dict[str, str] = {}
        self._last_use: dict[tuple[str, str], float] = {}

    def enable(
        self, group: str, container: str, pids: Sequence[int], now: float = 0.0, *, forget_moved: bool = True
    ) -> bool:
        """Give the cookie of a group to a container's processes, and return whether that succeeded.

        Args:
            group: the name of the group.
            container: the container, as `pod uid/container id`.
            pids: the processes of the container.
            now: the current time in monotonic seconds.
            forget_moved: whether processes that were in another group are removed from that group.
        """
        self._forget_unused(now)
        if not pids:
            return True
        if forget_moved:
            for name, other in self.entries.items():
                other.pids.difference_update(pids if name != group else ())
        entry = self._valid_cookie(group)
        if entry is not None:
            if entry.pids.issuperset(pids):
                self._add_member(group, container, entry, now)
                return True
            shared, lost = self.share(pids, sorted(entry.pids), entry.cookie)
            entry.pids.difference_update(lost if shared is None or shared else ())
            if shared is not None:
                entry.pids.update(shared)
                if shared:
                    self._add_member(group, container, entry, now)
                return bool(shared)
            self._remove_member(group, container, entry)
        try:
            cookie, added = self.add(pids)
        except OSError:
            return False
        if cookie > NO_COOKIE:
            self._add_member(group, container, HeldCookie(cookie, added), now)
        return cookie > NO_COOKIE

    def disable(self, container: str, pids: Sequence[int], now: float = 0.0) -> None:
        """Remove the cookie from a container's processes, if the container was in a group."""
        self._forget_unused(now)
        last = self.members.get(container)
        entry = self._valid_cookie(last) if last is not None else None
        if last is None or not pids:
            return
        entry = entry or HeldCookie(NO_COOKIE)
        entry.pids.difference_update(self.clear(pids))
        self._remove_member(last, container, entry)

    def load(self, group: str, container: str, pids: Sequence[int], now: float = 0.0) -> bool:
        """Record the cookie that a container has at the start. Returns whether the container has processes."""
        if not pids:
            return False
        cookie, having = self.current(pids)
        if cookie <= NO_COOKIE:
            return True
        entry = self.entries.get(group)
        if entry is not None and entry.cookie not in (NO_COOKIE, cookie):
            return True  # two cookies for one group: the reconciler corrects that
        if entry is None:
            entry = HeldCookie(cookie)
        entry.pids.update(having)
        self._add_member(group, container, entry, now)
        return True

    def current(self, pids: Sequence[int]) -> tuple[int, list[int]]:
        """Return the first cookie of the processes, and the processes that have this cookie."""
        first, having = NO_COOKIE, []
        for pid in pids:
            cookie = self._cookie_of(pid)
            if cookie and first in (NO_COOKIE, cookie):
                first = cookie
                having.append(pid)
        return first, having

    def add(self, pids: Sequence[int]) -> tuple[int, list[int]]:
        """Create a cookie on the first process and share it with the others.

        Raises OSError if the first one has ended.
        """
        if not pids:
            return NO_COOKIE, []
        first = pids[0]
        self._cookies.get(first)
        self._cookies.create(first)
        cookie = self._cookies.get(first)
        failed = self._assign(first, pids[1:])
        return cookie, sorted(set(pids) - set(failed))

    def share(self, pids: Sequence[int], siblings: Sequence[int], cookie: int) -> tuple[list[int] | None, list[int]]:
        """Give the cookie of a sibling to processes.

        Returns:
            The processes that now have the cookie, or None if no sibling has the cookie any more; and the siblings
            without
                        the cookie.
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
        """Remove the cookies of processes, and return the processes that now have no cookie."""
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

    def _valid_cookie(self, group: str) -> HeldCookie | None:
        entry = self.entries.get(group)
        return entry if entry is not None and entry.valid else None

    def _add_member(self, group: str, container: str, entry: HeldCookie, now: float) -> None:
        self.members[container] = group
        if entry.valid:
            self.entries[group] = entry
        else:
            self.entries.pop(group, None)
        self._last_use[("group", group)] = self._last_use[("member", container)] = now

    def _remove_member(self, group: str, container: str, entry: HeldCookie) -> None:
        self.members.pop(container, None)
        if not entry.valid:
            self.entries.pop(group, None)

    def _forget_unused(self, now: float) -> None:
        """Forget groups and members that were not used for `_FORGET_AFTER_S`."""
        for kind, name in [key for key, last_seen in self._last_use.items() if now - last_seen > _FORGET_AFTER_S]:
            del self._last_use[(kind, name)]
            (self.entries if kind == "group" else self.members).pop(name, None)
