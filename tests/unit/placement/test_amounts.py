"""CPUs in the configuration."""

import pytest

from nri.config.complaint import WrongValue
from nri.placement import masks
from nri.placement.amounts import Amounts


def test_cpus_are_a_list_an_exclusion_or_a_number() -> None:
    every = masks.parse("0-7")
    assert Amounts("cpuset:1-2").set_of(every) == masks.parse("1-2")
    assert Amounts("exclude-cpuset:1-2").set_of(every) == masks.parse("0,3-7")
    assert Amounts("750m").set_of(every) is None
    assert [Amounts(cpu).count() for cpu in ("750m", 2, "1001m")] == [1, 2, 2]


def test_cpus_that_the_machine_lacks_are_refused() -> None:
    every = masks.parse("0-7")
    assert Amounts("cpuset:7-8").available(every, every) == masks.parse("7")
    for cpu in ("cpuset:8-9", "exclude-cpuset:0-7"):
        with pytest.raises(
            WrongValue, match=r"availableResources\.cpu none of the CPUs in .* is online; online CPUs are 0-7"
        ):
            Amounts(cpu).available(every, every)


@pytest.mark.parametrize("cpu", ["cpuset:x", "exclude-cpuset:3-1", "many", "-1"])
def test_invalid_cpus_are_refused(cpu: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Amounts(cpu)
