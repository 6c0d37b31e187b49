"""dynMemory: the limit over time, and memory.high of offline pods, at a creation and later."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.model import Pod
from nri.agent.rubik import dyn_memory
from nri.agent.rubik.dyn_memory import MemoryHigh
from nri.agent.rubik.pods import PREEMPTIBLE
from tests.support.host_trees import TOP
from tests.support.rubik_world import RubikWorld, pod, run_pod

GIB = 1 << 30
FSSR = {"dynMemory": {"policy": "fssr"}}
NONE = "9223372036854771712"


def make_world(folder: Path, *, free: int = 50) -> RubikWorld:
    world = RubikWorld(folder, pod("batch", offline=True), pod("web"), **FSSR)
    world.memory(100 * GIB, 0, free * GIB)
    return world


def high(world: RubikWorld, name: str) -> int:
    return int(world.text(world.folder_of(pod(name)), "memory.high"))


def test_offline_pods_get_four_fifths_of_memory_and_online_pods_no_limit(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop(1, 5)
    assert (high(world, "batch"), high(world, "web")) == (100 * GIB * 8 // 10, int(NONE))


def test_the_limit_falls_by_a_tenth_per_round_with_little_free_memory(tmp_path: Path) -> None:
    world = make_world(tmp_path, free=5)
    world.loop(2, 5)
    assert high(world, "batch") == 100 * GIB * 8 // 10 - 2 * (100 * GIB // 10)
    account = world.history.account("uid-batch")
    assert account is not None
    assert account["values"][0]["reason"] == "5120 MiB are free on the node"


def test_a_round_triggered_by_a_new_pod_is_not_a_further_reading(tmp_path: Path) -> None:
    world = make_world(tmp_path, free=5)
    world.loop(1, 5)
    world.run(pod("batch", offline=True), pod("more", offline=True))
    for _ in range(3):
        world.loop(1, 0)
    assert high(world, "more") == high(world, "batch") == 100 * GIB * 8 // 10 - 100 * GIB // 10


def test_an_online_pod_or_a_disabled_service_removes_the_limit(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop(1, 5)
    world.run(pod("batch"), pod("web"))
    world.loop(1, 5)
    assert high(world, "batch") == -1
    world.run(pod("batch", offline=True), pod("web"))
    world.loop(1, 5)
    assert high(world, "batch") > 0
    world.configure()
    world.loop(1, 5)
    assert high(world, "batch") == -1
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_a_disabled_service_removes_limits_of_a_killed_agent_and_keeps_foreign_ones(tmp_path: Path) -> None:
    world = make_world(tmp_path, free=5)
    world.run(pod("batch", offline=True), pod("web"), pod("own", offline=True))
    world.loop(3, 5)
    world.kill()
    world.configure()
    for name, size in (("web", 50 * GIB), ("own", GIB)):
        world.overwrite(world.folder_of(pod(name)), "memory.high", str(size))
    world.loop(2, 5)
    assert [high(world, name) for name in ("batch", "web", "own")] == [-1, 50 * GIB, GIB]


def test_limits_of_a_killed_agent_are_continued_by_the_next_agent(tmp_path: Path) -> None:
    world = make_world(tmp_path, free=5)
    world.loop(3, 5)
    world.kill()
    world.loop(1, 5)
    assert high(world, "batch") == 100 * GIB * 7 // 10, "it begins anew"


def test_without_meminfo_pods_are_not_limited_and_the_reason_is_reported(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    (tmp_path / "proc/meminfo").unlink()
    world.clock.now += 5
    world.loops.round()
    assert high(world, "batch") == int(NONE)
    assert "dynMemory: offline pods have no limit: unsupported here: /proc/meminfo" in world.loops.health()[1]


def test_a_kernel_without_memory_high_is_reported(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    for file in (tmp_path / TOP / "memory").rglob("memory.high"):
        file.unlink()
    world.loop(2, 5)
    assert "dynMemory: offline pods have no limit: unsupported here" in world.loops.health()[1]


OFF = Pod(uid="u", folder="p", labels={PREEMPTIBLE: "true"})


#: Percents of the memory that are free, and in how many readings in a row.
runs = st.lists(st.tuples(st.sampled_from([0, 9, 10, 11, 19, 20, 21, 60]), st.sampled_from([1, 2, 12, 13, 30])))


@given(st.integers(1000, 1 << 40), runs)
def test_the_limit_follows_the_documented_algorithm(total: int, runs: list[tuple[int, int]]) -> None:
    assert dyn_memory.INTERVAL_S == 5
    walk, high, quiet = MemoryHigh(total), total * 8 // 10, 0
    for percent in (percent for percent, times in runs for _ in range(times)):
        free = total * percent // 100
        before = high
        if free < total // 10:
            high, quiet = max(high - total // 10, total * 3 // 10), 0
        elif free <= 2 * (total // 10):
            quiet = 0
        elif quiet == 12:
            high, quiet = min(high + total // 100, total * 8 // 10), 0
        else:
            quiet += 1
        assert walk.read(free) is (high != before)
        assert (walk.high, walk.quiet) == (high, quiet)


@pytest.mark.parametrize("total", [None, 0, -5])
def test_an_unknown_memory_size_is_an_error(total: int | None) -> None:
    with pytest.raises(ValueError, match="MemTotal"):
        MemoryHigh(total)


def test_a_pod_that_becomes_online_has_no_limit() -> None:
    assert [write.value for write in dyn_memory.writes(OFF, OFF, 5)] == ["80", "5"]
    assert [(write.knob, write.value) for write in dyn_memory.writes(OFF, Pod(uid="u", folder="p"), 5)] == [
        ("memory.high", "-1")
    ]
    assert dyn_memory.writes(Pod(uid="u"), Pod(uid="u"), 5) == []


def test_an_offline_pod_has_the_current_limit_before_its_first_process(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, pod("first", offline=True), dynMemory={"policy": "fssr"})
    world.memory(100 << 30, 0, 50 << 30)
    unlimited = world.value(run_pod(world, "early", offline=True), "memory.high")
    world.loop(1, 5)
    later = [world.value(run_pod(world, name, offline), "memory.high") for name, offline in (("a", True), ("b", False))]
    assert later == [80 << 30, unlimited]
