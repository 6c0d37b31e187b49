"""The loops on cgroup v2: the tests of tests/real/test_loops.py, in the guest."""

from __future__ import annotations

from tests.real.test_loops import (
    loops,
    machine,
    test_a_throttled_container_gets_more_cpu_and_returns_it,
    test_best_effort_pods_are_limited_by_unused_cpu_and_released,
    test_pod_memory_is_protected_or_unsupported_with_a_reason,
)

__all__ = [
    "loops",
    "machine",
    "test_a_throttled_container_gets_more_cpu_and_returns_it",
    "test_best_effort_pods_are_limited_by_unused_cpu_and_released",
    "test_pod_memory_is_protected_or_unsupported_with_a_reason",
]
