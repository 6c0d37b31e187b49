"""Kubernetes quantities, and the kubelet's arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.kube import quantity

VALUES = {
    "1": 1, "500m": Fraction(1, 2), "0.5": Fraction(1, 2), ".5": Fraction(1, 2), "1.": 1, "1k": 1000, "1Ki": 1024,
    "1M": 10**6, "1.5Gi": 3 * 2**29, "2E": 2 * 10**18, "1Ei": 2**60, "1e3": 1000, "1E3": 1000, "5e-1": Fraction(1, 2),
    "100u": Fraction(1, 10_000), "1n": Fraction(1, 10**9), "-1": -1, "+2": 2,
}  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
def test_a_quantity_is_read_exactly(text):
    assert quantity.parse(text) == VALUES[text]


@pytest.mark.parametrize("text", ["", "1 Gi", "1gb", "Gi", "1KI", "0x10", "1e", "--1", True, "1e999"])
def test_invalid_quantities_are_refused(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text):
    try:
        value = quantity.parse(text)
    except ValueError as error:
        assert "is not a quantity" in str(error)
    else:
        assert value == value * 1, "not a number"


@pytest.mark.parametrize(("cpus", "shares"), [("0", 2), ("1m", 2), ("250m", 256), ("1", 1024), ("1000", 262_144)])
def test_cpu_requests_become_shares_within_the_kernels_bounds(cpus, shares):
    assert quantity.cpu_shares(quantity.parse(cpus)) == shares


@pytest.mark.parametrize(("cpus", "quota"), [("1m", 1000), ("250m", 25_000), ("2", 200_000)])
def test_cpu_limits_become_a_quota_that_the_kernel_accepts(cpus, quota):
    assert quantity.cpu_quota_us(quantity.parse(cpus)) == quota


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e99", quantity.MOST), ("-1e99", -quantity.MOST), ("9E", 9 * 10**18), ("500m", Fraction(1, 2))],
)
def test_a_quantity_is_capped_like_in_kubernetes(text: str, value: Fraction) -> None:
    assert quantity.capped(text) == value
