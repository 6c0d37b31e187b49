"""quotaTurbo: quotas that rise with their pod's, fall at the marks, hold together, and go back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.host_trees import TOP
from tests.support.rubik_world import RubikWorld, pod

TICK = {"syncInterval": 1000}
#: One per cent of 8 CPUs a tick, in microseconds of a period.
STEP = 8000


def throttled(folder: Path, *names: str, **more: object) -> tuple[RubikWorld, list[dict[str, object]]]:
    """A world whose containers with one CPU each, of eight, use up their quotas, one tick after the first."""
    pods = [pod(name, cpu="1", quota_turbo="true") for name in names]
    world = RubikWorld(folder, *pods, quotaTurbo=TICK, **more)  # type: ignore[arg-type]
    world.throttled = {world.app(each) for each in pods}
    world.loop()
    return world, pods  # type: ignore[return-value]


def test_a_throttled_container_rises_with_its_pod_by_one_percent_of_the_node_a_tick(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop()
    assert (world.quota(world.app(a)), world.quota(world.folder_of(a))) == (100_000 + STEP, 100_000 + STEP)
    world.loop(40)
    assert 100_000 < world.quota(world.app(a)) <= 200_000, "never more than twice the limit"


def test_several_of_one_pod_and_of_others_share_the_step(tmp_path: Path) -> None:
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    assert [world.quota(world.app(each)) for each in (a, b)] == [100_000 + STEP // 2] * 2


def test_above_the_alarm_mark_quotas_fall_at_the_first_tick_and_never_below_the_limit(tmp_path: Path) -> None:
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
def test_a_container_that_does_not_ask_or_leaves_nothing_to_raise_is_left_alone(
    tmp_path: Path, cpu: str, words: dict[str, str]
) -> None:
    world = RubikWorld(tmp_path, a := pod("a", cpu=cpu, **words), quotaTurbo=TICK)
    before = world.quota(world.app(a))
    world.throttled = {world.app(a)}
    world.loop(4)
    assert world.quota(world.app(a)) == before


def test_a_limit_below_the_kernel_s_least_quota_has_that_quota(tmp_path: Path) -> None:
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
def test_what_was_raised_goes_back_when_it_is_no_longer_asked_for(tmp_path: Path, how: str) -> None:
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


def test_at_the_end_a_service_that_breaks_off_keeps_no_quota_of_another(tmp_path: Path) -> None:
    a = pod("a", cpu="1", quota_turbo="true")
    world = RubikWorld(tmp_path, a, quotaTurbo={"syncInterval": 10_000}, cpi={})
    world.throttled = {world.app(a)}
    world.loop(3)
    assert world.quota(world.app(a)) > 100_000
    (cpi,) = (each for each in world.loops.loops if each.name == "cpi")
    cpi.wants = lambda rules: True  # type: ignore[method-assign]
    cpi.round = lambda made: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    world.loops.start()
    world.loops.stop()
    assert world.quota(world.app(a)) == 100_000


@pytest.mark.parametrize("how", ["annotation", "configuration"])
def test_a_container_that_somebody_else_has_freed_stays_free_and_those_above_it_as_they_are(
    tmp_path: Path, how: str
) -> None:
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


def test_a_pod_that_is_gone_is_forgotten_and_costs_no_other(tmp_path: Path) -> None:
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    world.no_cgroup(world.folder_of(a))
    world.throttled = {world.app(b)}
    world.loop()
    world.run(b)
    world.loop()
    assert len(world.loops.loops[0]) == 1  # type: ignore[arg-type]
    assert world.quota(world.app(b)) > 100_000


def test_a_limit_that_changes_is_the_new_one_to_rise_from(tmp_path: Path) -> None:
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


def test_a_container_and_those_above_it_hold_together_or_not_at_all(tmp_path: Path) -> None:
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


def test_without_the_nodes_times_quotas_stay_and_that_is_told(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a")
    world.loop()
    before = world.quota(world.app(a))
    (tmp_path / "proc/stat").unlink()
    world.clock.now += 1
    world.loops.round()
    assert world.quota(world.app(a)) == before
    assert "quotaTurbo: quotas stay as they are: unsupported here: /proc/stat" in world.loops.health()[1]


def test_in_preview_it_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    world, (a,) = throttled(tmp_path, "a", preview=("quotaTurbo",))
    world.loop()
    assert world.quota(world.app(a)) == 100_000
    told = world.history.of("uid-a")
    assert told is not None
    rows = [(row["hook"], row["field"], row["value"], row["stage"]) for row in told["values"] if row["container"]]
    assert rows == [("quotaTurbo", "cpu.cfs_quota", str(100_000 + STEP), "preview")]
    assert "the node uses 0 %, the limit is 1 CPUs" in told["values"][0]["reason"]
    assert told["writes"] == []


def test_a_tick_is_as_long_as_the_file_says_from_the_moment_it_says_so(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, quotaTurbo={})
    (service,) = world.loops.loops
    world.loop()
    assert service.interval_s == 0.1
    world.configure(quotaTurbo={"syncInterval": 250})
    world.loop()
    assert service.interval_s == 0.25


def test_files_are_held_open_for_containers_that_are_managed_and_no_longer(tmp_path: Path) -> None:
    def held() -> int:
        links = (os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return sum(link.startswith(str(tmp_path)) for link in links)

    world, (a, _) = throttled(tmp_path, "a", "b")
    assert held() == 8
    world.run(a)  # type: ignore[arg-type]
    world.loop()
    assert held() == 4
    world.configure()
    world.loop(2)
    assert held() == 0


def test_with_few_descriptors_a_container_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (8, 8))
    world, (a, b) = throttled(tmp_path, "a", "b")
    world.loop()
    assert [world.quota(world.app(each)) for each in (a, b)] == [100_000 + STEP // 2] * 2


def reasons(world: RubikWorld, name: str = "a") -> list[str]:
    return [row["reason"] for row in world.loops.unchanged(f"uid-{name}") if row["strategy"] == "quotaTurbo"]


def test_why_a_quota_did_not_rise_is_explained_until_it_does(tmp_path: Path) -> None:
    world, _ = throttled(tmp_path, "a")
    assert reasons(world) == ["the node's use is not known yet"]
    world.loop()
    assert reasons(world) == []
    world.throttled = set()
    world.loop(40)
    assert reasons(world) == ["it was not throttled in the last tick"]
    world.node_milli = 7600
    world.loop(8)
    assert reasons(world) == ["the node uses 95 %; quotas rise while it uses 79 % or less"]
    world.node_milli = 0
    world.loop()
    assert reasons(world) == ["the node's use varied by 95 % in a minute; quotas rise while it is 10 or less"]


@pytest.mark.parametrize(
    ("cpu", "annotations", "reason"),
    [
        ("1", {}, 'its annotation volcano.sh/quota-turbo is not "true"'),
        ("8", {"quota_turbo": "true"}, "its CPU limit is not between 0 and the 8 CPUs of the node, or its quota"),
    ],
    ids=["not requested", "all CPUs"],
)
def test_why_a_pod_has_no_turbo_at_all_is_explained(
    tmp_path: Path, cpu: str, annotations: dict[str, str], reason: str
) -> None:
    world = RubikWorld(tmp_path, pod("a", cpu=cpu, **annotations), quotaTurbo=TICK)
    world.loop(2)
    assert [row[: len(reason)] for row in reasons(world)] == [reason]
