"""cpi: series, outliers and scores of pods; limits that are set and restored."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.model import Container, Pod
from nri.agent.rubik import cpi
from nri.agent.rubik.cpi import Baseline, OnlinePod
from nri.host import Unsupported
from nri.host.perf import Event
from tests.support.counted import Counted, counting
from tests.support.rubik_world import RubikWorld, pod

LIMITED = 10_000
WEB = pod("web", cpi="online", cpu="4")


def batch(**more: str) -> dict[str, object]:
    return pod("batch", offline=True, cpi="offline", cpu="2", **more)


def whole_pod(cpu: str) -> dict[str, object]:
    manifest: Any = batch()
    manifest["spec"]["resources"] = {"limits": {"cpu": cpu}}
    return cast("dict[str, object]", manifest)


def events(ratio: float) -> dict[Event, int]:
    return {Event.CYCLES: int(1000 * ratio), Event.INSTRUCTIONS: 1000}


def minutes(world: RubikWorld, number: int) -> None:
    """Let minutes go by, with the two rounds of each in which counting begins and ends."""
    for _ in range(number):
        world.loop(1, 50)
        world.loop(1, 10)


def usual(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> tuple[RubikWorld, Counted]:
    """A hundred minutes in which a cycle is one instruction."""
    counted = Counted(events(1.0))
    counting(monkeypatch, counted)
    world = RubikWorld(folder, WEB, batch(**more), cpi=None)
    world.uses = {world.folder_of(WEB): 1000, world.folder_of(batch()): 1000}
    minutes(world, 100)
    return world, counted


def quotas(world: RubikWorld) -> list[int]:
    return [world.quota(entry) for entry in (world.folder_of(batch()), world.app(batch()))]


def test_a_pod_that_slows_an_online_pod_down_is_limited_for_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    assert quotas(world) == [200_000, 200_000]
    counted.events = events(5.0)
    minutes(world, 9)
    assert quotas(world) == [LIMITED, LIMITED]
    assert world.quota(world.app(WEB)) == 400_000
    account = world.history.account("uid-batch")
    assert (
        account is not None
        and account["values"][0]["reason"] == "the pod disturbs an online pod, as cycles per instruction show"
    )
    counted.events = events(1.0)
    minutes(world, 15)
    assert quotas(world) == [200_000, 200_000]


@pytest.mark.parametrize("how", ["configuration", "end", "gone"])
def test_quotas_are_restored_at_the_end_of_the_service_or_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    (service,) = world.loops.loops
    assert len(service) == 1  # type: ignore[arg-type]
    if how == "end":
        world.loops.start()
        world.loops.stop()
    elif how == "gone":
        world.run(WEB)
        world.loop(1, 10)
    else:
        world.configure()
        world.loop(1, 10)
    assert len(service) == 0  # type: ignore[arg-type]
    assert quotas(world) == [LIMITED if how == "gone" else 200_000] * 2


@pytest.mark.parametrize("why", ["quotaTurbo", "files"])
def test_a_pod_with_foreign_or_unreadable_quotas_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    more = {"quota_turbo": "true"} if why == "quotaTurbo" else {}
    world, counted = usual(tmp_path, monkeypatch, **more)
    if why == "files":
        (tmp_path / "sys/fs/cgroup/cpu,cpuacct" / world.app(batch()) / "cpu.cfs_quota_us").unlink()
    counted.events = events(5.0)
    minutes(world, 10)
    assert world.quota(world.folder_of(batch())) == 200_000
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_samples_without_instructions_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = {Event.CYCLES: 5000, Event.INSTRUCTIONS: 0}
    minutes(world, 12)
    assert quotas(world) == [200_000, 200_000]


def test_a_machine_without_counters_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch, Counted({}, Unsupported("the hypervisor does not count cycles")))
    world = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    minutes(world, 2)
    assert world.loops.errors == ["cpi: no pod is judged: unsupported here: the hypervisor does not count cycles"]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("on", [True, False])
def test_a_pod_limited_by_a_killed_agent_gets_its_quotas_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool, restarted: bool
) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    assert quotas(world) == [LIMITED, LIMITED]
    counted.events = events(1.0)
    if restarted:
        world.overwrite(world.app(batch()), "cpu.cfs_quota_us", "200000")
    later = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    if not on:
        later.configure()
    minutes(later, 1)
    assert quotas(later) == [LIMITED if on else 200_000, LIMITED if on and not restarted else 200_000]
    minutes(later, 5)
    assert quotas(later) == [200_000, 200_000]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(("first", "quota"), [("2", 400_000), ("", -1)])
def test_a_restored_pod_quota_includes_containers_that_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool, first: str, quota: int
) -> None:
    counting(monkeypatch, Counted(events(1.0)))
    world, manifest = RubikWorld(tmp_path, WEB, batch(), cpi=None), cast("Any", batch())
    asks = [{"resources": {"limits": {"cpu": cpu} if cpu else {}}} for cpu in (first, "1", "1")]
    manifest["spec"]["containers"] += [{"name": "late", **asks[1]}]
    manifest["spec"]["initContainers"] = [
        {"name": "first", **asks[0]},
        {"name": "side", "restartPolicy": "Always", **asks[2]},
    ]
    for folder in (world.folder_of(manifest), world.app(manifest)):
        world.overwrite(folder, "cpu.cfs_quota_us", str(LIMITED))
    if not running:
        manifest["status"]["containerStatuses"] = []
    world.run(WEB, manifest)
    minutes(world, 8)
    assert quotas(world) == [quota, 200_000 if running else LIMITED]


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        (batch(quota_turbo="true"), True),  # quotaTurbo's
        (batch() | {"spec": {"runtimeClassName": "kata", "containers": [{"name": "app"}]}}, True),
        (batch(), False),  # only its container has that quota
        (whole_pod("100m"), True),  # the limit of all of it together
    ],
)
def test_a_low_quota_not_set_by_cpi_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, object], complete: bool
) -> None:
    counting(monkeypatch, Counted(events(1.0)))
    world = RubikWorld(tmp_path, WEB, batch(), cpi=None)
    world.overwrite(world.app(batch()), "cpu.cfs_quota_us", str(LIMITED))
    if complete:
        world.overwrite(world.folder_of(batch()), "cpu.cfs_quota_us", str(LIMITED))
    before = quotas(world)
    world.run(WEB, source)
    minutes(world, 8)
    assert quotas(world) == before


def test_a_limit_changed_during_the_limitation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = usual(tmp_path, monkeypatch)
    counted.events = events(5.0)
    minutes(world, 9)
    counted.events = events(1.0)
    for folder in (world.folder_of(batch()), world.app(batch())):
        world.overwrite(folder, "cpu.cfs_quota_us", "300000")  # as a kubelet resizes it
    minutes(world, 15)
    assert quotas(world) == [300_000, 300_000]


S = 10**9
NOW = 1000 * S
values = st.floats(0.1, 10)
TIMES = [NOW - age * S for age in (310, 250, 190, 130, 70, 10)]


@given(st.lists(values, min_size=1, max_size=30), st.lists(values, max_size=30))
def test_folding_gives_the_mean_and_deviation_of_all_samples(first: list[float], later: list[float]) -> None:
    baseline = Baseline().fold(first).fold(later)
    assert baseline.count == len(first + later)
    assert baseline.mean == pytest.approx(statistics.fmean(first + later))
    assert baseline.std == pytest.approx(statistics.pstdev(first + later), abs=1e-6)


@given(st.lists(st.integers(0, 50), unique=True).map(sorted), st.integers(0, 60), st.integers(0, 60))
def test_a_range_ends_with_the_first_sample_at_or_after_its_end(times: list[int], start: int, end: int) -> None:
    series = [(at, 1.0) for at in times]
    after = [at for at in times if at >= end]
    last = after[0] if after else 1000
    expected = [(at, 1.0) for at in times if start <= at <= last] if start <= end else []
    assert cpi.within(series, start, end) == expected


@given(st.lists(values, min_size=6, max_size=6), st.lists(st.floats(0, 4), min_size=6, max_size=6))
def test_the_score_follows_the_cpi_of_the_slowed_pod(slowed: list[float], used: list[float]) -> None:
    pod = OnlinePod(Baseline(100, 1.0, 0.1), list(zip(TIMES, slowed, strict=True)), [])
    total, expected = sum(used), 0.0
    for value, use in zip(slowed, used, strict=True):
        part = use / total if total else 0.0
        expected += part * (1 - 1.2 / value) if value > 1.2 else part * (value / 1.2 - 1)
    actual = cpi.score(pod, list(zip(TIMES, used, strict=True)), NOW)
    assert actual == pytest.approx(expected, abs=1e-9)


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
def test_an_outlier_is_slow_three_times_while_busy(
    count: int, levels: list[float], busy: list[float], expected: bool
) -> None:
    pod = OnlinePod(Baseline(count, 1.0, 0.1), list(zip(TIMES, levels, strict=True)), list(zip(TIMES, busy)))  # noqa: B905
    assert cpi.outlier(pod, NOW) is expected


@pytest.mark.parametrize(("more_ns", "counts"), [(0, True), (1, False)])
def test_an_online_pod_is_judged_by_five_minutes_and_a_suspect_by_ten(more_ns: int, counts: bool) -> None:
    times = [NOW - 300 * S - more_ns, NOW - 150 * S, NOW - 10 * S]
    pod = OnlinePod(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in times], [(at, 1.0) for at in times])
    assert cpi.outlier(pod, NOW) is counts
    early = [(NOW - 600 * S - more_ns, 3.0), (NOW, 1.0)]
    score = cpi.score(OnlinePod(pod.baseline, [(early[0][0], 2.4), (NOW, 1.2)], []), early, NOW)
    assert score == pytest.approx(0.75 * 0.5 if counts else 0.0)


def test_a_pod_without_data_is_neither_slowed_nor_an_antagonist() -> None:
    slowed = OnlinePod(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES], [(at, 1.0) for at in TIMES])
    empty = OnlinePod(Baseline(61, 1.0, 0.1), [], [])
    assert cpi.antagonists([slowed, empty], {"none": [], "idle": [(at, 0.0) for at in TIMES]}, NOW) == set()
    assert cpi.score(slowed, [], NOW) == 0
    assert cpi.normalized([(1, 0.0)]) == [(1, 0.0)]
    both = {name: [(at, 1.0) for at in TIMES] for name in ("a", "b")}
    assert cpi.antagonists([slowed], {**both, "none": []}, NOW) == {"a", "b"}
    innocent = {"small": [(TIMES[0] - 90 * S, 1.0)], "big": [(TIMES[0] - 80 * S, 2.0)]}
    assert cpi.antagonists([slowed], innocent, NOW) == {"big"}


def test_the_largest_user_is_limited_only_if_no_slowed_pod_has_an_antagonist() -> None:
    busy = [(at, 1.0) for at in TIMES]
    slowed = OnlinePod(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES], busy)
    late = OnlinePod(Baseline(61, 1.0, 0.1), [(at, 2.0) for at in TIMES[3:]], busy[3:])
    early = {"early": [(at, 0.1) for at in TIMES[:2]], "greatest": [(TIMES[0] - 90 * S, 0.5)]}
    assert cpi.antagonists([late], early, NOW) == {"greatest"}
    assert cpi.antagonists([slowed, late], early, NOW) == {"early"}
    assert cpi.antagonists([slowed], {}, NOW) == set()


def test_a_pod_without_a_baseline_is_slowed_by_all_running_pods() -> None:
    fresh = OnlinePod(Baseline(), [(TIMES[1], 2.0), (TIMES[2], 0.0)], [])
    assert cpi.score(fresh, [(at, 1.0) for at in TIMES[1:3]], NOW) == 0.5


def test_old_samples_of_a_busy_pod_are_folded_and_those_without_cpu_are_not() -> None:
    pod = OnlinePod(
        Baseline(60, 1.0, 0.1), [(1, 1.1), (2, 9.0), (3, 1.1), (4, 1.1)], [(1, 0.25), (2, 1.0), (3, 0.24), (9, 1.0)]
    )
    actual = cpi.expire(pod, 5)
    assert (actual.baseline.count, actual.cpi, actual.cpu) == (61, [], [(9, 1.0)])
    young = OnlinePod(Baseline(59, 1.0, 0.1), pod.cpi, pod.cpu)
    assert cpi.expire(young, 5).baseline.count == 61, "before sixty nothing is far from the usual"
    assert cpi.expire(actual, 5).baseline == actual.baseline


def test_split_removes_samples_older_than_the_given_time() -> None:
    assert cpi.split([(4, 1.0), (5, -1.0), (6, 1.0)], 5) == ([(4, 1.0)], [(5, -1.0), (6, 1.0)])


def test_invalid_readings_are_refused() -> None:
    assert (cpi.cpi_of(6, 3), cpi.cpi_of(5, 1)) == (2.0, 5.0)
    with pytest.raises(ValueError, match="no instruction"):
        cpi.cpi_of(5, 0)
    for series, at in (([], -1), ([(5, 1.0)], 4)):
        with pytest.raises(ValueError, match="before the last sample"):
            cpi.add(series, at, 1.0)


def test_a_sample_can_have_the_time_of_the_last_one() -> None:
    series = [(5, 1.0)]
    cpi.add(series, 5, 2.0)
    assert series == [(5, 1.0), (5, 2.0)]


def test_limits_of_a_pod_are_written_from_the_containers_up() -> None:
    pod = Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1"),))
    assert [(limit.folder, limit.value) for limit in cpi.limits(pod)] == [("p/1", "10000"), ("p", "10000")]
