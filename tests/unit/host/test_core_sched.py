"""Core scheduling cookies with a simulated kernel and with this machine's kernel."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from nri.host import CoreScheduler, Outcome
from nri.host.core_sched import Scope
from tests.support.no_threads import no_threads

GET, CREATE, SHARE_TO, SHARE_FROM = range(4)


class Kernel:
    """Cookies of processes and of the threads that ask; `errors` by process."""

    def __init__(self, cookies: dict[int, int]) -> None:
        self.cookies, self.next = dict(cookies), 100
        self.threads: dict[int, int] = {}
        self.begin_with = 0
        self.errors: dict[int, int] = {}
        self.stubborn: set[int] = set()

    def __call__(self, command: int, pid: int, scope: int) -> int:
        thread_id = threading.get_ident()
        if pid in self.errors:
            raise OSError(self.errors[pid], os.strerror(self.errors[pid]))
        if pid and pid not in self.cookies:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        if command == GET:
            return self.cookies[pid] if pid else self.threads.get(thread_id, self.begin_with)
        if command == CREATE:
            self.cookies[pid] = self.next
            self.next += 1
        elif command == SHARE_TO:
            if pid not in self.stubborn:
                self.cookies[pid] = self.threads.get(thread_id, self.begin_with)
        else:
            assert scope == Scope.THREAD, "the kernel knows no other"
            self.threads[thread_id] = self.cookies[pid]
        return 0


def test_one_process_gets_a_cookie_and_the_others_share_it() -> None:
    kernel = Kernel({1: 0, 10: 0, 11: 0, 12: 100})
    scheduler = CoreScheduler(kernel)
    creation = scheduler.create(10)
    assert (creation.outcome, creation.after) == (Outcome.APPLIED, 100)
    results = scheduler.share(10, [11, 12, 13])
    assert [result.outcome for result in results] == [Outcome.APPLIED, Outcome.UNCHANGED, Outcome.GONE]
    assert kernel.cookies == {1: 0, 10: 100, 11: 100, 12: 100}
    assert threading.get_ident() not in kernel.threads, "this thread keeps none"


def test_cookies_are_cleared() -> None:
    kernel = Kernel({1: 0, 10: 100, 11: 0})
    results = CoreScheduler(kernel).clear([10, 11, 12])
    assert [result.outcome for result in results] == [Outcome.APPLIED, Outcome.UNCHANGED, Outcome.GONE]
    assert kernel.cookies == {1: 0, 10: 0, 11: 0}


def test_a_program_with_a_cookie_shares_the_cookie_of_the_first_process() -> None:
    kernel = Kernel({1: 0, 10: 100})
    kernel.begin_with = 55
    assert CoreScheduler(kernel).clear([10])[0].outcome is Outcome.APPLIED
    assert kernel.cookies[10] == 0


def test_a_cookie_that_changed_during_the_call_is_not_shared() -> None:
    kernel = Kernel({1: 66, 10: 100})
    kernel.begin_with = 55
    (result,) = CoreScheduler(kernel).clear([10])
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "the cookie of process 1 has changed to 66")
    assert kernel.cookies[10] == 100


def test_a_source_that_has_exited_shares_no_cookie() -> None:
    kernel = Kernel({1: 0, 11: 0})
    (result,) = CoreScheduler(kernel).share(10, [11])
    assert (result.outcome, result.wanted) == (Outcome.GONE, "the cookie of process 10")
    assert CoreScheduler(kernel).create(10).outcome is Outcome.GONE


def test_a_process_that_keeps_its_cookie_is_reported() -> None:
    kernel = Kernel({1: 0, 10: 100})
    kernel.stubborn.add(10)
    (result,) = CoreScheduler(kernel).clear([10])
    assert (result.outcome, result.reason, result.after) == (Outcome.CLAMPED, "the process's cookie is 100", 100)


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EINVAL, "CONFIG_SCHED_CORE"), (errno.ENODEV, "hyper-threads"), (errno.EPERM, "permitted")],
)
def test_a_machine_without_core_scheduling_has_a_reason(number: int, reason: str) -> None:
    kernel = Kernel({1: 0, 10: 0})
    kernel.errors = {0: number, 10: number}
    scheduler = CoreScheduler(kernel)
    probed = scheduler.probe()
    assert probed is not None and reason in probed.reason
    outcome = Outcome.REFUSED if number == errno.EPERM else Outcome.UNSUPPORTED
    assert {scheduler.create(10).outcome, scheduler.clear([10])[0].outcome} == {outcome}
    assert CoreScheduler(Kernel({})).probe() is None


def test_this_kernel_supports_core_scheduling_or_has_a_reason() -> None:
    scheduler = CoreScheduler()
    probed = scheduler.probe()
    result = scheduler.create(os.getpid(), Scope.THREAD) if probed is not None else None
    if result is not None:
        assert probed is not None and probed.reason == result.reason
        assert result.outcome is Outcome.UNSUPPORTED
    else:
        assert scheduler.cookie(os.getpid()) >= 0


def test_without_a_thread_the_call_fails_for_each_process() -> None:
    scheduler = CoreScheduler(Kernel({1: 0, 10: 100, 11: 100}))
    with no_threads():
        results = scheduler.clear([10, 11])
    assert [(result.outcome in (Outcome.APPLIED, Outcome.UNCHANGED), result.after) for result in results] == [
        (False, None), (False, None)
    ]  # fmt: skip
