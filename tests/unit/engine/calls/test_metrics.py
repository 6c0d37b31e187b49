"""The table of metrics, and their values."""

from __future__ import annotations

from nri.engine.calls.metrics import COUNTED, NETWORK, TABLE, TRANSFERRED, USED, Metrics, device_name
from nri.engine.process import ContainerStats, Counters, InterfaceStats, Transfer
from nri.engine.process.counters import HugePages


def metric_values(metrics: Metrics) -> dict[tuple[str, ...], int]:
    """Value by name and the labels beyond the common ones."""
    for row in metrics.rows:
        assert len(row.label_values) == 1 + len(TABLE[row.name].labels)
        assert row.metric_type == TABLE[row.name].kind and row.timestamp == 9
    return {(row.name, *row.label_values[1:]): row.value.value for row in metrics.rows}


def test_the_keys_of_the_table_exist_in_readings() -> None:
    assert all(hasattr(ContainerStats(), row.key) for row in USED)
    assert all(hasattr(InterfaceStats("", 0, 0, 0, 0), row.key) for row in NETWORK)
    assert all(row.key in Transfer._fields for row in TRANSFERRED)


def test_names_are_unique_and_have_descriptions() -> None:
    names = [row.name for row in (*USED, *COUNTED, *NETWORK, *TRANSFERRED)]
    assert len(set(names)) == len(names) and all(row.help.endswith(".") for row in TABLE.values())


def test_unknown_values_have_no_metric_and_times_are_seconds() -> None:
    metrics = Metrics(9, ["c"])
    metrics.add_used(ContainerStats(cpu_usage_ns=2_500_000_000))
    metrics.add_counted(Counters({"throttled": 3_000_000_000, "threads_max": 0, "major_page_faults": 4}, []))
    assert metric_values(metrics) == {
        ("container_cpu_usage_seconds_total",): 2,
        ("container_cpu_cfs_throttled_seconds_total",): 3,
        ("container_threads_max",): 0,
        ("container_memory_failures_total", "pgmajfault", "container"): 4,
    }
    metrics.add_used(None)
    assert len(metrics.rows) == 4


def test_disks_and_interfaces_are_labels() -> None:
    metrics = Metrics(9, ["c"])
    pages = [HugePages("2MB", 5, 7), HugePages("1GB", 6, None)]
    metrics.add_counted(Counters({"open_files_limit": 77}, [Transfer("999:7", 10, 1, 20, 2)], pages))
    metrics.add_network(InterfaceStats("eth0", 1, 2, 3, 4, 5, 6, 7, 8))
    mount_rows = metric_values(metrics)
    assert mount_rows["container_fs_writes_bytes_total", "999:7"] == 20
    assert mount_rows["container_blkio_device_usage_total", "999:7", "999", "7", "Read"] == 10
    assert mount_rows["container_ulimits_soft", "max_open_files"] == 77
    assert mount_rows["container_hugetlb_max_usage_bytes", "2MB"] == 7
    assert mount_rows["container_hugetlb_usage_bytes", "1GB"] == 6
    assert ("container_hugetlb_max_usage_bytes", "1GB") not in mount_rows
    assert mount_rows["container_network_receive_packets_total", "eth0"] == 5
    assert mount_rows["container_network_transmit_packets_dropped_total", "eth0"] == 8


def test_a_missing_device_is_named_by_its_numbers() -> None:
    assert device_name("999:7") == "999:7"
