"""The CDI devices of a machine: folders, precedence and problems."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nri.errors import SpecError
from nri.oci import CdiDevices, Generator
from tests.unit.oci.build import adjustment


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders = [root / "etc/cdi", root / "run/cdi"]
        for folder in self.folders:
            folder.mkdir(parents=True)
        self.cdi = CdiDevices([str(folder) for folder in self.folders])

    def put(self, name: str, *devices: str, rank: int = 0, **change: Any) -> str:
        path = self.folders[rank] / name
        edits = {"env": [f"FROM={name}@{rank}"]}
        listed = [{"name": device, "containerEdits": {"env": [f"D{device}=1"]}} for device in devices]
        document = {"cdiVersion": "0.5.0", "kind": "v.com/c", "containerEdits": edits, "devices": listed, **change}
        path.write_text(json.dumps(document))
        return str(path)

    def env(self, *names: str) -> list[str]:
        actual: list[str] = self.cdi.inject({}, names)["process"]["env"]
        return actual


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_folder_there_are_no_devices(tmp_path: Path) -> None:
    devices = CdiDevices([str(tmp_path / "none")])
    assert (devices.devices, devices.problems) == ({}, ())
    with pytest.raises(SpecError, match=r"unresolvable CDI device v/c=1: no file in .*none describes it$"):
        devices.inject({}, ["v/c=1"])


def test_the_edits_of_a_file_are_applied_once_and_first(machine: Machine) -> None:
    machine.put("a.json", "1", "2")
    assert machine.env("v.com/c=2", "v.com/c=1") == ["FROM=a.json@0", "D2=1", "D1=1"]


def test_the_given_spec_is_not_changed(machine: Machine) -> None:
    machine.put("a.json", "1")
    spec = {"process": {"env": ["X=1"]}}
    inject = machine.cdi.inject(spec, ["v.com/c=1"])
    assert spec == {"process": {"env": ["X=1"]}}
    assert inject["process"]["env"] == ["X=1", "FROM=a.json@0", "D1=1"]
    assert machine.cdi.inject(spec, []) == spec


def test_a_folder_of_higher_rank_hides_the_others(machine: Machine) -> None:
    low, high = machine.put("a.json", "1", "2"), machine.put("a.json", "1", rank=1)
    assert machine.cdi.devices == {"v.com/c=1": high, "v.com/c=2": low}
    assert machine.env("v.com/c=1") == ["FROM=a.json@1", "D1=1"]
    assert machine.cdi.problems == ()


def test_two_devices_of_one_rank_conflict_and_are_named(machine: Machine) -> None:
    first, second = machine.put("a.json", "1", "2"), machine.put("b.json", "1")
    assert machine.cdi.devices == {"v.com/c=2": first}
    (problem,) = machine.cdi.problems
    assert str(problem) == f"{second}: devices: v.com/c=1 is also described by {first}"
    with pytest.raises(SpecError, match=rf"v.com/c=1: it is described by {first} and by {second}"):
        machine.cdi.inject({}, ["v.com/c=1"])


def test_a_folder_of_higher_rank_resolves_a_conflict(machine: Machine) -> None:
    machine.put("a.json", "1")
    machine.put("b.json", "1")
    high = machine.put("c.json", "1", rank=1)
    assert machine.cdi.devices == {"v.com/c=1": high}
    assert machine.cdi.problems == ()


def test_an_invalid_file_is_ignored_and_reported(machine: Machine) -> None:
    good, bad = machine.put("a.json", "1"), machine.put("b.json", "2", cdiVersion="x")
    assert machine.cdi.devices == {"v.com/c=1": good}
    assert [problem.source for problem in machine.cdi.problems] == [f"{bad}:1"]
    with pytest.raises(SpecError, match=rf"v.com/c=2: no file .* describes it; unusable files: {bad}:1"):
        machine.cdi.inject({}, ["v.com/c=2"])


def test_an_invalid_name_is_an_error(machine: Machine) -> None:
    with pytest.raises(SpecError, match='unresolvable CDI device: "gpu" is not a qualified name'):
        machine.cdi.inject({}, ["gpu", "gpu"])


def test_other_files_and_folders_are_ignored(machine: Machine) -> None:
    machine.put("a.txt", "1")
    machine.put("b.yml", "1")
    (machine.folders[0] / "c.json").mkdir()
    assert machine.cdi.devices == {}
    assert machine.cdi.problems == ()


def test_files_are_read_again_when_they_change(machine: Machine) -> None:
    machine.put("a.json", "1")
    devices = machine.cdi.devices
    (machine.folders[0] / "broken.json").write_text("{")
    assert machine.cdi.problems is machine.cdi.problems, "they are not read again while nothing changes"
    path = machine.put("b.yaml", "2")
    assert machine.cdi.devices == {**devices, "v.com/c=2": path}
    os.unlink(path)
    assert machine.cdi.devices == devices


def test_folders_may_be_below_another_root(machine: Machine) -> None:
    machine.put("a.json", "1")
    assert CdiDevices(["/etc/cdi"], str(machine.root)).inject({}, ["v.com/c=1"])["process"]["env"]


def test_generators_can_inject_devices(machine: Machine) -> None:
    machine.put("a.json", "1")
    adjusted = adjustment(CDI_devices=[{"name": "v.com/c=1"}], env=[{"key": "A", "value": "1"}])
    new_spec = Generator({}, cdi=machine.cdi.inject).adjust(adjusted)
    assert new_spec["process"]["env"] == ["A=1", "FROM=a.json@0", "D1=1"]
    with pytest.raises(
        SpecError, match=r"^failed to inject CDI devices in OCI Spec: unresolvable CDI device v.com/c=9"
    ):
        Generator({}, cdi=machine.cdi.inject).adjust(adjustment(CDI_devices=[{"name": "v.com/c=9"}]))
