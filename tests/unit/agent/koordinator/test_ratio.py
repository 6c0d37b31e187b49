"""The rule from the node's annotations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import names, node_topology
from nri.agent.koordinator import ratio as node
from nri.agent.koordinator.quirks import Quirks
from nri.policies import formulas


def on_node(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {names.ANNOTATION_RATIO: text}}}


@pytest.mark.parametrize("source", [None, [], 5])
def test_no_source_is_an_error(source: Any) -> None:
    for parse in (node_topology.parse, node.ratio):
        with pytest.raises(ValueError, match="there is no"):
            parse(source)


@pytest.mark.parametrize("text", ["", "[}", "0", "-1", "nan", "inf", " 1.1", "1_0", "1,1"])
def test_a_ratio_that_is_no_positive_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cpu-normalization-ratio"):
        node.ratio(on_node(text))


def test_a_ratio_is_read_and_absent_is_off() -> None:
    assert node.ratio(on_node("1.10")) == 1.1
    assert node.ratio({"metadata": {"name": "n"}}) == -1


@given(st.floats(0.1, 10), st.floats(-0.009, 0.009))
def test_a_change_below_a_hundredth_is_none(ratio: float, change: float) -> None:
    assert node.same_ratio(ratio, ratio + change)
    assert not node.same_ratio(ratio, ratio + 0.02)
    assert not node.same_ratio(node.NO_RATIO, ratio)


def test_a_ratio_in_other_digits_is_none() -> None:
    with pytest.raises(ValueError, match="not a number above 0"):
        node.ratio(on_node("\N{ARABIC-INDIC DIGIT TWO}"))


def test_a_ratio_that_appears_or_goes_away_is_a_change_and_none_after_none_is_not() -> None:
    assert node.same_ratio(None, None)
    assert not node.same_ratio(None, 1.0)
    assert not node.same_ratio(1.0, None)


RATIO = st.floats(min_value=0.01, max_value=100, allow_nan=False)


@given(st.integers(min_value=1, max_value=10**9), RATIO)
def test_a_scaled_quota_is_the_smallest_that_is_not_below_its_share(quota: int, ratio: float) -> None:
    scaled = node.scaled(quota, ratio, Quirks.REFERENCE)
    if ratio <= 1:
        assert scaled == quota
    else:
        assert 1 <= scaled <= quota
        assert scaled >= quota / ratio > scaled - 1


@given(st.integers(min_value=1, max_value=10**9), RATIO)
def test_a_quota_that_the_kernel_takes_is_scaled_to_one_that_it_takes(quota: int, ratio: float) -> None:
    """`scaled_quota_is_possible`."""
    scaled = node.scaled(quota, ratio)
    assert scaled == max(node.scaled(quota, ratio, Quirks.REFERENCE), min(quota, formulas.MIN_QUOTA_US))


@pytest.mark.parametrize("quota", [-1, 0])
def test_no_limit_is_not_scaled(quota: int) -> None:
    assert node.scaled(quota, 2.0) == quota
