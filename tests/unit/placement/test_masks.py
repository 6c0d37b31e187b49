"""Masks and their list format."""

from nri.placement import masks


def test_a_mask_has_the_numbers_of_its_list() -> None:
    mask = masks.parse("0-2,64,4095")
    assert list(masks.members(mask)) == [0, 1, 2, 64, 4095]
    assert masks.text(mask) == "0-2,64,4095"
    assert masks.of((64, 0)) == 1 << 64 | 1


def test_the_empty_mask_has_no_first_number() -> None:
    assert masks.first(0) == -1
    assert masks.first(masks.parse("7,9")) == 7
    assert masks.text(0) == ""
