"""The desired values of cgroups are compared with the actual values, on trees of both cgroup versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.api import messages as m
from nri.host.cgroups import Hierarchies, Hierarchy
from nri.host.root import Root
from nri.testing import make_container, make_pod
from nri.trace.drift import DesiredValue, Drift, desired_values, field_of

CGROUP = "kubepods/podx/c1"
V1 = {"memory/memory.limit_in_bytes": "67108864", "cpu/cpu.shares": "300", "cpu/cpu.cfs_quota_us": "-1",
      "cpuset/cpuset.cpus": "0-1", "pids/pids.max": "max"}  # fmt: skip
V2 = {"memory.max": "67108864", "cpu.weight": "12", "cpu.max": "max 100000", "cpuset.cpus": "0-1", "pids.max": "max"}
NAMES = ("memory", "cpu", "cpuset", "pids")


class Machine:
    def __init__(self, folder: Path, version: int) -> None:
        root = Root(folder)
        top = "/sys/fs/cgroup"
        self.version, self.folder = version, folder
        rows = [Hierarchy(1, f"{top}/{name}", frozenset({name})) for name in NAMES]
        self.hierarchies = Hierarchies(root, tuple(rows if version == 1 else [Hierarchy(2, top, frozenset(NAMES))]))
        for file, text in (V1 if version == 1 else V2).items():
            self.write(file, text)

    def write(self, file: str, text: str) -> None:
        controller, _, name = file.rpartition("/")
        path = self.folder / "sys/fs/cgroup" / controller / CGROUP / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def limit(self, number: int) -> None:
        self.write("memory/memory.limit_in_bytes" if self.version == 1 else "memory.max", str(number))


@pytest.fixture(params=[1, 2])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def desired_from(**more: object) -> list[DesiredValue]:
    pod = make_pod(name="web", namespace="shop")
    fields = {"memory_limit": 64 << 20, "cpu_shares": 300, "cpus": "0-1", "cpu_quota": -1, **more}
    container = make_container(name="app", pod=pod, **fields)  # type: ignore[arg-type]
    container.linux.cgroups_path = f"/{CGROUP}"
    return [*desired_values(pod, container, "runtime")]


def test_an_unchanged_value_is_not_drift(machine: Machine) -> None:
    drift = Drift(machine.hierarchies)
    assert {desired.name for desired in desired_from()} == {
        "memory.limit",
        "cpu.shares",
        "cpuset.cpus",
        "cpu.cfs_quota",
    }
    assert drift.check(desired_from()) == [] and drift.now() == [] and drift.count == 0


def test_an_overwritten_value_and_its_restoration_are_reported_once(machine: Machine) -> None:
    now = [100.0]
    drift = Drift(machine.hierarchies, clock=lambda: now[0])
    drift.check(desired_from())
    now[0] = 102.0
    machine.limit(70 << 20)
    (change,) = drift.check(desired_from())
    document = change.to_json()
    assert (document["subject"], document["knob"], document["wanted"]) == ("shop/web/app", "memory.limit", 64 << 20)
    assert (document["found"], document["before"], document["by"]) == (70 << 20, 64 << 20, "")
    assert (document["after_s"], document["until_s"]) == (100.0, 102.0)
    assert drift.check(desired_from()) == [] and drift.now() == [change]
    now[0] = 104.0
    machine.limit(64 << 20)
    (back,) = drift.check(desired_from())
    assert back.found is None and back.before == 70 << 20 and drift.now() == [] and drift.count == 2


def test_if_two_sources_desire_a_value_the_actual_value_shows_which_was_overwritten(machine: Machine) -> None:
    machine.limit(70 << 20)
    agent = DesiredValue("shop/web/app", CGROUP, "memory.limit", 70 << 20, "agent")
    (change,) = Drift(machine.hierarchies).check([*desired_from(), agent])
    assert (change.desired.source, change.by, change.after_s) == ("runtime", "agent", 0.0)


def test_a_change_of_a_value_with_two_sources_is_reported_once(machine: Machine) -> None:
    machine.limit(70 << 20)
    agent = DesiredValue("shop/web/app", CGROUP, "memory.limit", 64 << 20, "agent")
    (change,) = Drift(machine.hierarchies).check([*desired_from(), agent])
    assert change.desired.source == "runtime"


def test_a_limit_rounded_to_pages_and_an_unset_limit_are_not_drift(machine: Machine) -> None:
    assert Drift(machine.hierarchies).check(desired_from(memory_limit=(64 << 20) + 5)) == []
    assert desired_from(memory_limit=0, cpu_shares=0, cpus="", cpu_quota=0)[0][2:4] == ("cpu.cfs_quota", -1), (
        "0 means unlimited"
    )


def test_a_missing_or_unreadable_value_is_forgotten(machine: Machine) -> None:
    drift = Drift(machine.hierarchies)
    machine.limit(1 << 20)
    assert len(drift.check(desired_from())) == 1
    assert drift.check([]) == [] and drift.now() == []
    lost = DesiredValue("x", "kubepods/gone", "memory.limit", 5, "agent")
    odd = DesiredValue("x", "../..", "memory.limit", 5, "agent")
    assert drift.check([lost, odd, DesiredValue("x", CGROUP, "io.weight", 5, "agent")]) == []
    assert (drift.unread, drift.compared_count) == (3, 0)
    machine.write("cpuset/cpuset.cpus" if machine.version == 1 else "cpuset.cpus", "0")
    assert [change.to_json()["found"] for change in drift.check(desired_from(memory_limit=1 << 20))] == ["0"]


def test_a_container_without_a_valid_cgroup_path_is_skipped() -> None:
    assert [*desired_values(None, m.Container(id="c"), "runtime")] == []
    container = make_container(memory_limit=64 << 20)
    container.linux.cgroups_path = "a:b"
    assert [*desired_values(None, container, "runtime")] == []
    container.linux.cgroups_path = "/a"
    container.linux.resources.cpu.cpus = "x-y"
    container.linux.resources.pids.limit = 55
    assert [(desired.name, desired.value) for desired in desired_values(None, container, "runtime")] == [
        ("memory.limit", 64 << 20),
        ("pids.limit", 55),
    ]


def test_cgroup_files_have_the_field_names_of_histories() -> None:
    assert [field_of(name) for name in ("memory.limit", "cpu.shares", "pids.limit", "cpu.idle")] == [
        "MemLimit",
        "CPUShares",
        "PidsLimit",
        "",
    ]


def test_values_above_the_limit_are_counted_and_not_compared(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.trace.drift.MAX_VALUES", 2)
    drift = Drift(machine.hierarchies)
    drift.check(desired_from())
    assert (drift.compared_count, drift.left_out) == (2, 2)


def test_only_the_newest_changes_are_kept(machine: Machine) -> None:
    drift = Drift(machine.hierarchies)
    for number in range(70, 1073):
        machine.limit(number << 20)
        drift.check(desired_from())
    assert [change.found for change in drift.changes] == [number << 20 for number in range(73, 1073)]
    assert drift.count == 1003
