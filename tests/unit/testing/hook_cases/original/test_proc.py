"""Stat files and process groups."""

import pytest

from nri.testing.hook_cases.original import proc


def test_a_name_in_a_stat_file_may_hold_blanks_and_parentheses() -> None:
    assert proc.parse_stat("12 (a b(c) S 1 11 0 0") == (12, "a b(c", "S", 1, 11)
    for wrong in (
        "",
        "12 (a",
        "(a) S 1 2",
        "12 a) S 1 2",
        "12 (a) SS 1 2",
        "12 (a) S 1",
        "12 (a) S x 2",
        "12 (a) S 1 -2",
    ):
        with pytest.raises(ValueError, match="is no"):
            proc.parse_stat(wrong)


def test_a_process_whose_group_is_not_among_them_stands_for_itself() -> None:
    stat = proc.parse_stat("1 (a) S 0 1 0")
    assert proc.process_groups({1: stat, 2: stat, 3: stat._replace(pgrp=9), 4: None}) == [1, 3]
