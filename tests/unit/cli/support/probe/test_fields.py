"""The table of what a plugin may ask for is whole, and each case asks for something."""

from __future__ import annotations

from google.protobuf.message import Message

from nri.api import messages as m
from nri.cli.support.probe.fields import CASES, CGROUP_PARENT, FOLDER, SETTERS

POD = m.PodSandbox(annotations={FOLDER: "/tmp/x", CGROUP_PARENT: "/kubepods/podx"})


def set_fields(message: Message, path: str = "") -> set[str]:
    found = set()
    for field, value in message.ListFields():
        below = f"{path}{field.name}"
        found.add(below)
        if isinstance(value, Message) and field.name in ("linux", "resources", "hooks", "memory", "cpu", "rdt"):
            found |= set_fields(value, f"{below}.")
    return found


def test_every_field_of_an_adjustment_that_a_runtime_is_to_apply_has_a_case() -> None:
    asked = {path for case in CASES.values() for path in set_fields(case.adjust(POD).message)}
    known = {field.name for field in m.ContainerAdjustment.DESCRIPTOR.fields}
    known |= {f"linux.{field.name}" for field in m.LinuxContainerAdjustment.DESCRIPTOR.fields}
    known |= {f"hooks.{field.name}" for field in m.Hooks.DESCRIPTOR.fields}
    assert known - asked == set()


def test_updates_have_a_file_for_each_version_of_cgroups() -> None:
    assert all(each.v1_file and each.v2_file and each.text for each in SETTERS.values())
