"""dynCache: shares of groups, members of groups, and the dynamic group that follows cache misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.model import Container, Pod
from nri.agent.rubik import dyn_cache
from nri.agent.rubik.dyn_cache import ANNOTATION, Block, Misses, Shares
from nri.agent.rubik.pods import PREEMPTIBLE
from nri.host import Unsupported
from nri.host.perf import Event
from tests.support.counted import Counted, counting
from tests.support.host_trees import write_files
from tests.support.rubik_world import RubikWorld, pod

TOP = "sys/fs/resctrl"
FILES = {
    f"{TOP}/schemata": "L3:0=fff;2=fff\nMB:0=100;2=100\n",
    f"{TOP}/info/L3/cbm_mask": "fff\n",
    f"{TOP}/info/L3/min_cbm_bits": "2\n",
    f"{TOP}/info/L3/num_closids": "16\n",
    f"{TOP}/info/MB/min_bandwidth": "10\n",
}


def make_world(folder: Path, *pods: dict[str, Any], preview: tuple[str, ...] = (), **block: Any) -> RubikWorld:
    world = RubikWorld(folder, *pods, preview=preview, dynCache=block)
    write_files(folder, FILES)
    return world


def lines(world: RubikWorld, group: str) -> list[str]:
    return (world.folder / TOP / f"rubik_{group}/schemata").read_text().split()


def test_every_level_is_a_group_with_its_share_in_every_cache(tmp_path: Path) -> None:
    world = make_world(tmp_path, pod("a", offline=True, cache_limit="low"), pod("b", offline=True), pod("web"))
    world.loop(2)
    shares = {group: lines(world, group) for group in ("low", "middle", "high", "max", "dynamic")}
    assert shares["low"] == shares["dynamic"] == ["L3:0=3;2=3", "MB:0=10;2=10"], "2 of 12 ways"
    assert shares["max"] == ["L3:0=fff;2=fff", "MB:0=100;2=100"]
    assert [shares[name][0] for name in ("middle", "high")] == ["L3:0=7;2=7", "L3:0=3f;2=3f"]
    assert [(tmp_path / TOP / f"rubik_{name}/tasks").read_text().split() for name in ("low", "max", "high")] == [
        ["100"], ["100"], [],
    ]  # fmt: skip


def test_an_invalid_level_affects_only_its_pod_and_keeps_its_last_valid_group(tmp_path: Path) -> None:
    world = make_world(tmp_path, pod("a", offline=True, cache_limit="low"), pod("b", offline=True, cache_limit="huge"))
    world.loop()
    world.run(pod("a", offline=True, cache_limit="tiny"), pod("b", offline=True, cache_limit="huge"))
    world.loop()
    assert (tmp_path / TOP / "rubik_low/tasks").read_text().split() == ["100"]
    assert (tmp_path / TOP / "rubik_max/tasks").read_text() == "", "b never had a level"
    assert sum("is not one of low, middle" in error for error in world.loops.errors) == 2


def test_an_agent_without_visible_processes_of_offline_pods_reports_an_error(tmp_path: Path) -> None:
    world = make_world(tmp_path, pod("web"))
    world.loop()
    assert world.loops.errors == []
    world.run(pod("web"), batch := pod("a", offline=True))
    for file in (tmp_path / "sys/fs/cgroup").glob(f"*/{world.app(batch)}/*"):
        if file.name in ("cgroup.procs", "tasks"):
            file.write_text("0\n0\n")  # as in another pid namespace
    world.loop()
    assert world.loops.errors == [
        "dynCache: no process of an offline pod is visible; an agent in a pod requires hostPID"
    ]


def test_groups_are_removed_when_the_service_is_disabled(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop()
    world.configure()
    world.loop(2)
    assert not list((tmp_path / TOP).glob("rubik_*"))


def test_a_preview_creates_no_group_and_shows_the_planned_ones(tmp_path: Path) -> None:
    world = make_world(tmp_path, preview=("dynCache",))
    world.loop()
    assert not list((tmp_path / TOP).glob("rubik_*"))
    account = world.history.account("node/resctrl")
    assert account is not None and {row["field"] for row in account["values"]} >= {
        "resctrl.rubik_low",
        "resctrl.rubik_max",
    }


@pytest.mark.parametrize("missing", ["schemata", "info/L3/cbm_mask"])
def test_a_processor_without_cache_allocation_is_reported(tmp_path: Path, missing: str) -> None:
    world = make_world(tmp_path, pod("a", offline=True))
    (tmp_path / TOP / missing).unlink()
    world.loop()
    assert "dynCache: offline pods can use the whole cache: unsupported here" in world.loops.health()[1]


def test_misses_of_online_pods_shrink_the_dynamic_group_and_their_absence_grows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted({Event.REFERENCES: 999, Event.MISSES: 0, Event.LAST_LEVEL_READS: 0, Event.LAST_LEVEL_MISSES: 0})
    counting(monkeypatch, counted)
    world = make_world(tmp_path, pod("a", offline=True), pod("web"), defaultLimitMode="dynamic")
    world.loop(7)
    assert lines(world, "dynamic") == ["L3:0=f;2=f", "MB:0=25;2=25"], "three times 5 points"
    assert len(world.loops.loops[0]) == 1 == counted.open  # type: ignore[arg-type]
    counted.events[Event.MISSES] = 500
    world.loop(2)
    assert lines(world, "dynamic") == ["L3:0=3;2=3", "MB:0=10;2=10"], "as low as it may"
    world.run(pod("web"))
    world.loop()
    assert counted.open == 0, "without an offline pod nothing is counted"


def test_without_counters_the_dynamic_group_keeps_its_initial_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting(monkeypatch, Counted({}, missing_keys=Unsupported("a virtual machine")))
    world = make_world(tmp_path, pod("a", offline=True, cache_limit="dynamic"), pod("web"))
    world.loop(4)
    assert lines(world, "dynamic")[0] == "L3:0=3;2=3"
    assert (
        "dynCache: the dynamic group keeps its first share: unsupported here: a virtual machine" in world.loops.errors
    )


def _pod(name: str, level: str) -> Pod:
    return Pod(
        uid=name, annotations={PREEMPTIBLE: "true", ANNOTATION: level}, containers=(Container(id="1", folder=name),)
    )


@given(st.integers(1, 31), st.integers(1, 100))
def test_a_mask_has_as_many_ones_as_the_share_has_ways(width: int, percent: int) -> None:
    ones = width * percent // 100 or 1
    assert bin(dyn_cache.mask(width, percent)) == "0b" + "1" * ones


def test_a_twenty_way_cache_is_divided_like_any_other() -> None:
    shares = dyn_cache.group_shares(Block())["rubik_max"]
    assert dyn_cache.schemata(20, shares, {"L3": [0, 8], "MB": [0, 8]}) == {
        "L3": {0: 0xFFFFF, 8: 0xFFFFF},
        "MB": {0: 100, 8: 100},
    }


def test_tasks_are_moved_by_container_and_an_invalid_level_affects_one_pod() -> None:
    pods = [
        _pod("a", "low"),
        _pod("b", "LOW"),
        _pod("c", ""),
        Pod(uid="on", containers=(Container(id="1", folder="on"),)),
    ]
    processes = {"a": [1, 2], "b": [3], "c": [], "on": [4]}
    assert dyn_cache.tasks(pods, "dynamic", processes) == {"rubik_low": [1, 2]}
    assert dyn_cache.tasks([_pod("c", ""), _pod("a", "")], "static", processes) == {"rubik_max": [1, 2]}
    assert dyn_cache.uses_dynamic(pods, "dynamic")
    assert not dyn_cache.uses_dynamic(pods, "static")


percents = st.sampled_from([0, 9, 10, 11, 19, 20, 21, 100])


@given(st.lists(st.lists(st.tuples(percents, percents), max_size=3), max_size=20))
def test_the_dynamic_group_falls_at_once_and_rises_slowly_within_its_bounds(
    rounds: list[list[tuple[int, int]]],
) -> None:
    config, now, l3, mb = Block(), Shares(20, 10), 20, 10
    for measured in rounds:
        flat = [entry for pair in measured for entry in pair]
        if any(entry >= 20 for entry in flat):
            l3, mb = max(20, l3 - 50), max(10, mb - 50)
        elif all(entry < 10 for entry in flat):
            l3, mb = min(50, l3 + 5), min(50, mb + 5)
        now = dyn_cache.step(now, [Misses(*pair) for pair in measured], config)
        assert now == (l3, mb)
    assert dyn_cache.miss_percent(3, 9) == 30


@pytest.mark.parametrize(
    ("maximum", "least", "measured", "expected"),
    [
        (0, 0, [Misses()], Shares(20, 10)),
        (0, 0, [], Shares(45, 45)),
        (20, 10, [Misses(), Misses(9, 9)], Shares(45, 45)),
        (20, 10, [Misses(10), Misses()], Shares(40, 40)),
        (20, 10, [Misses(0, 20), Misses()], Shares(20, 10)),
    ],
)
def test_thresholds_of_misses_decide_whether_the_dynamic_group_falls_or_rises(
    maximum: int, least: int, measured: list[Misses], expected: Shares
) -> None:
    assert dyn_cache.step(Shares(40, 40), measured, Block(), maximum, least) == expected
