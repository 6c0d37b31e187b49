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


def test_a_sum_has_what_any_part_has_and_no_more() -> None:
    made = total([ContainerStats(cpu_usage_ns=1, processes=2), ContainerStats(cpu_usage_ns=3)])
    assert made == ContainerStats(cpu_usage_ns=4, processes=2)
    assert total([]) == ContainerStats()


def test_a_rate_needs_two_readings_some_time_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000]
    monkeypatch.setattr(module.time, "time_ns", lambda: now[0])
    found = {"c": ContainerStats()}
    made = Readings(None, SimpleNamespace(stats=found.__getitem__), None)  # type: ignore[arg-type]
    record = ContainerRecord("c", state=ContainerState.RUNNING)

    def cores(after_ns: int, usage_ns: int) -> int | None:
        now[0] += after_ns
        found["c"] = ContainerStats(cpu_usage_ns=usage_ns)
        return made.container(record).cores

    assert cores(0, 100) is None
    assert cores(1_000, 200) is None
    assert cores(999_999_000, 500_000_100) == 500_000_000
    assert cores(1_000, 600_000_000) == 500_000_000
    assert cores(1_000, 5) is None  # it has begun anew
    record.state = ContainerState.EXITED
    assert made.container(record).cores is None


def test_a_pod_is_read_from_its_own_cgroup_of_either_version(tmp_path: Path) -> None:
    record = PodRecord("p", state=PodState.READY, cgroup_parent="/pods/p")
    made = Readings(None, None, None, tmp_path)  # type: ignore[arg-type]
    part = ContainerStats(memory_usage_bytes=1)
    assert made.pod(record, [part]).stats == part
    (tmp_path / "memory/pods/p").mkdir(parents=True)
    (tmp_path / "memory/pods/p/memory.usage_in_bytes").write_text("70")
    found = made.pod(record, [part]).stats
    assert found is not None and found.memory_usage_bytes == 70
    (tmp_path / "cgroup.controllers").write_text("memory")
    (tmp_path / "pods/p").mkdir(parents=True)
    (tmp_path / "pods/p/memory.current").write_text("80")
    found = made.pod(record, [part]).stats
    assert found is not None and found.memory_usage_bytes == 80
    record.state = PodState.STOPPED
    assert made.pod(record, []).stats is None


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
    there = [f"big{number}" for number in range(30)] + ["small"]
    containers = SimpleNamespace(pods=list, containers=lambda: [SimpleNamespace(id=name) for name in there])
    made = Readings(containers, None, images)  # type: ignore[arg-type]

    def listed() -> None:
        for name in there:
            found = made.disk_space(name)
            assert found is not None and found[1].size_bytes > 0
        made.forget()

    listed()
    assert sorted(walked) == sorted(there), "what is not known is walked at once"
    walked.clear()
    began = now[0]
    for _ in range(30 * 12):
        now[0] += 10_000_000_000
        listed()
    big = [name for name in walked if name != "small"]
    assert sorted(set(big)) == sorted(set(there) - {"small"}), "each has its turn"
    assert max(big.count(name) for name in big) - min(big.count(name) for name in big) <= 1
    assert len(big) * 2_000_000_000 <= (now[0] - began) / 20
    assert walked.count("small") > 300
    there.remove("big5")
    made.forget()
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

    made = Readings(None, None, SimpleNamespace(snapshots=SimpleNamespace(usage=usage)))  # type: ignore[arg-type]
    assert [made.disk_space(name) is None for name in ("first", "second")] == [False, False]
    broken.add("first")
    walked.clear()
    for _ in range(3):
        now[0] += 60_000_000_000
        assert [made.disk_space(name) is None for name in ("first", "second")] == [True, False]
    assert walked == ["second"] * 3
