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


def _groups(case: Given) -> CookieGroups:
    """The groups over the agent's scheduler, whose system call has the processes of a case."""
    return CookieGroups(KernelCookies(CoreScheduler(Prctl(case))))


def _add(case: Given) -> Outcome:
    try:
        cookie, pids = _groups(case).add(case.get("pids") or [])
    except OSError:
        return {"cookie": 0, "pids": None, "error": True}
    return {"cookie": cookie, "pids": pids, "error": False}


def _get(case: Given) -> Outcome:
    cookie, pids = _groups(case).current(case.get("pids") or [])
    return {"cookie": cookie, "pids": pids, "error": False}


def _assign(case: Given) -> Outcome:
    cookie = case.get("target_cookie_id") or case.get("cookie_id") or 0
    siblings = case.get("sibling_pids") or []
    shared, removed = _groups(case).share(case.get("pids") or [], siblings, cookie)
    return {"pids": shared, "pids_to_delete": removed, "error": shared is None}


def _clear(case: Given) -> Outcome:
    return {"pids": _groups(case).clear(case.get("pids") or [])}


def _cache(case: Given) -> Outcome:
    ordered = case.get("ordered_pids") or []
    entry = HeldCookie(case.get("init_cookie_id") or 0, ordered)
    invalid = not entry.valid
    entry.pids.update(case.get("add_pids") or ())
    added = sorted(entry.pids)
    entry.pids.difference_update(case.get("delete_pids") or case.get("add_pids") or ())
    return {"invalid": invalid, "ordered_pids_added": added, "ordered_pids_deleted": sorted(entry.pids)}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "coresched/helper.add_cookie": _add,
    "coresched/helper.get_cookie": _get,
    "coresched/helper.assign_cookie": _assign,
    "coresched/helper.clear_cookie": _clear,
    "coresched/helper.cookie_cache": _cache,
}
