"""Core scheduling with prctl(PR_SCHED_CORE): only threads with the same cookie may share a core.

A cookie is a number that the kernel chooses; 0 means no cookie. Process ids are those in this process's namespace, so
an agent needs the machine's pid namespace.

Source: Documentation/admin-guide/hw-vuln/core-scheduling.rst, Linux 5.14.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
from collections.abc import Callable, Iterable

from nri.host.outcome import Outcome, Result, Unsupported, explain
from nri.threads import run_on_new_thread

_PR_SCHED_CORE = 62
_GET, _CREATE, _SHARE_TO, _SHARE_FROM = range(4)
_NAME = "core_sched.cookie"
#: The machine's first process, which has no cookie.
_FIRST = 1

#: A function of command, pid and scope that returns the cookie for GET, else 0. Raises OSError if the call fails.
Prctl = Callable[[int, int, int], int]


class Scope(enum.IntEnum):
    """The scope of a call: a thread, all threads of a process, or all processes of a group."""

    THREAD = 0
    PROCESS = 1
    PROCESS_GROUP = 2


def _prctl(command: int, pid: int, scope: int) -> int:
    cookie = ctypes.c_ulong(0)
    pointer = ctypes.byref(cookie) if command == _GET else ctypes.c_void_p(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SCHED_CORE, ctypes.c_ulong(command), ctypes.c_ulong(pid), ctypes.c_ulong(scope), pointer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(cookie.value)


class CoreScheduler:
    """Give cookies to processes, and remove them. `prctl` is the system call."""

    def __init__(self, prctl: Prctl = _prctl) -> None:
        self._prctl = prctl

    def probe(self) -> Unsupported | None:
        """Why this machine does not support core scheduling. Returns None if it does."""
        try:
            self._prctl(_GET, 0, Scope.THREAD)
        except OSError as error:
            return Unsupported(_reason(error))
        return None

    def cookie(self, pid: int) -> int:
        """The cookie of a process's first thread, or 0. Raises OSError (ESRCH) if the process has ended."""
        return self._prctl(_GET, pid, Scope.THREAD)

    def create(self, pid: int, scope: Scope = Scope.PROCESS) -> Result:
        """Give a process a new cookie. The result's `after` is the cookie."""
        try:
            self._prctl(_CREATE, pid, scope)
            return Result(_target(pid), _NAME, "new", Outcome.APPLIED, after=self.cookie(pid))
        except OSError as error:
            return _failed_result(pid, "new", error)

    def share(self, source: int, pids: Iterable[int], scope: Scope = Scope.PROCESS) -> list[Result]:
        """Give processes the cookie of the process `source`. Returns a result for each, without exceptions."""
        try:
            cookie = self.cookie(source)
        except OSError as error:
            return [_failed_result(pid, f"the cookie of process {source}", error) for pid in pids]
        return self._pass_on(source, cookie, list(pids), scope)

    def clear(self, pids: Iterable[int], scope: Scope = Scope.PROCESS) -> list[Result]:
        """Remove the cookies of processes. Returns a result for each process, without exceptions."""
        return self._pass_on(_FIRST, 0, list(pids), scope)

    def _pass_on(self, source: int, cookie: int, pids: list[int], scope: Scope) -> list[Result]:
        results: list[Result] = []

        def work() -> None:  # on a new thread, so that no thread of this program keeps the cookie
            try:
                # A thread starts with the cookie of its creator, which usually has no cookie.
                if self._prctl(_GET, 0, Scope.THREAD) != cookie:
                    self._prctl(_SHARE_FROM, source, Scope.THREAD)
                if (current := self._prctl(_GET, 0, Scope.THREAD)) != cookie:
                    raise OSError(errno.EAGAIN, f"the cookie of process {source} has changed to {current}")
            except OSError as error:
                results.extend(_failed_result(pid, cookie, error) for pid in pids)
            else:
                results.extend(self._give_cookie(pid, cookie, scope) for pid in pids)

        try:
            run_on_new_thread(work, "nri-core-sched")
        except OSError as error:  # no thread can be started
            return [_failed_result(pid, cookie, error) for pid in pids]
        return results

    def _give_cookie(self, pid: int, cookie: int, scope: Scope) -> Result:
        try:
            before = self.cookie(pid)
            self._prctl(_SHARE_TO, pid, scope)
            after = self.cookie(pid)
        except OSError as error:
            return _failed_result(pid, cookie, error)
        if after != cookie:
            return Result(
                _target(pid), _NAME, cookie, Outcome.CLAMPED, f"the process's cookie is {after}", before, after
            )
        outcome = Outcome.UNCHANGED if before == cookie else Outcome.APPLIED
        return Result(_target(pid), _NAME, cookie, outcome, "", before, after)


def _target(pid: int) -> str:
    return f"process {pid}"


def _failed_result(pid: int, cookie: object, error: OSError) -> Result:
    if error.errno in (errno.EINVAL, errno.ENODEV):
        return Result(_target(pid), _NAME, cookie, Outcome.UNSUPPORTED, _reason(error))
    return Result(_target(pid), _NAME, cookie, *explain(error))


def _reason(error: OSError) -> str:
    """Why the machine does not support core scheduling. prctl returns EINVAL for an unknown command."""
    if error.errno == errno.EINVAL:
        return "the kernel is older than Linux 5.14, or built without CONFIG_SCHED_CORE"
    if error.errno == errno.ENODEV:
        return "the processor has no hyper-threads, or they are disabled"
    return error.strerror or str(error)
