"""The loops on cgroup v2: the tests of tests/real/test_loops.py, in the guest."""

from __future__ import annotations

from tests.real.test_loops import (
    loops,
    machine,
    test_a_throttled_container_gets_more_and_gives_it_back,
    test_best_effort_pods_are_held_back_by_what_is_left_and_let_go,
    test_memory_of_a_pod_is_protected_where_the_kernel_can_and_told_where_not,
)

__all__ = [
    "loops",
    "machine",
    "test_a_throttled_container_gets_more_and_gives_it_back",
    "test_best_effort_pods_are_held_back_by_what_is_left_and_let_go",
    "test_memory_of_a_pod_is_protected_where_the_kernel_can_and_told_where_not",
]
