"""Pressure of the machine and of cgroups, and kernels without pressure files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.host import Pressure, Root, Unsupported, cgroup_pressure, detect, machine_pressure
from nri.host.pressure import Stall, parse_pressure
from tests.support import host_trees

TEXT = "some avg10=1.50 avg60=0.25 avg300=0.00 total=4711\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=12\n"
SAID = Pressure(Stall(1.5, 0.25, 0.0, 4711), Stall(0.5, 0.0, 0.0, 12))


def test_both_lines_are_read() -> None:
    assert parse_pressure(TEXT) == SAID
    assert parse_pressure(TEXT.splitlines()[0]) == Pressure(SAID.some, None)
    assert parse_pressure(f"more to come\n{TEXT}") == SAID


@pytest.mark.parametrize(
    "text",
    ["some avg10=x avg60=0 avg300=0 total=1", "some avg10=1", "some avg10=1 avg60=0 avg300=0 total=-1", "something"],
)
def test_an_invalid_pressure_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a line of a pressure file"):
        parse_pressure(text)


def test_the_pressure_of_the_machine_is_read(tmp_path: Path) -> None:
    root = host_trees.write_files(tmp_path, {"proc/pressure/io": TEXT})
    assert machine_pressure(root, "io") == SAID
    pressure = machine_pressure(root, "cpu")
    assert isinstance(pressure, Unsupported) and "psi=1" in pressure.reason


def test_the_pressure_of_a_cgroup_is_read_on_v2(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v2(tmp_path, "pod"))
    (tmp_path / "sys/fs/cgroup/pod/cpu.pressure").write_text(TEXT)
    assert cgroup_pressure(hierarchies, "pod", "cpu") == SAID
    pressure = cgroup_pressure(hierarchies, "pod", "memory")
    assert pressure == Unsupported(
        "memory.pressure of pod cannot be read: the kernel does not measure pressure: boot with psi=1"
    )


def test_the_pressure_of_a_cgroup_is_read_from_cpuacct_on_v1(tmp_path: Path) -> None:
    hierarchies = detect(host_trees.v1(tmp_path, "pod"))
    assert isinstance(cgroup_pressure(hierarchies, "pod", "cpu"), Unsupported)
    (tmp_path / "sys/fs/cgroup/cpu,cpuacct/pod/cpu.pressure").write_text(TEXT)
    assert cgroup_pressure(hierarchies, "pod", "cpu") == SAID


def test_a_machine_without_pressure_has_a_reason(tmp_path: Path) -> None:
    root = host_trees.write_files(tmp_path, {"sys/fs/cgroup/memory/pod/cgroup.procs": ""})
    hierarchies = cgroup_pressure(detect(root), "pod", "cpu")
    assert isinstance(hierarchies, Unsupported) and "openEuler" in hierarchies.reason


def test_a_missing_cgroup_is_not_a_missing_feature(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the cgroup does not exist"):
        cgroup_pressure(detect(host_trees.v2(tmp_path)), "pod", "cpu")


def test_this_machine_has_pressure_or_a_reason() -> None:
    assert isinstance(machine_pressure(Root(), "cpu"), Pressure | Unsupported)
