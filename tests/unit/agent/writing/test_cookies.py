"""Core scheduling of containers: one cookie per group, on a simulated kernel."""

from __future__ import annotations

import errno

from nri.agent.writing.cookie_groups import Membership
from nri.agent.writing.cookies import CoreScheduling, KernelCookies
from nri.host import CoreScheduler, Outcome
from tests.support.clock import Clock
from tests.unit.host.test_core_sched import Kernel

IN, OUT = Membership(True, "g"), Membership(False, "")


def scheduling(kernel: Kernel) -> CoreScheduling:
    return CoreScheduling(CoreScheduler(kernel), Clock())


def test_containers_of_one_group_have_one_cookie() -> None:
    kernel = Kernel({1: 0, 10: 0, 11: 0, 20: 0})
    cookies = scheduling(kernel)
    (first,) = cookies.apply(IN, "pod/a", [10, 11])
    (second,) = cookies.apply(IN, "pod/b", [20])
    assert (first.outcome, second.outcome) == (Outcome.APPLIED, Outcome.APPLIED)
    assert kernel.cookies == {1: 0, 10: 100, 11: 100, 20: 100}
    (second_round,) = cookies.apply(IN, "pod/b", [20])
    assert second_round.outcome is Outcome.UNCHANGED


def test_a_container_that_leaves_loses_its_cookie() -> None:
    kernel = Kernel({1: 0, 10: 0})
    cookies = scheduling(kernel)
    cookies.apply(IN, "pod/a", [10])
    (result,) = cookies.apply(OUT, "pod/a", [10])
    assert (result.outcome, result.wanted, kernel.cookies[10]) == (Outcome.APPLIED, "none", 0)


def test_a_foreign_cookie_is_unchanged() -> None:
    kernel = Kernel({1: 0, 10: 7})
    (result,) = scheduling(kernel).apply(OUT, "pod/a", [10])
    assert (result.outcome, kernel.cookies[10]) == (Outcome.UNCHANGED, 7)


def test_a_cookie_that_cannot_be_removed_is_reported() -> None:
    kernel = Kernel({1: 0, 10: 0})
    cookies = scheduling(kernel)
    cookies.apply(IN, "pod/a", [10])
    kernel.stubborn = {10}
    (result,) = cookies.apply(OUT, "pod/a", [10])
    assert result.outcome is Outcome.REFUSED


def test_ended_processes_are_reported() -> None:
    (result,) = scheduling(Kernel({1: 0})).apply(IN, "pod/a", [10])
    assert result.outcome is Outcome.REFUSED


def test_a_kernel_without_core_scheduling_is_unsupported_with_the_reason() -> None:
    kernel = Kernel({1: 0, 10: 0})
    kernel.errors = {0: errno.EINVAL}
    (result,) = scheduling(kernel).apply(IN, "pod/a", [10])
    assert result.outcome is Outcome.UNSUPPORTED
    assert "5.14" in result.reason


def test_a_container_without_processes_has_no_result() -> None:
    assert scheduling(Kernel({1: 0})).apply(IN, "pod/a", []) == []


def test_failures_are_returned_by_process() -> None:
    kernel = Kernel({1: 0, 10: 5, 11: 0})
    kernel.stubborn = {11}
    cookies = KernelCookies(CoreScheduler(kernel))
    assert cookies.get(10) == 5
    assert cookies.assign(10, [11]) == [11]
    assert cookies.clear([10, 12]) == [12]
