"""Properties of the arithmetic of limits."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from nri.kube import cgroup_limits as formulas

MILLI = st.integers(min_value=-(10**6), max_value=10**9)


@given(MILLI)
def test_shares_are_between_the_kernels_bounds_and_1024_for_a_cpu(milli: int) -> None:
    shares = formulas.shares(milli)
    assert 2 <= shares <= 262_144
    if 2 <= milli * 1024 // 1000 <= 262_144:
        assert shares == milli * 1024 // 1000


@given(MILLI, MILLI)
def test_larger_requests_never_have_less_weight_or_quota(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert formulas.shares(low) <= formulas.shares(high)
    if low > 0:
        assert formulas.quota_us(low) <= formulas.quota_us(high)


@given(MILLI)
def test_a_quota_is_unlimited_or_at_least_the_kernels_minimum(milli: int) -> None:
    quota = formulas.quota_us(milli)
    assert quota == -1 if milli <= 0 else quota >= 1000
    if milli >= 10:
        assert quota == milli * 100


def test_amounts_are_rounded_up_and_missing_amounts_are_minus_one() -> None:
    resources = {"half": Fraction(1, 2), "huge": Fraction(10**30)}
    assert formulas.amount(resources, "half") == 1
    assert formulas.amount(resources, "huge") == 2**63 - 1
    assert formulas.amount(resources, "absent") == -1
    assert formulas.milli(resources, "half") == 500
    assert formulas.milli(resources, "absent") == 0
