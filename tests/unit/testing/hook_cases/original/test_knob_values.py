"""Values of cgroup files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.testing.hook_cases.original import knob_values


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
