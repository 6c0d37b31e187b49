"""Rubik's services on cgroup v2: the tests of tests/real/test_rubik_services.py, in the guest."""

from __future__ import annotations

from tests.real.test_rubik_services import (
    services,
    test_a_burst_is_in_force,
    test_a_throttled_container_gets_more_on_an_idle_node,
    test_an_offline_pod_goes_when_an_online_one_waits_for_cpu,
    test_block_io_is_limited_by_disk,
    test_disks_have_a_cost_model_and_pods_weights,
    test_memory_high_of_offline_pods_is_in_force,
    test_offline_pods_yield_and_the_memory_of_online_ones_is_reclaimed_last,
)

__all__ = [
    "services",
    "test_a_burst_is_in_force",
    "test_a_throttled_container_gets_more_on_an_idle_node",
    "test_an_offline_pod_goes_when_an_online_one_waits_for_cpu",
    "test_block_io_is_limited_by_disk",
    "test_disks_have_a_cost_model_and_pods_weights",
    "test_memory_high_of_offline_pods_is_in_force",
    "test_offline_pods_yield_and_the_memory_of_online_ones_is_reclaimed_last",
]
