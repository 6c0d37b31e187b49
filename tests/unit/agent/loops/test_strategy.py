"""A strategy gets rounds by its own interval, and samples of its declared cgroups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri.agent.koordinator import names as n
from nri.agent.loops import Loops
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import SampledCgroups
from nri.agent.profile import StrategyRow
from nri.agent.settings import AgentSettings
from tests.support.loop_world import Asked, LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod


class EachTime:
    """A strategy that keeps the samples of its rounds."""

    name, key, interval_s, samples, runs_on_pod_changes = "EachTime", "", 0.0, SampledCgroups.PODS, False

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.seen: list[Sample] = []

    def is_needed(self, rules: Any) -> bool:
        return True

    def round(self, moment: Round[Any]) -> None:
        self.seen.append(moment.sample)


class Seldom(EachTime):
    name, interval_s, samples, runs_on_pod_changes = "Seldom", 5.0, SampledCgroups.CONTAINERS, True


def loops_of(world: LoopWorld) -> tuple[Loops, EachTime, EachTime]:
    rows = tuple(StrategyRow(entry.name, True, "", f"{__name__}:{entry.name}") for entry in (EachTime, Seldom))
    parts = replace(world.parts, profile=replace(world.parts.profile, strategies=rows))
    loops = Loops(AgentSettings(), parts, evictor=Asked(), now=world.clock)
    often, seldom = loops.loops
    assert isinstance(often, EachTime) and isinstance(seldom, Seldom)
    return loops, often, seldom


def test_a_strategy_has_rounds_by_its_interval_and_at_once_after_a_rule_change(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    loops, often, seldom = loops_of(world)
    for _ in range(11):
        loops.round(frozenset({"timer"}))
        world.pass_s()
    assert (len(often.seen), len(seldom.seen)) == (11, 3)
    loops.round(frozenset({"timer", "NodeSLO"}))
    assert (len(often.seen), len(seldom.seen)) == (12, 4)


def test_a_prompt_strategy_has_a_round_for_new_pods_and_others_wait_for_the_timer(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    loops, often, seldom = loops_of(world)
    loops.round()
    loops.round(frozenset({"pods"}))
    assert (len(often.seen), len(seldom.seen)) == (1, 2)
    world.pass_s()
    loops.round(frozenset({"pods", "timer"}))
    assert (len(often.seen), len(seldom.seen)) == (2, 3)


def test_a_strategy_gets_the_usage_of_its_cgroups_since_its_last_round(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, {})
    one = pod("a", n.LS)
    folder = world.pod(one)
    world.source.replace([one])
    loops, often, seldom = loops_of(world)
    for milli in (100, 200, 300, 400, 500, 600):
        loops.round(frozenset({"timer"}))
        world.uses |= {folder: milli, f"{folder}/ac": milli}
        world.pass_s()
    assert [entry.of(folder).milli for entry in often.seen] == [None, 100, 200, 300, 400, 500]
    assert [entry.of(f"{folder}/ac").milli for entry in seldom.seen] == [None, 300]
    assert folder not in seldom.seen[0].cgroups and f"{folder}/ac" not in often.seen[0].cgroups
