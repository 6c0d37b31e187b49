"""Readings as messages: what is not known is left out."""

from __future__ import annotations

from nri.engine.calls.readings import Reading
from nri.engine.calls.stats import cpu_message, memory_message, network_message, swap_message
from nri.engine.process import ContainerStats, InterfaceStats


def test_what_a_kernel_does_not_say_is_left_out_and_zero_is_not() -> None:
    made = memory_message(7, ContainerStats(memory_usage_bytes=0))
    assert made.timestamp == 7 and made.HasField("usage_bytes") and made.usage_bytes.value == 0
    for field in ("working_set_bytes", "available_bytes", "rss_bytes", "page_faults", "major_page_faults"):
        assert not made.HasField(field)  # type: ignore[arg-type]
    cpu = cpu_message(Reading(7, ContainerStats(cpu_usage_ns=5), None))
    assert cpu.usage_core_nano_seconds.value == 5 and not cpu.HasField("usage_nano_cores")


def test_available_is_the_limit_less_the_working_set_and_never_below_nothing() -> None:
    stats = ContainerStats(memory_limit_bytes=100, working_set_bytes=60, swap_limit_bytes=10, swap_usage_bytes=30)
    assert memory_message(1, stats).available_bytes.value == 40
    assert swap_message(1, stats).swap_available_bytes.value == 0
    assert not memory_message(1, ContainerStats(working_set_bytes=60)).HasField("available_bytes")


def test_eth0_is_the_pods_interface_and_loopback_is_no_traffic() -> None:
    rows = [InterfaceStats("lo", 1, 0, 1, 0), InterfaceStats("eth0", 10, 1, 20, 2), InterfaceStats("net1", 5, 0, 6, 0)]
    made = network_message(rows)
    assert made.default_interface.name == "eth0" and made.default_interface.tx_errors.value == 2
    assert [each.name for each in made.interfaces] == ["net1"]
