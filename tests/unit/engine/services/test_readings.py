"""Sums and rates of readings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.engine.process import ContainerStats
from nri.engine.services import readings as module
from nri.engine.services.readings import Readings, total
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState


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
