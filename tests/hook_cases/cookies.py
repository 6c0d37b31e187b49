"""Cookies of processes as prctl would have them, and the stages of CoreSched's helpers.

Next: `tests.hook_cases.network`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nri.policies.cookie_groups import CookieGroups, HeldCookie
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given

__all__ = ["STAGES", "Threads"]

Input = dict[str, Any]
Outcome = dict[str, Any]


class Threads:
    """The processes of a case with their cookies: what prctl would say."""

    def __init__(self, given: Input) -> None:
        threads = inputs.mapping(given.get("threads"))
        self.cookies = {int(pid): cookie for pid, cookie in inputs.mapping(threads.get("cookies")).items()}
        self.broken = {int(pid) for pid in threads.get("pids_with_error") or ()}
        leaders = inputs.mapping(threads.get("tgid") or threads.get("pgid"))
        self.leaders = {int(pid): leader for pid, leader in leaders.items()}
        self.next = given.get("next_cookie_id") or threads.get("next_cookie") or 1

    def get(self, pid: int) -> int:
        """Return a process's cookie."""
        self._check(pid)
        return int(self.cookies.get(pid, 0))

    def create(self, pid: int) -> None:
        """Give a process and its threads a new cookie."""
        self._check(pid)
        self._give(pid, self.next)
        self.next += 1

    def assign(self, source: int, targets: Sequence[int]) -> list[int]:
        """Give processes the cookie of another one; return those that failed."""
        cookie = self.get(source)
        for pid in targets:
            if pid not in self.broken:
                self.cookies[pid] = cookie
        return [pid for pid in targets if pid in self.broken]

    def clear(self, pids: Sequence[int]) -> list[int]:
        """Take cookies away; return the processes that failed."""
        for pid in pids:
            if pid not in self.broken:
                self._give(pid, 0)
        return [pid for pid in pids if pid in self.broken]

    def _give(self, pid: int, cookie: int) -> None:
        for each in (pid, *(one for one, leader in self.leaders.items() if leader == pid)):
            self.cookies[each] = cookie

    def _check(self, pid: int) -> None:
        if pid in self.broken:
            raise ProcessLookupError(pid)


def _add(given: Given) -> Outcome:
    threads = Threads(given)
    try:
        cookie, pids = CookieGroups(threads).add(given.get("pids") or [])
    except OSError:
        return {"cookie": 0, "pids": None, "error": True}
    return {"cookie": cookie, "pids": pids, "error": False}


def _get(given: Given) -> Outcome:
    cookie, pids = CookieGroups(Threads(given)).current(given.get("pids") or [])
    return {"cookie": cookie, "pids": pids, "error": False}


def _assign(given: Given) -> Outcome:
    cookie = given.get("target_cookie_id") or given.get("cookie_id") or 0
    siblings = given.get("sibling_pids") or []
    shared, gone = CookieGroups(Threads(given)).share(given.get("pids") or [], siblings, cookie)
    return {"pids": shared, "pids_to_delete": gone, "error": shared is None}


def _clear(given: Given) -> Outcome:
    return {"pids": CookieGroups(Threads(given)).clear(given.get("pids") or [])}


def _cache(given: Given) -> Outcome:
    ordered = given.get("ordered_pids") or []
    entry = HeldCookie(given.get("init_cookie_id") or 0, ordered)
    invalid = not entry.valid
    entry.pids.update(given.get("add_pids") or ())
    added = sorted(entry.pids)
    entry.pids.difference_update(given.get("delete_pids") or given.get("add_pids") or ())
    return {"invalid": invalid, "ordered_pids_added": added, "ordered_pids_deleted": sorted(entry.pids)}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "coresched/helper.add_cookie": _add,
    "coresched/helper.get_cookie": _get,
    "coresched/helper.assign_cookie": _assign,
    "coresched/helper.clear_cookie": _clear,
    "coresched/helper.cookie_cache": _cache,
}
