"""Sums and rates of readings, and readings as messages: what is not known is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.engine.calls import stats as module
from nri.engine.calls.stats import Reading, Readings, cpu_message, memory_message, network_message, swap_message, total
from nri.engine.process import ContainerStats, InterfaceStats
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState
from nri.files import Usage


def test_what_a_kernel_does_not_say_is_left_out_and_zero_is_not() -> None:
    message = memory_message(7, ContainerStats(memory_usage_bytes=0))
    assert message.timestamp == 7 and message.HasField("usage_bytes") and message.usage_bytes.value == 0
    for field in ("working_set_bytes", "available_bytes", "rss_bytes", "page_faults", "major_page_faults"):
        assert not message.HasField(field)  # type: ignore[arg-type]
    cpu = cpu_message(Reading(7, ContainerStats(cpu_usage_ns=5), None))
    assert cpu.usage_core_nano_seconds.value == 5 and not cpu.HasField("usage_nano_cores")


def test_available_is_the_limit_less_the_working_set_and_never_below_nothing() -> None:
    stats = ContainerStats(memory_limit_bytes=100, working_set_bytes=60, swap_limit_bytes=10, swap_usage_bytes=30)
    assert memory_message(1, stats).available_bytes.value == 40
    assert swap_message(1, stats).swap_available_bytes.value == 0
    assert not memory_message(1, ContainerStats(working_set_bytes=60)).HasField("available_bytes")


def test_eth0_is_the_pods_interface_and_loopback_is_no_traffic() -> None:
    rows = [InterfaceStats("lo", 1, 0, 1, 0), InterfaceStats("eth0", 10, 1, 20, 2), InterfaceStats("net1", 5, 0, 6, 0)]
    message = network_message(rows)
    assert message.default_interface.name == "eth0" and message.default_interface.tx_errors.value == 2
    assert [interface.name for interface in message.interfaces] == ["net1"]


def test_a_sum_has_what_any_part_has_and_no_more() -> None:
    total_stats = total([ContainerStats(cpu_usage_ns=1, processes=2), ContainerStats(cpu_usage_ns=3)])
    assert total_stats == ContainerStats(cpu_usage_ns=4, processes=2)
    assert total([]) == ContainerStats()


def test_a_rate_needs_two_readings_some_time_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000]
    monkeypatch.setattr(module.time, "time_ns", lambda: now[0])
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


def test_a_pod_is_read_from_its_own_cgroup_of_either_version(tmp_path: Path) -> None:
    record = PodRecord("p", state=PodState.READY, cgroup_parent="/pods/p")
    readings = Readings(None, None, None, tmp_path)  # type: ignore[arg-type]
    part = ContainerStats(memory_usage_bytes=1)
    assert readings.pod(record, [part]).stats == part
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


def test_containers_with_many_files_are_walked_in_turn_for_a_small_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many of them as somebody likes may be on a node, and its kubelet has to get its answer."""
    now, walked = [1 << 60], list[str]()
    monkeypatch.setattr(module.time, "time_ns", lambda: now[0])

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


def test_one_that_has_no_file_system_any_more_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is there until all of its removal has gone well, which may be never."""
    now, walked = [1 << 60], list[str]()
    monkeypatch.setattr(module.time, "time_ns", lambda: now[0])
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
