"""Schemata, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.kernel.schemata import Schemata
from nri.testing.hook_cases.original import schemata_file


@given(st.dictionaries(st.integers(0, 63), st.integers(1, 0xFFFFF), min_size=1, max_size=8))
def test_a_line_comes_back_as_it_was_written(masks: dict[int, int]) -> None:
    written = Schemata(masks)
    written.l3, written.mb = dict(masks), dict.fromkeys(masks, 100)
    found = schemata_file.parse(f"  {written.l3_line()}{written.mb_line()}SMBA:0=2048\n")
    assert (found.l3, found.mb) == (written.l3, written.mb)
    assert found.l3_valid()
    assert found.mb_valid()


@pytest.mark.parametrize("text", ["L3:0=f;1=f\nMB:0=100", "L3:0=xyz", "MB:0=5,5"])
def test_a_schemata_file_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        schemata_file.parse(text)
