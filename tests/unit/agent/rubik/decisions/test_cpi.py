"""cpi: the usual CPI, outliers and scores against obvious models, and rounds in which data is missing."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.rubik.decisions import cpi
from nri.agent.rubik.decisions.cpi import Baseline, Online
from nri.agent.rubik.pods import Container, Pod

S = 10**9
NOW = 1000 * S
values = st.floats(0.1, 10)
TIMES = [NOW - age * S for age in (310, 250, 190, 130, 70, 10)]


@given(st.lists(values, min_size=1, max_size=30), st.lists(values, max_size=30))
def test_folding_is_the_mean_and_deviation_of_all(first: list[float], later: list[float]) -> None:
    found = Baseline().fold(first).fold(later)
    assert found.count == len(first + later)
    assert found.mean == pytest.approx(statistics.fmean(first + later))
    assert found.std == pytest.approx(statistics.pstdev(first + later), abs=1e-6)


@given(st.lists(st.integers(0, 50), unique=True).map(sorted), st.integers(0, 60), st.integers(0, 60))
def test_a_range_ends_with_the_first_sample_at_its_end_or_after(times: list[int], start: int, end: int) -> None:
    series = [(at, 1.0) for at in times]
    after = [at for at in times if at >= end]
    last = after[0] if after else 1000
    expected = [(at, 1.0) for at in times if start <= at <= last] if start <= end else []
    assert cpi.within(series, start, end) == expected


@given(st.lists(values, min_size=6, max_size=6), st.lists(st.floats(0, 4), min_size=6, max_size=6))
def test_the_score_goes_with_the_slowed_pods_cpi(slowed: list[float], used: list[float]) -> None:
    pod = Online(Baseline(100, 1.0, 0.1), list(zip(TIMES, slowed, strict=True)), [])
    total, expected = sum(used), 0.0
    for value, use in zip(slowed, used, strict=True):
        part = use / total if total else 0.0
        expected += part * (1 - 1.2 / value) if value > 1.2 else part * (value / 1.2 - 1)
    found = cpi.score(pod, list(zip(TIMES, used, strict=True)), NOW)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("count", "levels", "busy", "expected"),
    [
        (61, [1, 1, 1, 2, 2, 2], [1] * 6, True),
        (60, [2] * 6, [1] * 6, False),
        (61, [1, 1, 1, 1, 2, 2], [1] * 6, False),
        (61, [2] * 6, [0.2] * 6, False),
        (61, [2] * 6, [], False),
        (61, [2] * 6, [0.25] * 6, True),
        (61, [1.2] * 6, [1] * 6, False),
    ],
)
def test_an_outlier_is_slow_three_times_while_it_works(
    count: int, levels: list[float], busy: list[float], expected: bool
) -> None:
    pod = Online(Baseline(count, 1.0, 0.1), list(zip(TIMES, levels, strict=True)), list(zip(TIMES, busy)))  # noqa: B905
    assert cpi.outlier(pod, NOW) is expected


@pytest.mark.parametrize(("more_ns", "counts"), [(0, True), (1, False)])
def test_an_online_pod_is_looked_at_for_five_minutes_and_a_suspect_for_ten(more_ns: int, counts: bool) -> None:
    times = [NOW - 300 * S - more_ns, NOW - 150 * S, NOW - 10 * S]
    pod = Online(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in times], [(at, 1.0) for at in times])
    assert cpi.outlier(pod, NOW) is counts
    early = [(NOW - 600 * S - more_ns, 3.0), (NOW, 1.0)]
    score = cpi.score(Online(pod.baseline, [(early[0][0], 2.4), (NOW, 1.2)], []), early, NOW)
    assert score == pytest.approx(0.75 * 0.5 if counts else 0.0)


def test_a_pod_without_data_is_neither_slowed_nor_guilty_and_ends_no_round() -> None:
    slowed = Online(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES], [(at, 1.0) for at in TIMES])
    empty = Online(Baseline(61, 1.0, 0.1), [], [])
    assert cpi.antagonists([slowed, empty], {"none": [], "idle": [(at, 0.0) for at in TIMES]}, NOW) == set()
    assert cpi.score(slowed, [], NOW) == 0
    assert cpi.normalized([(1, 0.0)]) == [(1, 0.0)]
    both = {name: [(at, 1.0) for at in TIMES] for name in ("a", "b")}
    assert cpi.antagonists([slowed], {**both, "none": []}, NOW) == {"a", "b"}
    innocent = {"small": [(TIMES[0] - 90 * S, 1.0)], "big": [(TIMES[0] - 80 * S, 2.0)]}
    assert cpi.antagonists([slowed], innocent, NOW) == {"big"}


def test_the_greatest_user_is_limited_only_if_no_slowed_pod_has_an_antagonist() -> None:
    busy = [(at, 1.0) for at in TIMES]
    slowed = Online(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES], busy)
    late = Online(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES[3:]], busy[3:])
    early = {"early": [(at, 0.1) for at in TIMES[:2]], "greatest": [(TIMES[0] - 90 * S, 0.5)]}
    assert cpi.antagonists([late], early, NOW) == {"greatest"}
    assert cpi.antagonists([slowed, late], early, NOW) == {"early"}
    assert cpi.antagonists([slowed], {}, NOW) == set()


def test_a_pod_of_which_nothing_is_usual_yet_is_slowed_by_all_that_ran() -> None:
    fresh = Online(Baseline(), [(TIMES[1], 2.0), (TIMES[2], 0.0)], [])
    assert cpi.score(fresh, [(at, 1.0) for at in TIMES[1:3]], NOW) == 0.5


def test_old_samples_of_a_pod_at_work_are_folded_and_those_without_cpu_are_not() -> None:
    pod = Online(
        Baseline(60, 1.0, 0.1), [(1, 1.1), (2, 9.0), (3, 1.1), (4, 1.1)], [(1, 0.25), (2, 1.0), (3, 0.24), (9, 1.0)]
    )
    found = cpi.expire(pod, 5)
    assert (found.baseline.count, found.cpi, found.cpu) == (61, [], [(9, 1.0)])
    young = Online(Baseline(59, 1.0, 0.1), pod.cpi, pod.cpu)
    assert cpi.expire(young, 5).baseline.count == 61, "before sixty nothing is far from the usual"
    assert cpi.expire(found, 5).baseline == found.baseline


def test_what_is_older_than_a_time_goes_and_a_sample_of_that_time_stays() -> None:
    assert cpi.split([(4, 1.0), (5, -1.0), (6, 1.0)], 5) == ([(4, 1.0)], [(5, -1.0), (6, 1.0)])


def test_odd_readings_are_refused() -> None:
    assert (cpi.cpi_of(6, 3), cpi.cpi_of(5, 1)) == (2.0, 5.0)
    with pytest.raises(ValueError, match="no instruction"):
        cpi.cpi_of(5, 0)
    for series, at in (([], -1), ([(5, 1.0)], 4)):
        with pytest.raises(ValueError, match="not a time"):
            cpi.add(series, at, 1.0)


def test_a_sample_may_have_the_time_of_the_last_one() -> None:
    series = [(5, 1.0)]
    cpi.add(series, 5, 2.0)
    assert series == [(5, 1.0), (5, 2.0)]


def test_a_limited_pod_is_limited_from_its_containers_up() -> None:
    pod = Pod("u", folder="p", containers=(Container("1", folder="p/1"),))
    assert [(each.folder, each.value) for each in cpi.limits(pod)] == [("p/1", "10000"), ("p", "10000")]
