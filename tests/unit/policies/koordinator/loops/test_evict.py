"""When pods are evicted, and whose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.loops import evict
from nri.policies.koordinator.loops.evict import BatchCpu, Candidate


def test_cpu_is_freed_while_pods_are_busy_and_get_too_little() -> None:
    busy = BatchCpu(used=4800, request=10_000, limit=5000)
    assert evict.by_satisfaction(busy, busy, 60, 80) == 3000
    assert evict.by_satisfaction(busy, busy._replace(request=8000), 70, 80) == 1400
    assert evict.by_satisfaction(busy, busy._replace(used=100), 60, 80) == 0
    assert evict.by_satisfaction(busy, busy, 40, 80) == 0
    assert evict.by_satisfaction(busy._replace(limit=0), busy, 60, 80) == 0
    small = BatchCpu(used=0, request=2000, limit=900)
    assert evict.by_satisfaction(small, small, 60, 80) == 700


@given(st.integers(0, 10**12), st.integers(10**6, 10**12), st.integers(3, 100))
def test_what_is_freed_brings_the_node_below_its_threshold(used: int, capacity: int, percent: int) -> None:
    used = min(used, capacity)
    need = evict.by_usage(used, capacity, percent)
    assert need >= 0
    if used * 100 // capacity < percent:
        assert need == 0
    else:
        assert (used - need) * 100 // capacity <= percent


@pytest.mark.parametrize(("percent", "lower"), [(-1, None), (70, 70), (70, 80)])
def test_thresholds_that_make_no_sense_are_refused(percent: int, lower: int | None) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        evict.by_usage(1, 2, percent, lower)


def test_lower_priority_goes_first_then_who_uses_more_until_there_is_enough() -> None:
    pods = [Candidate("a", 10, 5, 100), Candidate("b", 10, 1, 1), Candidate("c", 10, 1, 50), Candidate("d", 0, 0, 0)]
    assert [pod.name for pod in evict.victims(pods, 15)] == ["c", "b"]
    assert [pod.name for pod in evict.victims(pods, 100)] == ["c", "b", "a"]
    assert evict.victims(pods, 0) == []
