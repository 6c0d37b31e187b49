"""Standalone mode on cgroup v2: the tests of tests/real/test_standalone.py, in the guest."""

from __future__ import annotations

from tests.real.test_standalone import (
    Machine,
    machine,
    test_a_ratio_shrinks_and_grows_the_quotas_of_pod_and_container_in_an_order_that_the_kernel_takes,
    test_cpus_of_a_sensitive_pod_follow_the_share_pools,
    test_shares_quota_memory_and_oom_score_of_a_batch_pod_are_in_force_and_come_back,
    test_the_folder_of_best_effort_pods_idles_when_core_scheduling_wants_it,
    test_what_this_kernel_cannot_is_told_with_the_reason_and_a_pod_that_has_gone_costs_nothing,
)

__all__ = [
    "machine",
    "test_a_ratio_shrinks_and_grows_the_quotas_of_pod_and_container_in_an_order_that_the_kernel_takes",
    "test_cpus_of_a_sensitive_pod_follow_the_share_pools",
    "test_shares_quota_memory_and_oom_score_of_a_batch_pod_are_in_force_and_come_back",
    "test_the_folder_of_best_effort_pods_idles_when_core_scheduling_wants_it",
    "test_what_this_kernel_cannot_is_told_with_the_reason_and_a_pod_that_has_gone_costs_nothing",
]


def test_the_guest_has_only_version_2(machine: Machine) -> None:
    assert machine.hierarchies.mode == "v2"
