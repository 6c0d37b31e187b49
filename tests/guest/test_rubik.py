"""Rubik's services on cgroup v2: the tests of tests/real/test_rubik_services.py, in the guest.

There they also pass on a kernel that lacks what a service needs, and says so; this one lacks nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from nri.host import Unsupported, cgroup_pressure, probe
from tests.real.test_rubik_services import (
    Services,
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


def test_the_guest_has_all_that_the_services_need(services: Callable[..., Services]) -> None:
    node = services(full=True, ioLimit=None)
    web, *_ = node.pod()
    knobs = ("memory.high", "memory.low", "io.weight", "io.read_bps", "cpu.cfs_burst", "cpu.idle")
    probed = [probe(node.hierarchies, knob, web) for knob in knobs]
    probed += [probe(node.hierarchies, knob, "") for knob in ("io.cost_model", "io.cost_qos")]
    assert not [row.reason for row in probed if isinstance(row, Unsupported)]
    for resource in ("cpu", "memory", "io"):
        pressure = cgroup_pressure(node.hierarchies, web, resource)
        assert not isinstance(pressure, Unsupported), pressure.reason
