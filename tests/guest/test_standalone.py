"""Standalone mode on cgroup v2: the tests of tests/real/test_standalone.py, in the guest."""

from __future__ import annotations

from tests.real.test_standalone import (
    Machine,
    machine,
    test_a_cpu_ratio_changes_pod_and_container_quotas_in_an_accepted_order,
    test_cpus_of_a_sensitive_pod_follow_the_share_pools,
    test_the_best_effort_cgroup_idles_under_core_scheduling,
    test_unsupported_values_are_reported_and_a_removed_pod_is_harmless,
    test_values_of_a_batch_pod_are_applied_and_repaired,
)

__all__ = [
    "machine",
    "test_a_cpu_ratio_changes_pod_and_container_quotas_in_an_accepted_order",
    "test_cpus_of_a_sensitive_pod_follow_the_share_pools",
    "test_the_best_effort_cgroup_idles_under_core_scheduling",
    "test_unsupported_values_are_reported_and_a_removed_pod_is_harmless",
    "test_values_of_a_batch_pod_are_applied_and_repaired",
]


def test_the_guest_has_only_cgroup_v2(machine: Machine) -> None:
    assert machine.hierarchies.mode == "v2"
