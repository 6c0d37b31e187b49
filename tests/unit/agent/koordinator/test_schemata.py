"""Masks of cache ways and shares of bandwidth, and their lines."""

import pytest

from nri.agent.koordinator.schemata import Schemata, cache_mask


def test_a_line_has_each_domain_in_order_and_none_without_domains() -> None:
    written = Schemata((1, 0))
    written.l3, written.mb = {1: 0xFF, 0: 0xF}, {1: 50, 0: 100}
    assert (written.l3_line(), written.mb_line()) == ("L3:0=f;1=ff;\n", "MB:0=100;1=50;\n")
    assert (Schemata().l3_line(), Schemata().mb_line()) == ("", "")


def test_schemata_are_valid_if_all_domains_of_the_machine_are_set_and_no_others() -> None:
    found = Schemata((0, 1))
    assert not found.l3_valid()
    assert not found.mb_valid()
    found.l3, found.mb = {0: 1, 1: 3}, {0: 10, 1: 10}
    assert found.l3_valid()
    assert found.mb_valid()
    found.l3[5] = 1
    assert not found.l3_valid()


@pytest.mark.parametrize(("ways", "start", "end"), [(0b101, 0, 50), (0xFF, 50, 50), (0xFF, -1, 50), (0xFF, 0, 101)])
def test_a_range_that_is_none_is_refused(ways: int, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"hole|range"):
        cache_mask(ways, start, end)
