"""Arithmetic of the rubik profile: no division by zero, and no quota out of its bounds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.agent.rubik import cpi, dyn_cache, evict, quota_turbo
from nri.agent.rubik.dyn_memory import MemoryHigh
from nri.agent.rubik.memory_evict import memory_percent
from nri.agent.rubik.quota_turbo import Knobs, ManagedContainer, Reading, Turbo
from nri.agent.rubik.service import Ticks, share
from nri.kube.cgroup_limits import MIN_QUOTA_US, quota_us
from tests.support.rubik_world import RubikWorld, pod

PERIOD = 100_000
SECOND_NS = 10**9
counters = st.integers(0, 2**63 - 1)
milli_limits = st.integers(1, 64_000)
#: Quotas near the limit, where differences of floats are smaller than their error, and others.
quota_steps = st.one_of(st.integers(-3, 3), st.integers(-(10**6), 10**7))
knobs = st.builds(
    lambda high, more, raise_, ratio, swing: Knobs(high, min(high + more, 100), raise_, ratio, swing),
    st.integers(0, 99),
    st.integers(1, 100),
    st.floats(0, 100),
    st.floats(0, 1),
    st.floats(0, 100),
)


@st.composite
def containers(draw: st.DrawFn) -> ManagedContainer:
    limit = draw(milli_limits) / 1000
    period = draw(st.sampled_from([0, 1000, 10_000, PERIOD, 1_000_000]))
    quota = draw(st.one_of(st.just(-1), quota_steps.map(lambda step: max(round(limit * period) + step, 0))))
    throttled, before = draw(counters), draw(counters)
    managed = ManagedContainer(
        f"c{draw(counters)}", limit, quota, period, throttled, draw(counters), before, draw(counters)
    )
    managed.usages.extend(draw(st.lists(st.tuples(counters, counters), max_size=5)))
    return managed


@given(st.lists(containers(), max_size=4), st.lists(st.floats(0, 100), max_size=4), st.integers(0, 512), knobs)
def test_a_quota_stays_between_the_limit_and_twice_the_limit(
    managed: list[ManagedContainer], uses: list[float], cpus: int, knobs: Knobs
) -> None:
    changes = quota_turbo.deltas(managed, uses, cpus, knobs)
    for container in managed:
        assert math.isfinite(changes[container.folder])
        if container.quota != -1:
            next_quota = quota_turbo.next_quota(container, changes[container.folder])
            highest = max(quota_turbo.height(container.limit, container.period), container.least())
            assert container.least() <= next_quota <= highest


@given(st.lists(containers(), max_size=4), st.floats(0, 100), st.integers(0, 512), knobs)
def test_at_the_alarm_mark_no_quota_rises_and_quotas_at_their_limit_stay(
    managed: list[ManagedContainer], use: float, cpus: int, knobs: Knobs
) -> None:
    changes = quota_turbo.fast_fallback(managed, use, cpus, knobs)
    assert all(change <= 0 for change in changes.values())
    at_limit = {container.folder for container in managed if container.quota == container.base()}
    assert not at_limit & changes.keys()


@given(milli_limits)
def test_the_quota_of_a_limit_equals_the_kubelets(milli: int) -> None:
    quota = quota_turbo.quota_of_limit(milli / 1000, PERIOD)
    assert max(quota, MIN_QUOTA_US) == quota_us(milli)


@pytest.mark.parametrize("use", [80.0, 95.0, 100.0])
def test_a_container_at_any_limit_survives_the_alarm_mark(use: float) -> None:
    for milli in range(1, 4001):
        turbo = Turbo(64)
        quota = max(milli * 100, MIN_QUOTA_US)
        turbo.add("pod/c", milli / 1000, Reading(quota, PERIOD, 0, 0, 0), 0)
        turbo.observe(Ticks(0, 0), 0)
        turbo.observe(Ticks(round(use), 100), SECOND_NS)
        assert turbo.decide({"pod/c": Reading(quota, PERIOD, 0, 0, 0)}, SECOND_NS) == {"pod/c": quota}, milli


def test_the_service_keeps_a_container_at_its_limit_at_the_alarm_mark(tmp_path: Path) -> None:
    pods = [pod(f"p{milli}", cpu=f"{milli / 1000}", quota_turbo="true") for milli in (9, 18, 71, 290, 570)]
    world = RubikWorld(tmp_path, *pods, quotaTurbo={"syncInterval": 1000})
    quotas = [world.quota(world.app(one)) for one in pods]
    world.node_milli = 8000
    world.loop(3)
    assert [world.quota(world.app(one)) for one in pods] == quotas
    assert "Error" not in world.loops.health()[1]


@given(st.tuples(counters, counters), st.tuples(counters, counters))
def test_the_share_between_two_readings_is_a_percentage(before: tuple[int, int], now: tuple[int, int]) -> None:
    assert 0 <= share(Ticks(*before), Ticks(*now)) <= 100


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_use_of_a_whole_percentage_reaches_its_mark(percent: int, scale: int) -> None:
    percent = percent % 100 + 1
    assert share(Ticks(0, 0), Ticks(percent * scale, 100 * scale)) == percent
    assert memory_percent({"MemTotal": 100 * scale, "MemFree": (100 - percent) * scale}) == percent


@given(st.lists(st.tuples(counters, counters, counters), max_size=3), st.integers(0, 512))
def test_the_use_of_a_pod_is_a_number_or_unknown(readings: list[tuple[int, int, int]], cpus: int) -> None:
    samples = [evict.Sample(*reading) for reading in readings]
    for use in (evict.cpu_percent(samples, cpus), evict.memory_mb(samples)):
        assert use is None or (math.isfinite(use) and use >= 0)


@given(counters, counters)
def test_cache_misses_are_whole_percentages(misses: int, references: int) -> None:
    assert dyn_cache.miss_percent(misses, references) >= 0


@given(st.integers(1, 2**50), st.lists(st.integers(0, 2**50), max_size=30))
def test_memory_high_stays_between_30_and_80_percent(total: int, free: list[int]) -> None:
    walk = MemoryHigh(total)
    for size in free:
        walk.read(size)
        assert total * 3 // 10 <= walk.high <= total * 8 // 10


values = st.floats(0, 1e19)
times = st.integers(0, 2000).map(lambda seconds: seconds * SECOND_NS)
series = st.lists(st.tuples(times, values), max_size=8, unique_by=lambda sample: sample[0]).map(sorted)


@settings(max_examples=200)
@given(series, series, series, st.integers(0, 100), values, values, st.integers(0, 2000))
def test_cpi_handles_any_samples_without_an_error(
    cpis: cpi.Series, cpus: cpi.Series, suspect: cpi.Series, count: int, mean: float, std: float, now_s: int
) -> None:
    online = cpi.OnlinePod(cpi.Baseline(count, mean, std), list(cpis), list(cpus))
    cpi.outlier(online, now_s * SECOND_NS)
    assert not math.isnan(cpi.score(online, suspect, now_s * SECOND_NS))
    baseline = cpi.expire(online, now_s * SECOND_NS).baseline
    assert math.isfinite(baseline.mean) and baseline.std >= 0
    cpi.antagonists([online], {"suspect": suspect}, now_s * SECOND_NS)
