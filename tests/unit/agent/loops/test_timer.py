"""The timer over all strategies: off unless asked for, one bad one by itself, and nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from nri.agent.loops import Loops
from nri.agent.settings.values import LoopSettings, Settings
from nri.policies.koordinator import names as n
from tests.support.host_trees import TOP
from tests.support.loop_world import Asked, LoopWorld
from tests.support.standalone_world import CONTROLLERS
from tests.unit.agent.loops.test_evict import batch
from tests.unit.agent.transports.standalone.test_pods import pod

ALL = {
    "resourceUsedThresholdWithBE": {
        "enable": True, "cpuSuppressPolicy": "cpuset", "memoryEvictThresholdPercent": 70,
        "cpuEvictBESatisfactionUpperPercent": 60, "cpuEvictBESatisfactionLowerPercent": 40,
    },
    "cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPeriodSeconds": 100},
    "resourceQOSStrategy": {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50}}},
}  # fmt: skip


def test_nothing_is_sampled_or_written_unless_nodeslo_asks_for_it(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    world.pod(pod("a", n.LS))
    world.source.replace([pod("a", n.LS)])
    (tmp_path / "proc/stat").rename(tmp_path / "proc/hidden")
    for _ in range(3):
        world.loops.round()
    (tmp_path / "proc/hidden").rename(tmp_path / "proc/stat")
    assert world.observer.text().count('outcome="applied"') == 0
    world.slo({})
    world.loop(3)
    (tmp_path / "proc/stat").unlink()
    world.loops.round()
    assert world.loops.health() == (
        True, "BECPUSuppress, CPUBurst, BECPUEvict, BEMemoryEvict, CgroupReconcile, BlkIOReconcile",
    )  # fmt: skip


def test_strategies_are_those_that_the_settings_switch_on(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, gates={})
    assert [loop.name for loop in world.loops.loops] == ["BECPUSuppress", "CPUBurst"]
    world = LoopWorld(tmp_path / "none", gates={"BECPUSuppress": False, "CPUBurst": False})
    assert world.loops.loops == []
    assert world.loops.health() == (True, "none")


def test_a_strategy_that_breaks_off_costs_no_other_its_round(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    world.loops.loops[0].round = lambda moment: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    ls = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    folder = world.pod(ls)
    world.source.replace([ls])
    world.loop(2)
    assert world.text(folder, "memory.min") == str(1 << 20)
    assert "BECPUSuppress: ZeroDivisionError" in world.loops.health()[1]


def test_a_pod_that_makes_no_sense_costs_no_other_its_values(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    good = pod("a", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "2Mi"}}}])
    bad = pod("b", n.LS, containers=[{"name": "c", "resources": {"requests": {"memory": "much"}}}])
    folder = world.pod(good)
    world.source.replace([bad, good])
    world.loop()
    assert world.text(folder, "memory.min") == str(1 << 20)
    assert 'ns/b: "much" is not a quantity' in world.loops.health()[1]


def test_it_runs_by_its_thread_and_ends_with_it(tmp_path: Path) -> None:
    before = threading.active_count()
    world = LoopWorld(tmp_path, ALL)
    loops = Loops(Settings(loops=LoopSettings(interval=0.01)), world.parts, evictor=Asked())
    loops.start()
    loops.start()
    end = time.monotonic() + 10
    while loops._worker.rounds < 5 and time.monotonic() < end:
        loops.rules_changed(frozenset({"NodeSLO"}))
        time.sleep(0.01)
    loops.stop()
    loops.stop()
    assert loops._worker.rounds >= 5 and loops.health()[0]
    assert threading.active_count() == before


def test_a_machine_that_cannot_be_asked_fails_the_round_and_the_next_one_goes_on(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, ALL)
    world.source.replace([batch("a")])
    text = (tmp_path / "proc/stat").read_text()
    (tmp_path / "proc/stat").write_text("nonsense")
    loops = Loops(Settings(loops=LoopSettings(interval=0.01)), world.parts, evictor=Asked())
    loops.start()
    end = time.monotonic() + 10
    while loops.health()[0] and time.monotonic() < end:
        time.sleep(0.01)
    assert not loops.health()[0]
    (tmp_path / "proc/stat").write_text(text)
    while not loops.health()[0] and time.monotonic() < end:
        time.sleep(0.01)
    loops.stop()
    assert loops.health()[0]


def test_nothing_is_left_after_rounds_in_which_pods_come_and_go(tmp_path: Path) -> None:
    rounds_go_by(tmp_path, 1000)


def rounds_go_by(folder: Path, rounds: int) -> None:
    """Have so many rounds, with another pod every twenty; see that nothing is held."""
    world = LoopWorld(folder, ALL)
    asks = {"limits": {"cpu": "1", "memory": "4Mi"}, "requests": {"memory": "2Mi"}}
    name = "first"
    world.pod(pod(name, n.LS, containers=[{"name": "c", "resources": asks}]))
    below = [folder / TOP / controller / "kubepods/burstable" for controller in CONTROLLERS]
    descriptors = len(os.listdir("/proc/self/fd"))
    for turn in range(rounds):
        if turn % 20 == 0:
            fresh = f"pod-{turn}"
            for top in below:
                (top / f"pod{name}").rename(top / f"pod{fresh}")
                (top / f"pod{fresh}/{name}c").rename(top / f"pod{fresh}/{fresh}c")
            name = fresh
            world.source.replace([pod(name, n.LS, containers=[{"name": "c", "resources": asks}])])
        world.clock.now += 1
        world.loops.round()
    assert world.loops.health()[0]
    assert len(world.loops._sampler) <= 4
    for loop in world.loops.loops:
        assert not hasattr(loop, "__len__") or len(loop) <= 20, loop.name
    assert world.parts.executor.held()["waiting writes"] == 0
    assert world.parts.executor.held()["written values"] < 300
    assert len(world.history) <= 1024
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_strategy_that_breaks_off_each_round_is_one_entry_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = LoopWorld(tmp_path, {"cpuBurstStrategy": {"policy": "auto"}})
    (burst,) = (loop for loop in world.loops.loops if loop.name == "CPUBurst")

    def breaks(_: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr(burst, "round", breaks)
    for _ in range(5):
        world.loop()
    assert "CPUBurst: LookupError: a defect" in world.loops.health()[1]
    assert caplog.text.count("the round has failed") == 1
