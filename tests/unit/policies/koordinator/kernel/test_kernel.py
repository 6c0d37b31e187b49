"""Texts of kernel files, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.kernel import cpu_flags, knob_values, proc, sched, schemata


@given(st.integers(1, 10_000))
def test_a_weight_comes_back_from_its_shares_but_for_rounding(weight: int) -> None:
    assert weight - knob_values.shares_to_weight(knob_values.weight_to_shares(weight)) in (0, 1)


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1024, 39), (262_144, 10_000)])
def test_shares_are_the_kubelets_weight(shares: int, weight: int) -> None:
    assert knob_values.shares_to_weight(shares) == weight


@pytest.mark.parametrize("wrong", [0, 1, 262_145])
def test_shares_out_of_range_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match="shares are from"):
        knob_values.shares_to_weight(wrong)


def test_cpu_max_has_quota_and_period() -> None:
    assert knob_values.cpu_max_quota("max 100000") == -1
    assert knob_values.cpu_max_quota("50000 100000\n") == 50_000
    assert knob_values.cpu_max_period("max 100000") == 100_000
    for wrong in ("", "max", "1 2 3", "x 100000"):
        with pytest.raises(ValueError, match=r"is no"):
            knob_values.cpu_max_quota(wrong)


@pytest.mark.parametrize(
    ("text", "valid"),
    [("0", True), ("100", True), ("101", False), ("-1", False), ("", False), ("x", False), ("1_0", False)],
)
def test_a_value_is_a_whole_number_in_its_range(text: str, valid: bool) -> None:
    assert knob_values.in_range(text, 0, 100) is valid


def test_max_is_in_ranges_that_have_no_end() -> None:
    assert knob_values.in_range("max", 0, 2**63 - 1)
    assert not knob_values.in_range("max", 0, 100)


def test_process_ids_are_one_in_a_line() -> None:
    assert knob_values.process_ids("1\n 22 \n\n3") == [1, 22, 3]
    with pytest.raises(ValueError, match="invalid"):
        knob_values.process_ids("1\ninvalid\n")


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


def test_features_are_on_or_off_but_not_both() -> None:
    assert sched.features("NO_A B\n") == {"A": False, "B": True}
    assert sched.features_to_write({"A": False, "B": True}, {"A": True, "B": True, "C": False}) == ["A", "NO_C"]
    with pytest.raises(ValueError, match="on and off"):
        sched.features("A NO_A")


def test_core_scheduling_is_a_sysctl_or_a_feature() -> None:
    assert sched.core_sched_supported("0", None) == (True, "sysctl supported")
    assert sched.core_sched_supported(None, "NO_CORE_SCHED")[0]
    assert not sched.core_sched_supported(None, "A")[0]
    assert sched.core_sched_supported(None, None) == (False, "file not exist")


def test_cpu_flags_tell_what_can_be_shared_out() -> None:
    assert cpu_flags.by_flags("flags\t\t: fpu cat_l3 x") == (True, False)
    assert cpu_flags.by_command_line("root=x rdt=cmt,l3cat,mba quiet") == (True, True)
    assert cpu_flags.by_command_line("root=x l3cat") == (False, False)
    assert cpu_flags.vendor("a : b\nvendor_id\t: AuthenticAMD\n") == "AuthenticAMD"
    assert cpu_flags.vendor("") == "unknown"


@given(st.dictionaries(st.integers(0, 63), st.integers(1, 0xFFFFF), min_size=1, max_size=8))
def test_a_line_comes_back_as_it_was_written(masks: dict[int, int]) -> None:
    written = schemata.Schemata(masks)
    written.l3, written.mb = dict(masks), dict.fromkeys(masks, 100)
    found = schemata.parse(f"  {written.l3_line()}{written.mb_line()}SMBA:0=2048\n")
    assert (found.l3, found.mb) == (written.l3, written.mb)
    assert found.l3_valid()
    assert found.mb_valid()


@pytest.mark.parametrize("text", ["L3:0=f;1=f\nMB:0=100", "L3:0=xyz", "MB:0=5,5"])
def test_a_schemata_file_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        schemata.parse(text)


@pytest.mark.parametrize(("ways", "start", "end"), [(0b101, 0, 50), (0xFF, 50, 50), (0xFF, -1, 50), (0xFF, 0, 101)])
def test_a_range_that_is_none_is_refused(ways: int, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"hole|range"):
        schemata.cache_mask(ways, start, end)
