"""Pins as answers to the runtime, and requests of the runtime."""

from __future__ import annotations

import nri
from nri.api import messages as m
from nri.kube.requests import Requests
from nri.placement.answers import adjustment_of, differing, requests_after, updates_of
from nri.placement.containers import Pins
from nri.placement.scheduling import SchedulingClass
from nri.testing import make_container
from tests.support.placement import GIB, container


def test_an_answer_has_only_pinned_values() -> None:
    expected = nri.Adjustment().set_cpuset_cpus("1-2").set_cpuset_mems("0").set_cpu_shares(512)
    assert adjustment_of(Pins("1-2", "0", 512)) == expected
    assert adjustment_of(Pins("", None, None)) == nri.Adjustment()


def test_other_containers_are_updated_only_with_changes() -> None:
    first, second = updates_of({"a": Pins(cpus="3"), "b": Pins("", "1", 2), "c": Pins("", None, None)})
    assert first == nri.Update("a").set_ignore_failure().set_cpuset_cpus("3")
    assert second == nri.Update("b").set_ignore_failure().set_cpuset_mems("1").set_cpu_shares(2)


def test_a_container_with_its_pins_is_not_updated() -> None:
    message = make_container(cpus="0,1,2", mems="0", cpu_shares=512)
    assert differing(Pins("0-2", "0", 512), message) == Pins()
    assert differing(Pins("0-3", "1", 2), message) == Pins("0-3", "1", 2)
    assert differing(Pins("0-2"), make_container(cpus="nonsense")) == Pins("0-2")


def test_a_resize_changes_only_given_values() -> None:
    one = container("one", 500, GIB, qos="Burstable", limit_m=1000, memory_limit=2 * GIB)
    message = make_container()
    message.linux.oom_score_adj.value = 500

    def after(**resources: object) -> Requests:
        return requests_after(one, message, make_container(**resources).linux.resources, 4 * GIB)  # type: ignore[arg-type]

    assert after() == one.requests
    assert after(cpu_shares=1024) == one.requests._replace(cpu_m=1000)
    assert after(cpu_shares=2) == one.requests._replace(cpu_m=0)
    assert after(cpu_quota=200000, cpu_period=100000) == one.requests._replace(cpu_limit_m=2000)
    assert after(memory_limit=3 * GIB) == Requests(500, 1000, 2 * GIB, 3 * GIB)


def test_a_guaranteed_container_is_limited_to_what_it_requests() -> None:
    one = container("one", 500, GIB)
    resources = m.LinuxResources()
    resources.cpu.shares.value = 2048
    assert requests_after(one, make_container(), resources, 4 * GIB) == Requests(2000, 2000, GIB, GIB)


def test_a_scheduling_class_is_in_the_answer_with_its_times_in_nanoseconds() -> None:
    exact = SchedulingClass("x", policy="deadline", flags=["reset-on-fork"], runtime=1000, deadline=5000, period=6000)
    adjustment = nri.Adjustment().set_scheduler(
        "DEADLINE", flags=["RESET_ON_FORK"], runtime_ns=1_000_000, deadline_ns=5_000_000, period_ns=6_000_000
    )
    assert adjustment_of(Pins(), exact) == adjustment
    assert adjustment_of(Pins(), SchedulingClass("x", nice=5)) == nri.Adjustment().set_scheduler("OTHER", nice=5)
    io = SchedulingClass("x", ioClass="be", ioPriority=7)
    assert adjustment_of(Pins(), io) == nri.Adjustment().set_io_priority("BE", 7)
