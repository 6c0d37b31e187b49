"""The order of writes in a batch. tests/property/test_cgroup_batches.py checks that no step is refused."""

from __future__ import annotations

from nri.host import Write
from nri.host.cgroups.batch import Step, depth, order


def test_limits_grow_from_the_root_and_shrink_from_the_leaves() -> None:
    writes = [Write("a/b", "cpu.cfs_quota", 30), Write("a", "cpu.cfs_quota", 50), Write("a/b/c", "cpu.cfs_quota", 20)]
    assert order(writes, [40, 20, 10]) == [
        Step(1, 50, True), Step(2, 20, True), Step(0, 30, True),
    ]  # fmt: skip


def test_a_moved_cpuset_is_first_the_union_and_then_the_new_set() -> None:
    writes = [Write("a", "cpuset.cpus", frozenset({2, 3})), Write("a/b", "cpuset.cpus", frozenset({3}))]
    assert order(writes, [frozenset({0, 1}), frozenset({0})]) == [
        Step(0, frozenset({0, 1, 2, 3}), False), Step(1, frozenset({0, 3}), False),
        Step(1, frozenset({3}), True), Step(0, frozenset({2, 3}), True),
    ]  # fmt: skip


def test_unknown_values_are_written_once() -> None:
    assert order([Write("a", "cpu.cfs_quota", 50)], [None]) == [Step(0, 50, True)]


def test_a_burst_is_written_while_the_quota_is_large() -> None:
    writes = [Write("a", "cpu.cfs_burst", 5), Write("a", "cpu.cfs_quota", 50)]
    assert [step.number for step in order(writes, [9, 20])] == [1, 0]
    assert [step.number for step in order(writes, [9, 90])] == [0, 1]


def test_a_weight_is_written_while_the_cgroup_is_not_idle() -> None:
    shares, on, off = Write("a", "cpu.shares", 2), Write("a", "cpu.idle", 1), Write("a", "cpu.idle", 0)
    assert [step.number for step in order([on, shares], [0, 1024])] == [1, 0]
    assert [step.number for step in order([shares, off], [3, 1])] == [1, 0]


def test_the_depth_of_a_path_counts_names() -> None:
    assert [depth(path) for path in ("", "/", "a", "/a/b/", "a//b")] == [0, 0, 1, 2, 2]
