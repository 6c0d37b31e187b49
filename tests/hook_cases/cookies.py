"""Cookies of processes as prctl would have them, and the stages of CoreSched's helpers.

Next: `tests.hook_cases.network`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.agent.writing.cookie_groups import CookieGroups, HeldCookie
from nri.agent.writing.cookies import KernelCookies
from nri.host import CoreScheduler
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Prctl

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _groups(given: Given) -> CookieGroups:
    """The groups over the agent's scheduler, whose system call has the processes of a case."""
    return CookieGroups(KernelCookies(CoreScheduler(Prctl(given))))


def _add(given: Given) -> Outcome:
    try:
        cookie, pids = _groups(given).add(given.get("pids") or [])
    except OSError:
        return {"cookie": 0, "pids": None, "error": True}
    return {"cookie": cookie, "pids": pids, "error": False}


def _get(given: Given) -> Outcome:
    cookie, pids = _groups(given).current(given.get("pids") or [])
    return {"cookie": cookie, "pids": pids, "error": False}


def _assign(given: Given) -> Outcome:
    cookie = given.get("target_cookie_id") or given.get("cookie_id") or 0
    siblings = given.get("sibling_pids") or []
    shared, gone = _groups(given).share(given.get("pids") or [], siblings, cookie)
    return {"pids": shared, "pids_to_delete": gone, "error": shared is None}


def _clear(given: Given) -> Outcome:
    return {"pids": _groups(given).clear(given.get("pids") or [])}


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
