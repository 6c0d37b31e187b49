"""Cache and bandwidth of QoS classes on a machine that can share them out, and on one that cannot."""

from __future__ import annotations

from pathlib import Path

from nri.agent.koordinator import names as n
from nri.agent.koordinator.class_resctrl import ClassResctrl
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.slo import NodeSlo
from nri.agent.loops.round import Round
from nri.agent.loops.samples import Sample
from nri.agent.settings import AgentSettings
from nri.host import read_topology
from nri.policies.changes import Resctrl
from tests.support.host_trees import write_files
from tests.support.loop_world import LoopWorld
from tests.unit.agent.loops.test_round import made
from tests.unit.agent.transports.standalone.test_pods import pod

BE_THIRD = {"resourceQOSStrategy": {"beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 33}}}}


def moment_of(world: LoopWorld, spec: dict[str, object] | None) -> Round:
    strategies = NodeSlo()
    strategies.take(None if spec is None else {"spec": spec})
    world.pod(pod("be", n.BE, "BestEffort"))
    pods = [made(world, pod("be", n.BE, "BestEffort"))]
    return Round(world.parts, strategies, pods, Sample(0.0, 8, None, None, None, {}), read_topology(world.root))


def test_a_class_has_its_part_and_its_threads_and_gives_it_back_when_it_is_switched_off(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, node=Node(cache=Cache((0, 1), 0xF, "GenuineIntel")))
    loop, moment = ClassResctrl(AgentSettings(), ["RdtResctrl"]), moment_of(world, BE_THIRD)
    loop.round(moment)
    assert moment.groups[-1] == Resctrl("BE", "L3:0=3;1=3;\nMB:0=40;1=40;\n", (100,))
    off = moment_of(world, {})
    assert loop.wants(off.rules)
    loop.round(off)
    assert [each.schemata for each in off.groups] == ["L3:0=f;1=f;\nMB:0=100;1=100;\n"] * 3
    assert not loop.wants(off.rules)


def test_the_group_of_an_agent_that_was_killed_is_given_back_if_no_class_asks_for_it_any_more(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, node=Node(cache=Cache((0, 1), 0xF, "GenuineIntel")))
    off, none = moment_of(world, {}), moment_of(world, {})
    ClassResctrl(AgentSettings(), ["RdtResctrl"]).round(none)
    assert not none.groups
    write_files(tmp_path, {"sys/fs/resctrl/BE/schemata": "L3:0=3;1=3\n"})
    loop = ClassResctrl(AgentSettings(), ["RdtResctrl"])
    loop.round(off)
    assert Resctrl("BE", "L3:0=f;1=f;\nMB:0=100;1=100;\n") in off.groups
    loop.round(again := moment_of(world, {}))
    assert not again.groups


def test_a_machine_that_cannot_share_out_its_caches_is_told(tmp_path: Path) -> None:
    loop, moment = ClassResctrl(AgentSettings(), ["RdtResctrl"]), moment_of(LoopWorld(tmp_path), BE_THIRD)
    loop.round(moment)
    assert not moment.groups and "cannot share out its caches" in next(iter(moment.unsupported))
