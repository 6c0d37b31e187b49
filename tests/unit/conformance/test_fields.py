"""The table of adjustable fields is complete, and every case requests a change."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from nri.api import messages as m
from nri.conformance.fields import CASES, CGROUP_PARENT, FOLDER, SETTERS

POD = m.PodSandbox(annotations={FOLDER: "/tmp/x", CGROUP_PARENT: "/kubepods/podx"})


def set_fields(message: Message, path: str = "") -> set[str]:
    results = set()
    for field, value in message.ListFields():
        below = f"{path}{field.name}"
        results.add(below)
        if isinstance(value, Message) and field.name in ("linux", "resources", "hooks", "memory", "cpu", "rdt"):
            results |= set_fields(value, f"{below}.")
    return results


def test_every_field_of_an_adjustment_has_a_case() -> None:
    paths = {path for case in CASES.values() for path in set_fields(case.adjust(POD).message)}
    names = {field.name for field in m.ContainerAdjustment.DESCRIPTOR.fields}
    names |= {f"linux.{field.name}" for field in m.LinuxContainerAdjustment.DESCRIPTOR.fields}
    names |= {f"hooks.{field.name}" for field in m.Hooks.DESCRIPTOR.fields}
    assert names - paths == set()


def test_updates_have_a_file_for_each_cgroup_version() -> None:
    assert all(setter.v1_file and setter.v2_file and setter.text for setter in SETTERS.values())


class Own:
    """This process as a container, whose commands print a configured output."""

    id, pid, dir = "c", os.getpid(), Path("/nonexistent")

    def __init__(self, output: str = "") -> None:
        self.output = output

    def exec(self, *command: str) -> str:
        return self.output

    def cgroup(self, controller: str, v1_file: str, v2_file: str) -> str:
        return "5 6"

    def spec(self, *path: str) -> Any:
        return {"resources": {}}.get(path[0]) if path[0] != "linux" else [{"major": 1, "minor": 11, "access": "r"}]

    def remove(self) -> None:
        self.output = "removed"


def test_effects_are_read_from_a_containers_output() -> None:
    read = {name: case.read for name, case in CASES.items()}
    assert (read["env"](Own("A=1\nADDED=yes\nodd")), read["env"](Own())) == ("yes", "none")
    assert len(read["rlimit"](Own()).split()) == 2
    assert (read["device"](Own()), read["mount-tmpfs"](Own())) == ("none", "none")
    assert read["mount-remove"](Own()) in ("none", "mqueue rw")
    assert read["namespace-remove"](Own()) == "host"
    assert read["device-rule"](Own()) == "['r']"
    assert read["cpu-quota"](Own()) == "5"
    view = Own()
    assert (read["hook-poststop"](view), view.output) == ("none", "removed")


def test_devices_mounts_and_namespaces_of_a_process_are_read(tmp_path: Path) -> None:
    (tmp_path / "root" / "dev").mkdir(parents=True)
    (tmp_path / "root" / "dev" / "added").symlink_to("/dev/null")
    (tmp_path / "mountinfo").write_text(
        "20 1 0:5 / / rw - overlay none rw\n21 20 0:6 / /scratch rw,nosuid - tmpfs tmpfs rw,size=1024k\n"
    )
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns" / "ipc").symlink_to("ipc:[1]")
    view: Any = Own()
    view.pid = f"../{tmp_path}"  # its files below /proc
    read = {name: case.read for name, case in CASES.items()}
    assert read["device"](view) == "1:3 " + stat.filemode(os.stat("/dev/null").st_mode)
    assert read["mount-tmpfs"](view) == "tmpfs rw"
    assert read["namespace-remove"](view) == "own"
