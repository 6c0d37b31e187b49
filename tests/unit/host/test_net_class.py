"""Traffic classes in the formats of tc and net_cls.classid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.host import ClassId

SIXTEEN = st.integers(0, 0xFFFF)


def test_the_major_number_is_in_the_upper_half() -> None:
    assert ClassId.parse("1:2").number == 0x10002
    assert str(ClassId.parse("a:1F")) == "a:1f"


@given(SIXTEEN, SIXTEEN)
def test_a_class_survives_a_round_trip(major: int, minor: int) -> None:
    class_id = ClassId(major, minor)
    assert ClassId.of(class_id.number) == ClassId.parse(str(class_id)) == class_id


@pytest.mark.parametrize("text", ["", "1", "1:", ":2", "1:10000", "x:1", "-1:1", "1:2:3"])
def test_an_invalid_class_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a traffic class"):
        ClassId.parse(text)


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_number_of_more_than_32_bits_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 4294967295"):
        ClassId.of(number)
