"""Sums and rates of statistics, and their messages."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.engine.calls import stats as module
from nri.engine.calls.stats import Reading, Readings, cpu_message, memory_message, network_message, swap_message, total
from nri.engine.process import ContainerStats, InterfaceStats
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.files import Usage


def test_missing_values_are_omitted_and_zeros_are_not() -> None:
    message = memory_message(7, ContainerStats(memory_usage_bytes=0))
    assert message.timestamp == 7 and message.HasField("usage_bytes") and message.usage_bytes.value == 0
    for field in ("working_set_bytes", "available_bytes", "rss_bytes", "page_faults", "major_page_faults"):
        assert not message.HasField(field)  # type: ignore[arg-type]
    cpu = cpu_message(Reading(7, ContainerStats(cpu_usage_ns=5), None))
    assert cpu.usage_core_nano_seconds.value == 5 and not cpu.HasField("usage_nano_cores")


def test_available_memory_is_the_limit_minus_the_working_set() -> None:
    stats = ContainerStats(memory_limit_bytes=100, working_set_bytes=60, swap_limit_bytes=10, swap_usage_bytes=30)
    assert memory_message(1, stats).available_bytes.value == 40
    assert swap_message(1, stats).swap_available_bytes.value == 0
    assert not memory_message(1, ContainerStats(working_set_bytes=60)).HasField("available_bytes")


def test_eth0_is_the_pods_interface_and_loopback_is_ignored() -> None:
    rows = [InterfaceStats("lo", 1, 0, 1, 0), InterfaceStats("eth0", 10, 1, 20, 2), InterfaceStats("net1", 5, 0, 6, 0)]
    message = network_message(rows)
    assert message.default_interface.name == "eth0" and message.default_interface.tx_errors.value == 2
    assert [interface.name for interface in message.interfaces] == ["net1"]


def test_a_sum_has_only_values_that_a_part_has() -> None:
    total_stats = total([ContainerStats(cpu_usage_ns=1, processes=2), ContainerStats(cpu_usage_ns=3)])
    assert total_stats == ContainerStats(cpu_usage_ns=4, processes=2)
    assert total([]) == ContainerStats()


def test_a_rate_requires_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000]
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: now[0])
    actual = {"c": ContainerStats()}
    readings = Readings(None, SimpleNamespace(stats=actual.__getitem__), None)  # type: ignore[arg-type]
    record = ContainerRecord("c", state=ContainerState.RUNNING)

    def cores(after_ns: int, usage_ns: int) -> int | None:
        now[0] += after_ns
        actual["c"] = ContainerStats(cpu_usage_ns=usage_ns)
        return readings.container(record).cores

    assert cores(0, 100) is None
    assert cores(1_000, 200) is None
    assert cores(999_999_000, 500_000_100) == 500_000_000
    assert cores(1_000, 600_000_000) == 500_000_000
    assert cores(1_000, 5) is None  # it has begun anew
    record.state = ContainerState.EXITED
    assert readings.container(record).cores is None


def test_the_first_rate_is_the_average_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "time_ns", lambda: 5_000_000_000)
    containers = SimpleNamespace(stats=lambda _: ContainerStats(cpu_usage_ns=1_000_000_000))
    readings = Readings(None, containers, None)  # type: ignore[arg-type]
    record = ContainerRecord("c", state=ContainerState.RUNNING, started_at_ns=1_000_000_000)
    assert readings.container(record).cores == 250_000_000


def test_a_clock_that_was_set_does_not_change_rates_and_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, elapsed = [2_000_000_000_000], [0]
    monkeypatch.setattr(module.time, "time_ns", lambda: wall[0])
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: elapsed[0])
    stats = {"c": ContainerStats(cpu_usage_ns=10**18)}
    images = SimpleNamespace(snapshots=SimpleNamespace(usage=lambda _: Usage(elapsed[0], 1)))
    readings = Readings(None, SimpleNamespace(stats=stats.__getitem__), images)  # type: ignore[arg-type]
    record = ContainerRecord("c", state=ContainerState.RUNNING, started_at_ns=wall[0] - 1)
    assert cpu_message(readings.container(record)).usage_nano_cores.value <= (os.cpu_count() or 1) * 1_000_000_000
    assert readings.disk_space("c") is not None
    wall[0], elapsed[0] = 1, 20_000_000_000
    stats["c"] = ContainerStats(cpu_usage_ns=10**18 + 5_000_000_000)
    assert readings.container(record) == (1, stats["c"], 250_000_000)
    assert readings.disk_space("c") == (1, Usage(20_000_000_000, 1))


def test_the_first_rate_of_a_pod_does_not_count_what_its_cgroup_used_before(tmp_path: Path) -> None:
    record = PodRecord("p", state=PodState.READY, cgroup_parent="/pods/p", created_at_ns=time.time_ns())
    for name, text in (("memory/pods/p/memory.usage_in_bytes", "1"), ("cpuacct/pods/p/cpuacct.usage", str(10**17))):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    readings = Readings(None, None, None, tmp_path)  # type: ignore[arg-type]
    rows = [Reading(1, ContainerStats(cpu_usage_ns=5), 100), Reading(1, ContainerStats(cpu_usage_ns=5), 200)]
    reading = readings.pod(record, rows)
    assert reading.stats is not None and (reading.stats.cpu_usage_ns, reading.cores) == (10**17, 300)


def test_a_pod_is_read_from_its_cgroup_on_both_versions(tmp_path: Path) -> None:
    record = PodRecord("p", state=PodState.READY, cgroup_parent="/pods/p")
    readings = Readings(None, None, None, tmp_path)  # type: ignore[arg-type]
    part = Reading(0, ContainerStats(memory_usage_bytes=1), None)
    assert readings.pod(record, [part]).stats == part.stats
    (tmp_path / "memory/pods/p").mkdir(parents=True)
    (tmp_path / "memory/pods/p/memory.usage_in_bytes").write_text("70")
    stats = readings.pod(record, [part]).stats
    assert stats is not None and stats.memory_usage_bytes == 70
    (tmp_path / "cgroup.controllers").write_text("memory")
    (tmp_path / "pods/p").mkdir(parents=True)
    (tmp_path / "pods/p/memory.current").write_text("80")
    stats = readings.pod(record, [part]).stats
    assert stats is not None and stats.memory_usage_bytes == 80
    record.state = PodState.STOPPED
    assert readings.pod(record, []).stats is None


def test_containers_with_many_files_are_counted_in_turn_within_a_time_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node can have any number of such containers, and its kubelet must get a reply."""
    now, walked = [1 << 60], list[str]()
    for clock in ("time_ns", "monotonic_ns"):
        monkeypatch.setattr(module.time, clock, lambda: now[0])

    def usage(name: str) -> Usage:
        walked.append(name)
        now[0] += 2_000_000_000 if name.startswith("big") else 1_000_000
        return Usage(len(walked), 1, whole=not name.startswith("big1"))

    images = SimpleNamespace(snapshots=SimpleNamespace(usage=usage))
    present = [f"big{number}" for number in range(30)] + ["small"]
    containers = SimpleNamespace(pods=list, containers=lambda: [SimpleNamespace(id=name) for name in present])
    readings = Readings(containers, None, images)  # type: ignore[arg-type]

    def listed() -> None:
        for name in present:
            disk_space = readings.disk_space(name)
            assert disk_space is not None and disk_space[1].size_bytes > 0
        readings.forget()

    listed()
    assert sorted(walked) == sorted(present), "what is not known is walked at once"
    walked.clear()
    began = now[0]
    for _ in range(30 * 12):
        now[0] += 10_000_000_000
        listed()
    big = [name for name in walked if name != "small"]
    assert sorted(set(big)) == sorted(set(present) - {"small"}), "each has its turn"
    assert max(big.count(name) for name in big) - min(big.count(name) for name in big) <= 1
    assert len(big) * 2_000_000_000 <= (now[0] - began) / 20
    assert walked.count("small") > 300
    present.remove("big5")
    readings.forget()
    walked.clear()
    for _ in range(10):
        now[0] += 60_000_000_000
        listed()
    assert len([name for name in walked if name != "small"]) == 10, "one that is gone holds up no other"


def test_a_container_without_a_file_system_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record exists until its removal succeeds, which may be never."""
    now, walked = [1 << 60], list[str]()
    for clock in ("time_ns", "monotonic_ns"):
        monkeypatch.setattr(module.time, clock, lambda: now[0])
    broken: set[str] = set()

    def usage(name: str) -> Usage:
        if name in broken:
            raise FileNotFoundError(name)
        walked.append(name)
        now[0] += 1_000_000_000
        return Usage(1, 1)

    readings = Readings(None, None, SimpleNamespace(snapshots=SimpleNamespace(usage=usage)))  # type: ignore[arg-type]
    assert [readings.disk_space(name) is None for name in ("first", "second")] == [False, False]
    broken.add("first")
    walked.clear()
    for _ in range(3):
        now[0] += 60_000_000_000
        assert [readings.disk_space(name) is None for name in ("first", "second")] == [True, False]
    assert walked == ["second"] * 3
