"""Optional scalars: an absent value is None and never zero."""

from __future__ import annotations

import pytest

from nri.api import messages as m
from nri.api import optional


def test_an_absent_wrapper_is_none_and_different_from_zero() -> None:
    memory = m.LinuxMemory(limit=m.OptionalInt64(value=0))
    assert optional.get(memory, "limit") == 0
    assert optional.get(memory, "swap") is None
    assert not memory.HasField("swap"), "reading must not set"


def test_values_of_every_kind_of_wrapper_are_read() -> None:
    rdt = m.LinuxRdt()
    optional.put(rdt, "clos_id", "c")
    optional.put(rdt, "schemata", ["a", "b"])
    optional.put(rdt, "enable_monitoring", False)
    assert optional.get(rdt, "clos_id") == "c"
    assert optional.get(rdt, "schemata") == ["a", "b"]
    assert optional.get(rdt, "enable_monitoring") is False
    resources = m.LinuxResources()
    optional.put(resources, "pids", -1)
    assert optional.get(resources, "pids") == -1


def test_none_removes_a_wrapper() -> None:
    memory = m.LinuxMemory(limit=m.OptionalInt64(value=1))
    optional.put(memory, "limit", None)
    assert not memory.HasField("limit")


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), ("x", TypeError), (1 << 64, ValueError)])
def test_a_wrong_value_is_an_error_with_the_field_name_and_sets_no_wrapper(
    value: object, error: type[Exception]
) -> None:
    cpu = m.LinuxCPU()
    with pytest.raises(error, match="shares"):
        optional.put(cpu, "shares", value)
    assert not cpu.HasField("shares"), "an empty wrapper would mean zero"
