"""The network in standalone mode: traffic classes or terway's files, as NodeSLO selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent.koordinator.node import Node
from tests.support.standalone_world import World


@pytest.mark.parametrize(("policy", "classes"), [("tc", True), ("terway-qos", False)])
def test_nodeslo_selects_tc_or_terway(tmp_path: Path, policy: str, classes: bool) -> None:
    world = World(tmp_path, Node(gates=frozenset({"TCNetworkQoS", "TerwayQoS"})))
    strategy = {"policies": {"netQOSPolicy": policy}, "lsClass": {"networkQOS": {"enable": True}}}
    spec = {"resourceQOSStrategy": strategy, "systemStrategy": {"totalNetworkBandwidth": "1G"}}
    world.source.replace([])
    world.store.put("NodeSLO", {"spec": spec}, "test")
    world.round()
    created = [argv[:3] for argv, _ in world.programs.calls if argv[:3] == ["tc", "qdisc", "replace"]]
    assert bool(created) is classes
    assert bool(list((tmp_path / "var/lib/terway/qos").iterdir())) is not classes
