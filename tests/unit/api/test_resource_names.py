"""The tables of resource names cover every optional value of the API's messages."""

from __future__ import annotations

from nri.api import messages as m
from nri.api.resource_names import CPU, CPUSET, MEMORY


def test_every_field_of_the_messages_has_a_name() -> None:
    assert {field for field, _ in MEMORY} == {field.name for field in m.LinuxMemory.DESCRIPTOR.fields}
    assert {*CPUSET, *(field for field, _ in CPU)} == {field.name for field in m.LinuxCPU.DESCRIPTOR.fields}
