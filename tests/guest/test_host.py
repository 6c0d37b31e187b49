"""`nri.host` on cgroup v2: the tests of tests/real/test_host.py, and what this version alone has."""

from __future__ import annotations

from nri.host import Outcome, Unsupported, Write, Writer, cgroup_pressure, detect, read_topology, survey
from nri.host.root import Root
from tests.real.controls import disk
from tests.real.test_host import (
    MIB,
    Pod,
    applied,
    pod,
    test_a_burst_goes_with_its_quota,
    test_a_container_that_is_deleted_is_gone,
    test_a_cookie_is_given_and_taken_or_there_is_a_reason_why_not,
    test_a_limit_of_memory_is_in_force_and_rounded_to_pages,
    test_a_quota_shrinks_and_grows_in_pod_and_container,
    test_a_set_of_cpus_shrinks_grows_and_moves_in_pod_and_container,
    test_an_oom_score_is_in_force_for_each_process_of_the_container,
    test_shares_and_idle_come_and_go,
    test_what_a_container_uses_is_read,
    test_what_the_kernel_refuses_or_cuts_is_told,
)

__all__ = [
    "pod",
    "test_a_burst_goes_with_its_quota",
    "test_a_container_that_is_deleted_is_gone",
    "test_a_cookie_is_given_and_taken_or_there_is_a_reason_why_not",
    "test_a_limit_of_memory_is_in_force_and_rounded_to_pages",
    "test_a_quota_shrinks_and_grows_in_pod_and_container",
    "test_a_set_of_cpus_shrinks_grows_and_moves_in_pod_and_container",
    "test_an_oom_score_is_in_force_for_each_process_of_the_container",
    "test_shares_and_idle_come_and_go",
    "test_what_a_container_uses_is_read",
    "test_what_the_kernel_refuses_or_cuts_is_told",
]


def test_everything_is_on_version_2(pod: Pod) -> None:
    assert pod.hierarchies.mode == "v2"
    knobs = survey(pod.hierarchies)
    unsupported = {name: row.reason for name, row in knobs.items() if isinstance(row, Unsupported)}
    for name in (
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.swap_limit",
        "io.weight",
        "io.read_bps",
        "cpu.idle",
    ):
        assert name not in unsupported, unsupported
    assert unsupported["net_cls.classid"] == "cgroup v2 has no net_cls.classid: use a filter by the path of the cgroup"


def test_protection_swap_and_block_io_are_in_force(pod: Pod) -> None:
    applied(pod, pod.both("memory.min", 8 * MIB, 4 * MIB))
    applied(pod, pod.both("memory.low", 16 * MIB, 8 * MIB))
    applied(pod, pod.both("memory.high", 64 * MIB, 32 * MIB))
    applied(pod, pod.both("cpuset.mems", frozenset({0, 1}), frozenset({1})))
    applied(pod, [Write(pod.container, "memory.swap_limit", 4 * MIB), Write(pod.container, "memory.oom_group", 1)])
    applied(pod, [Write(pod.container, "hugetlb.2MB.limit", 4 * MIB), Write(pod.container, "cpu.cfs_period", 50_000)])
    writer = Writer(pod.hierarchies)
    for name in ("io.read_bps", "io.write_bps", "io.read_iops", "io.write_iops"):
        result = writer.write(Write(pod.container, name, {disk(): 1000}))
        assert result.outcome is Outcome.APPLIED, result
    assert writer.read(pod.container, "io.read_iops") == {disk(): 1000}
    assert writer.write(Write(pod.container, "io.read_bps", {disk(): -1})).outcome is Outcome.APPLIED
    assert writer.write(Write(pod.container, "io.weight", 500)).outcome is Outcome.APPLIED
    assert writer.write(Write(pod.container, "io.read_bps", {"250:99": 5})).outcome is Outcome.REFUSED


def test_pressure_is_counted_or_there_is_a_reason(pod: Pod) -> None:
    pressure = cgroup_pressure(pod.hierarchies, pod.container, "memory")
    assert "psi=1" in pressure.reason if isinstance(pressure, Unsupported) else pressure.some is not None


def test_the_machine_has_two_nodes() -> None:
    topology = read_topology(Root())
    assert [sorted(node.cpus) for node in topology.nodes.values()] == [[0], [1]]
    assert len(topology.packages()) == 2
    assert detect(Root()).of("memory") is not None
