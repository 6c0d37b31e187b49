"""Rubik's services on cgroup v2: the tests of tests/real/test_rubik_services.py, in the guest.

There they also pass if the kernel lacks a feature and the service reports that. This kernel has all features.
"""

from __future__ import annotations

from collections.abc import Callable

from nri.host import Unsupported, cgroup_pressure, probe
from tests.real.test_rubik_services import (
    Services,
    services,
    test_a_burst_is_applied,
    test_a_throttled_container_gets_more_cpu_on_an_idle_node,
    test_an_offline_pod_is_evicted_when_an_online_pod_waits_for_cpu,
    test_block_io_is_limited_per_disk,
    test_disks_have_a_cost_model_and_pods_have_weights,
    test_memory_high_of_offline_pods_is_applied,
    test_offline_pods_have_low_shares_and_online_memory_is_protected,
)

__all__ = [
    "services",
    "test_a_burst_is_applied",
    "test_a_throttled_container_gets_more_cpu_on_an_idle_node",
    "test_an_offline_pod_is_evicted_when_an_online_pod_waits_for_cpu",
    "test_block_io_is_limited_per_disk",
    "test_disks_have_a_cost_model_and_pods_have_weights",
    "test_memory_high_of_offline_pods_is_applied",
    "test_offline_pods_have_low_shares_and_online_memory_is_protected",
]


def test_the_guest_supports_everything_that_the_services_require(services: Callable[..., Services]) -> None:
    node = services(full=True, ioLimit=None)
    web, *_ = node.pod()
    knobs = ("memory.high", "memory.low", "io.weight", "io.read_bps", "cpu.cfs_burst", "cpu.idle")
    probed = [probe(node.hierarchies, knob, web) for knob in knobs]
    probed += [probe(node.hierarchies, knob, "") for knob in ("io.cost_model", "io.cost_qos")]
    assert not [row.reason for row in probed if isinstance(row, Unsupported)]
    for resource in ("cpu", "memory", "io"):
        pressure = cgroup_pressure(node.hierarchies, web, resource)
        assert not isinstance(pressure, Unsupported), pressure.reason
