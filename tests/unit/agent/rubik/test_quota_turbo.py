"""quotaTurbo: the steps of a tick, and quotas that rise, fall and return to the limits."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.model import Container, Pod
from nri.agent.rubik import quota_turbo as turbo
from nri.agent.rubik.quota_turbo import Knobs, ManagedContainer, Reading, Turbo
from nri.agent.rubik.service import Ticks
from nri.config.complaint import WrongValue
from tests.support.host_trees import TOP
from tests.support.rubik_world import RubikWorld, pod

TICK = {"syncInterval": 1000}
#: One per cent of 8 CPUs a tick, in microseconds of a period.
STEP = 8000


def throttled(folder: Path, *names: str, **more: object) -> tuple[RubikWorld, list[dict[str, object]]]:
    """A world whose containers with one CPU each, of eight, use up their quotas, one tick after the first."""
    pods = [pod(name, cpu="1", quota_turbo="true") for name in names]
    world = RubikWorld(folder, *pods, quotaTurbo=TICK, **more)  # type: ignore[arg-type]
    world.throttled = {world.app(pod) for pod in pods}
    world.loop()
    return world, pods  # type: ignore[return-value]


def test_a_throttled_container_and_its_pod_rise_by_one_percent_of_the_node_per_tick(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop()
    assert (world.quota(world.app(a)), world.quota(world.folder_of(a))) == (100_000 + STEP, 100_000 + STEP)
    world.loop(40)
    assert 100_000 < world.quota(world.app(a)) <= 200_000, "never more than twice the limit"


def test_several_throttled_containers_share_the_step(tmp_path: Path) -> None:
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    assert [world.quota(world.app(entry)) for entry in (a, b)] == [100_000 + STEP // 2] * 2


def test_above_the_alarm_mark_quotas_fall_at_once_and_never_below_the_limit(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop(2)
    high = world.quota(world.app(a))
    world.node_milli, world.throttled = 7600, set()
    world.loop()
    low = world.quota(world.app(a))
    assert low < high
    world.loop(5)
    assert world.quota(world.app(a)) == world.quota(world.folder_of(a)) == 100_000


@pytest.mark.parametrize(
    ("cpu", "words"), [("1", {}), ("", {"quota_turbo": "true"}), ("8", {"quota_turbo": "true"})],
    ids=["not asked for", "no limit", "all CPUs"],
)  # fmt: skip
def test_a_container_without_a_request_or_room_to_rise_is_unchanged(
    tmp_path: Path, cpu: str, words: dict[str, str]
) -> None:
    world = RubikWorld(tmp_path, a := pod("a", cpu=cpu, **words), quotaTurbo=TICK)
    before = world.quota(world.app(a))
    world.throttled = {world.app(a)}
    world.loop(4)
    assert world.quota(world.app(a)) == before


def test_a_limit_below_the_kernels_minimum_quota_gets_the_minimum(tmp_path: Path) -> None:
    small = pod("a", cpu="0.005", quota_turbo="true")
    world = RubikWorld(tmp_path, small, quotaTurbo=TICK)
    for folder in (world.folder_of(small), world.app(small)):
        world.overwrite(folder, "cpu.cfs_quota_us", "1000")  # as a kubelet sets it, for the kernel refuses 500
    for throttled in (set(), {world.app(small)}):
        world.throttled = throttled
        world.loop(3)
        assert world.quota(world.app(small)) == world.quota(world.folder_of(small)) == 1000
    world.configure()
    world.loop()
    assert world.quota(world.app(small)) == world.quota(world.folder_of(small)) == 1000


@pytest.mark.parametrize("how", ["annotation", "configuration", "end"])
def test_a_raised_quota_is_restored_when_the_request_ends(tmp_path: Path, how: str) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop(2)
    assert world.quota(world.app(a)) > 100_000
    if how == "annotation":
        world.run(pod("a", cpu="1"))
        world.loop()
    elif how == "configuration":
        world.configure()
        world.loop()
    else:
        world.loops.start()
        world.loops.stop()
    assert (world.quota(world.app(a)), world.quota(world.folder_of(a))) == (100_000, 100_000)


def test_a_failed_service_does_not_prevent_another_from_restoring_quotas_at_the_end(tmp_path: Path) -> None:
    a = pod("a", cpu="1", quota_turbo="true")
    world = RubikWorld(tmp_path, a, quotaTurbo={"syncInterval": 10_000}, cpi={})
    world.throttled = {world.app(a)}
    world.loop(3)
    assert world.quota(world.app(a)) > 100_000
    (cpi,) = (loop for loop in world.loops.loops if loop.name == "cpi")
    cpi.is_needed = lambda rules: True  # type: ignore[method-assign]
    cpi.round = lambda created: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    world.loops.start()
    world.loops.stop()
    assert world.quota(world.app(a)) == 100_000


@pytest.mark.parametrize("how", ["annotation", "configuration"])
def test_a_quota_set_to_unlimited_by_others_is_kept_with_its_parents(tmp_path: Path, how: str) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop(2)
    above = world.quota(world.folder_of(a))
    world.overwrite(world.app(a), "cpu.cfs_quota_us", "-1")
    world.loop()
    if how == "annotation":
        world.run(pod("a", cpu="1"))
    else:
        world.configure()
    world.loop(2)
    assert (world.quota(world.app(a)), world.quota(world.folder_of(a))) == (-1, above)


def test_a_removed_pod_is_forgotten_and_does_not_affect_others(tmp_path: Path) -> None:
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    world.no_cgroup(world.folder_of(a))
    world.throttled = {world.app(b)}
    world.loop()
    world.run(b)
    world.loop()
    assert len(world.loops.loops[0]) == 1  # type: ignore[arg-type]
    assert world.quota(world.app(b)) > 100_000


def test_a_changed_limit_is_the_new_base(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop(3)
    bigger = json.loads(json.dumps(a))
    bigger["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    for path in (world.app(a), world.folder_of(a)):
        world.overwrite(path, "cpu.cfs_quota_us", "200000")
    world.run(bigger)
    world.throttled = set()
    world.loop()
    assert world.quota(world.app(a)) == 200_000
    world.configure()
    world.loop()
    assert world.quota(world.app(a)) == 200_000


def test_a_container_and_its_parents_change_together_or_not_at_all(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    file = tmp_path / TOP / "cpu,cpuacct" / world.folder_of(a) / "cpu.cfs_quota_us"
    text = file.read_text()
    file.unlink()
    file.mkdir()  # it can be neither read nor written
    world.loop()
    assert world.quota(world.app(a)) == 100_000
    assert "the quota of" in world.loops.health()[1]
    file.rmdir()
    file.write_text(text)
    world.loop(2)
    assert world.quota(world.app(a)) > 100_000


def test_without_cpu_times_quotas_are_unchanged_and_the_reason_is_reported(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop()
    before = world.quota(world.app(a))
    (tmp_path / "proc/stat").unlink()
    world.clock.now += 1
    world.loops.round()
    assert world.quota(world.app(a)) == before
    assert "quotaTurbo: quotas stay unchanged: unsupported here: /proc/stat" in world.loops.health()[1]


def test_a_preview_reports_the_change_and_writes_no_quota(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a", preview=("quotaTurbo",))
    world.loop()
    assert world.quota(world.app(a)) == 100_000
    account = world.history.account("uid-a")
    assert account is not None
    rows = [(row["hook"], row["field"], row["value"], row["stage"]) for row in account["values"] if row["container"]]
    assert rows == [("quotaTurbo", "cpu.cfs_quota", str(100_000 + STEP), "preview")]
    assert "the node uses 0 %, the limit is 1 CPUs" in account["values"][0]["reason"]
    assert account["writes"] == []


def test_a_changed_interval_in_the_file_takes_effect_at_once(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, quotaTurbo={})
    (service,) = world.loops.loops
    world.loop()
    assert service.interval_s == 0.1
    world.configure(quotaTurbo={"syncInterval": 250})
    world.loop()
    assert service.interval_s == 0.25


def test_files_are_held_open_only_for_managed_containers(tmp_path: Path) -> None:
    def count_open_files() -> int:
        links = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
        return sum(link.startswith(str(tmp_path)) for link in links)

    world, (a, _) = throttled(tmp_path, "a", "b")
    assert count_open_files() == 8
    world.run(a)  # type: ignore[arg-type]
    world.loop()
    assert count_open_files() == 4
    world.configure()
    world.loop(2)
    assert count_open_files() == 0


def test_containers_are_read_even_with_few_file_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (8, 8))
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    assert [world.quota(world.app(entry)) for entry in (a, b)] == [100_000 + STEP // 2] * 2


def reasons(world: RubikWorld, name: str = "a") -> list[str]:
    return [row["reason"] for row in world.loops.unchanged(f"uid-{name}") if row["strategy"] == "quotaTurbo"]


def test_the_reason_for_an_unchanged_quota_is_shown_until_it_rises(tmp_path: Path) -> None:
    world, _ = throttled(tmp_path, "a")
    assert reasons(world) == ["the node's CPU usage is not known yet"]
    world.loop()
    assert reasons(world) == []
    world.throttled = set()
    world.loop(40)
    assert reasons(world) == ["the container was not throttled in the last tick"]
    world.node_milli = 7600
    world.loop(8)
    assert reasons(world) == ["the node's CPU usage is 95 %; quotas rise while it is 79 % or less"]
    world.node_milli = 0
    world.loop()
    varied = "the node's CPU usage varied by 95 % in a minute"
    assert reasons(world) == [f"{varied}; quotas rise while it varies by 10 % or less"]


@pytest.mark.parametrize(
    ("cpu", "annotations", "reason"),
    [
        ("1", {}, 'annotation volcano.sh/quota-turbo is not "true"'),
        ("8", {"quota_turbo": "true"}, "the CPU limit is not between 0 and the 8 CPUs of the node, or the quota"),
    ],
    ids=["not requested", "all CPUs"],
)
def test_the_reason_for_a_pod_without_turbo_is_shown(
    tmp_path: Path, cpu: str, annotations: dict[str, str], reason: str
) -> None:
    world = RubikWorld(tmp_path, pod("a", cpu=cpu, **annotations), quotaTurbo=TICK)
    world.loop(2)
    assert [row[: len(reason)] for row in reasons(world)] == [reason]


KNOBS = Knobs()
S = 10**9
containers = st.lists(
    st.builds(
        lambda limit, period, part, throttled, lacked: ManagedContainer(
            "", limit / 4, int(limit / 4 * period * part), period, throttled, lacked * throttled
        ),
        st.integers(1, 16),
        st.sampled_from([10_000, 100_000]),
        st.sampled_from([0.5, 1, 1.3, 2]),
        st.integers(0, 5),
        st.integers(1000, 10**8),
    ),
    min_size=1,
    max_size=5,
).map(lambda entries: [_named(entry, f"c{place}") for place, entry in enumerate(entries)])


def _named(entry: ManagedContainer, name: str) -> ManagedContainer:
    entry.folder = name
    return entry


@given(containers, st.floats(0, 100))
def test_the_slow_fallback_takes_its_part_of_the_excess_over_the_limit(
    actual: list[ManagedContainer], use: float
) -> None:
    created = turbo.slow_fallback(actual, use, KNOBS)
    for entry in actual:
        above = entry.quota - entry.limit * entry.period
        falls = use >= 60 and above > 0 and entry.throttled == 0
        assert created.get(entry.folder, 0) == pytest.approx(-(use - 60) / 20 * 0.1 * above if falls else 0)


@given(containers, st.floats(0, 100))
def test_the_fast_fallback_takes_the_excess_over_the_alarm_mark_from_raised_quotas(
    actual: list[ManagedContainer], use: float
) -> None:
    created = turbo.fast_fallback(actual, use, 4, KNOBS)
    above = [entry for entry in actual if entry.quota > entry.limit * entry.period]
    excess = {entry.folder: Fraction(entry.quota, entry.period) - Fraction(entry.limit) for entry in above}
    less = (80 - use) / 100 * 4 / float(sum(excess.values())) if use >= 80 and above else 0
    assert [created.get(entry.folder, 0) / entry.period for entry in above] == [
        pytest.approx(less * float(excess[entry.folder])) for entry in above
    ]
    assert created.keys() <= {entry.folder for entry in above}
    assert all(value <= 0 for value in created.values())


@given(containers, st.lists(st.floats(0, 100), min_size=1, max_size=4))
def test_throttled_containers_rise_by_their_need_up_to_one_percent_of_the_node(
    actual: list[ManagedContainer], uses: list[float]
) -> None:
    created = turbo.elevate(actual, uses, 4, KNOBS)
    if max(uses) - min(uses) > 10 or 80 - uses[-1] < 1:
        assert created == {}
        return
    needs = {
        entry.folder: entry.throttled_ns / 1000 / entry.throttled / entry.period for entry in actual if entry.throttled
    }
    given_ = {entry.folder: created[entry.folder] / entry.period for entry in actual if entry.folder in needs}
    assert sum(given_.values()) == pytest.approx(min(sum(needs.values()), 0.04))
    assert all(
        given_[name] / needs[name] == pytest.approx(given_[next(iter(needs))] / needs[next(iter(needs))])
        for name in needs
    )


@given(st.integers(1, 16), st.lists(st.integers(0, 2 * S), min_size=0, max_size=20))
def test_a_container_gets_the_remainder_of_its_limit(quarters: int, used: list[int]) -> None:
    limit, period, at, begin, before = Fraction(quarters, 4), 100_000, 0, 7 * S, 5 * S
    usages = [(begin, before)]
    for entry in used:
        at += S
        usages.append((begin + at, usages[-1][1] + entry))
    base, maximum = limit * period, 2 * limit * period
    expected = maximum
    if used:
        count = len(usages)
        remaining = limit * at * Fraction(count, count - 1) - (usages[-1][1] - before)
        quota = remaining / at * (count - 1) * period
        expected = maximum if quota > 3 * maximum else base + (maximum - base) * quota / (3 * maximum)
        expected = min(max(expected, base), maximum)
    assert turbo.max_next(float(limit), period, usages) == pytest.approx(float(expected))


def test_readings_without_elapsed_time_allow_the_maximum() -> None:
    assert turbo.max_next(1.0, 100_000, [(S, 1), (S, 9)]) == 200_000
    assert turbo.max_next(0.0, 100_000, [(S, 1), (2 * S, 9)]) == 0


@pytest.mark.parametrize(("use", "rises"), [(79.0, True), (79.1, False)])
def test_quotas_rise_while_a_whole_step_is_left_below_the_alarm_mark(use: float, rises: bool) -> None:
    managed = ManagedContainer("a", 1, 100_000, 100_000, throttled=1, throttled_ns=S)
    assert bool(turbo.elevate([managed], [use], 4, KNOBS)) is rises


def test_node_usage_is_stored_for_a_minute_and_container_usage_for_59_ticks() -> None:
    turbo, reading = Turbo(4), Reading(100_000, 100_000, 0, 0, 0)
    turbo.add("a", 1.0, reading, 0)
    for second in range(61):
        turbo.observe(Ticks(100 * second * (second == 1) + 50, 100 * second), second * S)
        turbo.decide({"a": reading}, second * S)
    assert len(turbo.managed["a"].usages) == 59
    rising = {"a": reading._replace(throttled=1, throttled_ns=S)}
    turbo.observe(Ticks(50, 6100), 61 * S)
    assert turbo.decide(rising, 61 * S)["a"] == 100_000, "it swung sixty seconds ago"
    turbo.observe(Ticks(50, 6200), 62 * S)
    assert turbo.decide({"a": reading._replace(throttled=2, throttled_ns=2 * S)}, 62 * S)["a"] > 100_000


@given(containers, st.lists(st.floats(0, 100), max_size=3))
def test_the_next_quota_is_between_the_limit_and_twice_the_limit(
    actual: list[ManagedContainer], uses: list[float]
) -> None:
    total = turbo.deltas(actual, uses, 4, KNOBS)
    for entry in actual:
        assert (
            int(entry.base()) <= turbo.next_quota(entry, total[entry.folder]) <= turbo.height(entry.limit, entry.period)
        )


def test_in_an_overload_a_quota_below_its_limit_and_an_unlimited_one_do_not_change() -> None:
    above, below, free = (
        ManagedContainer(name, 1, quota, 100_000) for name, quota in (("a", 200_000), ("b", 60_000), ("c", -1))
    )
    assert turbo.deltas([above, below, free], [95.0], 4, KNOBS) == {
        "a": pytest.approx(-60_000 - 1.75 * 0.1 * 100_000), "b": 0.0, "c": 0.0,
    }  # fmt: skip


def test_a_container_without_a_period_is_ignored() -> None:
    odd = ManagedContainer("odd", 1, 5, 0, throttled=1, throttled_ns=1)
    assert turbo.deltas([odd], [95.0], 4, KNOBS)["odd"] <= 0
    assert turbo.elevate([odd], [10.0], 4, KNOBS) == {}


def test_a_chain_grows_from_the_top_shrinks_from_the_container_and_skips_the_top_slice() -> None:
    folder = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice/cri-containerd-c.scope"
    quotas = {folder.rpartition("/")[0]: 200_000, "kubepods.slice/kubepods-burstable.slice": -1, folder: 100}
    grown = [(entry.folder.count("/"), entry.value) for entry in turbo.chain(folder, 100, 120, quotas.get)]
    assert grown == [(2, "200020"), (3, "120")]
    quotas[folder] = 120
    shrunk = [entry.value for entry in turbo.chain(folder, 120, 100, quotas.get)]
    assert shrunk == ["100", "199980"]
    with pytest.raises(ValueError, match="cannot be read"):
        turbo.chain(folder, 1, 2, {}.get)
    for nobodys in ("/", "kubepods", "/kubepods.slice/"):
        with pytest.raises(ValueError, match="without a cgroup"):
            turbo.chain(nobodys, 1, 2, {}.get)
    assert turbo.chain(folder, 7, 7, {}.get) == []


def test_all_parents_with_a_quota_change_by_the_same_amount() -> None:
    quotas = {"kubepods": 1, "kubepods/burstable": 500, "kubepods/burstable/p": 300, "kubepods/burstable/p/c": 100,
              "a": 100, "a/c": 100}  # fmt: skip
    assert [(entry.folder, entry.value) for entry in turbo.chain("kubepods/burstable/p/c", 100, 120, quotas.get)] == [
        ("kubepods/burstable", "520"), ("kubepods/burstable/p", "320"), ("kubepods/burstable/p/c", "120"),
    ]  # fmt: skip
    assert [entry.folder for entry in turbo.chain("/a/c", 100, 120, quotas.get)] == ["a", "a/c"]


def test_scopes_of_systemd_rise_and_the_first_reading_is_not_a_sample() -> None:
    folder, turbo = "kubepods.slice/kubepods-podx.slice/cri-containerd-c.scope", Turbo(4)
    turbo.add(folder, 1.0, Reading(100_000, 100_000, 0, 0, 0), 0)
    turbo.add("free", 1.0, Reading(-1, 100_000, 0, 0, 0), 0)
    assert turbo.observe(Ticks(500, 1000), S) == 0.0
    quota = 100_000
    for tick in range(2, 6):
        assert turbo.observe(Ticks(500 + 50 * tick, 1000 + 100 * tick), tick * S) > 0
        reading = Reading(quota, 100_000, tick, tick * 60_000_000, tick)
        quota = turbo.decide({folder: reading, "free": Reading(-1, 100_000, tick, tick, 0)}, tick * S)[folder]
    assert quota == 116_000
    assert "free" not in turbo.decide({"free": Reading(-1, 100_000, 9, 9, 0)}, 9 * S)
    assert turbo.remove(folder) == 100_000
    assert turbo.remove(folder) is None


@pytest.mark.parametrize("limit", [None, 0, -1.0, 4.0, 5.0])
def test_a_limit_without_room_to_rise_is_refused(limit: float | None) -> None:
    with pytest.raises(ValueError, match="cannot be raised"):
        Turbo(4).add("c", limit, Reading(1, 1, 0, 0, 0), 0)


@pytest.mark.parametrize(
    "wrong",
    [{"highWaterMark": 80}, {"highWaterMark": -1}, {"alarmWaterMark": 101}, {"elevateLimit": -0.1},
     {"cpuFloatingLimit": 100.5}],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(WrongValue):
        Knobs(**wrong)
    for maximum in (0, 100):
        assert Knobs(0, 100, elevateLimit=maximum, cpuFloatingLimit=maximum).alarmWaterMark == 100


def test_quotas_are_restored_to_the_limits_and_unknown_limits_are_unchanged() -> None:
    pod = Pod(
        uid="u",
        folder="p",
        containers=(Container(id="1", folder="p/1", cpu_limit=2), Container(id="2", folder="p/2", cpu_limit=0.5)),
    )
    assert [(entry.folder, entry.value) for entry in turbo.restored(pod, lambda folder: 100_000)] == [
        ("p", "250000"), ("p/1", "200000"), ("p/2", "50000"),
    ]  # fmt: skip
    assert (
        turbo.restored(Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1"),)), lambda folder: 1) == []
    )
    free = Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1", cpu_limit=0), *pod.containers[1:]))
    assert [entry.value for entry in turbo.restored(free, lambda folder: None)] == ["-1", "-1"]
    tiny = Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1", cpu_limit=0.001),))
    assert [entry.value for entry in turbo.restored(tiny, lambda folder: 100)] == ["0", "0"]


def test_a_parent_that_would_fall_below_the_kernels_minimum_is_unchanged() -> None:
    quotas = {"kubepods/p": 5000, "kubepods/p/c": 100_000}
    assert [(write.folder, write.value) for write in turbo.chain("kubepods/p/c", 100_000, 90_000, quotas.get)] == [
        ("kubepods/p/c", "90000")
    ]
