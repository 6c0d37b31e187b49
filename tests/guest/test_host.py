"""`nri.host` on cgroup v2: the tests of tests/real/test_host.py, and features of v2 only."""

from __future__ import annotations

from nri.host import Outcome, Unsupported, Write, Writer, cgroup_pressure, detect, read_topology, survey
from nri.host.root import Root
from tests.real.controls import disk
from tests.real.test_host import (
    MIB,
    Pod,
    applied,
    pod,
    test_a_burst_follows_its_quota,
    test_a_core_scheduling_cookie_is_set_and_cleared_or_unsupported_with_a_reason,
    test_a_cpuset_shrinks_grows_and_moves_in_pod_and_container,
    test_a_deleted_container_is_reported_as_gone,
    test_a_memory_limit_is_applied_and_rounded_to_pages,
    test_a_quota_shrinks_and_grows_in_pod_and_container,
    test_an_oom_score_is_applied_to_every_process_of_the_container,
    test_shares_and_idle_are_set_and_reset,
    test_the_usage_of_a_container_is_read,
    test_values_that_the_kernel_refuses_or_clamps_are_reported,
)

__all__ = [
    "pod",
    "test_a_burst_follows_its_quota",
    "test_a_core_scheduling_cookie_is_set_and_cleared_or_unsupported_with_a_reason",
    "test_a_cpuset_shrinks_grows_and_moves_in_pod_and_container",
    "test_a_deleted_container_is_reported_as_gone",
    "test_a_memory_limit_is_applied_and_rounded_to_pages",
    "test_a_quota_shrinks_and_grows_in_pod_and_container",
    "test_an_oom_score_is_applied_to_every_process_of_the_container",
    "test_shares_and_idle_are_set_and_reset",
    "test_the_usage_of_a_container_is_read",
    "test_values_that_the_kernel_refuses_or_clamps_are_reported",
]


def test_all_controllers_are_on_cgroup_v2(pod: Pod) -> None:
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


def test_pressure_is_read_or_unsupported_with_a_reason(pod: Pod) -> None:
    pressure = cgroup_pressure(pod.hierarchies, pod.container, "memory")
    assert "psi=1" in pressure.reason if isinstance(pressure, Unsupported) else pressure.some is not None


def test_the_machine_has_two_nodes() -> None:
    topology = read_topology(Root())
    assert [sorted(node.cpus) for node in topology.nodes.values()] == [[0], [1]]
    assert len(topology.packages()) == 2
    assert detect(Root()).of("memory") is not None
