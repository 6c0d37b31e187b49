"""Resctrl groups of removed pods."""

from __future__ import annotations

import json
from pathlib import Path

from nri.agent.koordinator import resctrl
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.resctrl import INTEL
from tests.support.standalone_world import World
from tests.unit.agent.transports.standalone.test_pods import pod

ASKS = {resctrl.ANNOTATION_RESCTRL: json.dumps({"mb": {"schemata": {"percent": 20}}})}
NODE = Node(cache=Cache((0,), 0xFFF, INTEL), gates=frozenset({"Resctrl"}))


def groups(world: World) -> list[str]:
    return world.root.folders("/sys/fs/resctrl")


def test_the_group_of_the_last_pod_is_removed_and_foreign_groups_are_kept(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.root.make_folder("/sys/fs/resctrl/somebody-elses")
    one, two = pod("a", annotations=dict(ASKS)), pod("b", annotations=dict(ASKS))
    for entry in (one, two):
        world.pod(entry)
    world.source.replace([one, two])
    world.round()
    assert groups(world) == ["koordlet-a", "koordlet-b", "somebody-elses"]
    world.source.replace([one])
    world.round("pods")
    assert groups(world) == ["koordlet-a", "somebody-elses"]
    world.source.replace([pod("a")])
    world.round("pods")
    assert groups(world) == ["somebody-elses"]


def test_no_group_is_removed_before_all_pods_are_known(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.root.make_folder("/sys/fs/resctrl/koordlet-a")
    world.round()
    assert groups(world) == ["koordlet-a"]


def test_new_threads_of_a_pod_are_added_to_its_group(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    asking = pod("a", annotations=dict(ASKS))
    folder = world.pod(asking)
    world.source.replace([asking])
    world.round()
    world.cgroup(f"{folder}/ac", [100, 555])
    world.round()
    assert (world.root.read("/sys/fs/resctrl/koordlet-a/tasks")).split() == ["100", "555"]


def test_without_resctrl_no_groups_are_searched(tmp_path: Path) -> None:
    for number, node in enumerate((Node(gates=frozenset({"Resctrl"})), Node(cache=NODE.cache))):
        world = World(tmp_path / str(number), node)
        world.root.make_folder("/sys/fs/resctrl/koordlet-a")
        world.source.replace([])
        world.round()
        assert groups(world) == ["koordlet-a"]


def test_without_groups_nothing_is_removed(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.source.replace([])
    world.round()
    assert world.standalone.last.items == 3, "the folders of the kube-QoS classes"
