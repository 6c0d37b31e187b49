"""Bursts and quotas that grow, by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator.decisions import cpu_burst
from nri.agent.koordinator.decisions.cpu_burst import Bucket, BurstConfig, Pool, Step

AUTO = BurstConfig("auto", quota_seconds=10)


@pytest.mark.parametrize(
    ("policy", "burst", "scales"),
    [("none", 0, False), ("cpuBurstOnly", 2_000_000, False), ("auto", 2_000_000, True), ("cfsQuotaBurstOnly", 0, True)],
)
def test_policies_switch_bursts_and_scaling(policy: str, burst: int, scales: bool) -> None:
    config = BurstConfig(policy)
    assert cpu_burst.burst_us(2000, config) == burst
    assert cpu_burst.burst_us(0, config) == 0
    assert (cpu_burst.wanted_step(config, True, True) is Step.UP) is scales
    assert (cpu_burst.wanted_step(config, True, False) is Step.RESET) is not scales


@pytest.mark.parametrize(
    ("used", "total", "pool"),
    [
        (49, 100, Pool.COOLING),
        (50, 100, Pool.OVERLOADED),
        (45, 100, Pool.COOLING),
        (44, 100, Pool.IDLE),
        (0, 0, Pool.OVERLOADED),
        (None, 1, Pool.UNKNOWN),
    ],
)
def test_the_pool_cools_from_nine_tenths_of_its_threshold(used: int | None, total: int, pool: Pool) -> None:
    assert cpu_burst.pool_state(used, total) is pool


def test_an_overloaded_pool_scales_down_and_a_cooling_one_does_not_scale_up() -> None:
    assert cpu_burst.final_step(Step.UP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.KEEP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.RESET, Pool.OVERLOADED) is Step.RESET
    assert cpu_burst.final_step(Step.UP, Pool.COOLING) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.UNKNOWN) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.IDLE) is Step.UP


@given(st.integers(1000, 10**7), st.integers(1000, 10**7), st.sampled_from(Step), st.integers(50, 500))
def test_a_quota_stays_between_what_was_asked_for_and_its_ceiling(
    base: int, current: int, step: Step, percent: int
) -> None:
    quota = cpu_burst.next_quota_us(current, base, step, percent)
    assert base <= quota <= max(base, base * percent // 100)
    assert cpu_burst.next_quota_us(current, base, Step.RESET, percent) == base


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=20))
def test_a_bucket_stays_in_its_bounds_and_is_filled_by_rest(steps: list[tuple[int, int]]) -> None:
    bucket, now = Bucket(AUTO, 0.0), 0.0
    for usage, seconds in steps:
        now += seconds
        before = bucket.tokens
        bucket.allows(usage, now)
        assert abs(bucket.tokens) <= bucket.capacity == 2000
        assert (bucket.tokens - before) * (100 - usage) >= 0
    assert bucket.allows(0, now + 1000)
    assert not bucket.allows(300, now + 2000)
