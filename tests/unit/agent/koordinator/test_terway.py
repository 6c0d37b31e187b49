"""The files of the terway daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from tests.support.standalone_world import World
from tests.unit.agent.transports.standalone.test_pods import pod

NODE = Node(gates=frozenset({"TerwayQoS"}))


def slo(policy: str) -> dict[str, Any]:
    return {
        "spec": {
            "resourceQOSStrategy": {"policies": {"netQOSPolicy": policy}},
            "systemStrategy": {"totalNetworkBandwidth": "800M"},
        }
    }


def files(world: World) -> list[str]:
    return sorted(each.name for each in (world.folder / "var/lib/terway/qos").iterdir())


def test_files_are_written_kept_and_removed_as_nodeslo_says(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    limited = pod(
        "a", n.LS, annotations={n.ANNOTATION_NETWORK_QOS: json.dumps({"ingressLimit": "0", "egressLimit": "80M"})}
    )
    bad = pod("b", n.LS, annotations={n.ANNOTATION_NETWORK_QOS: json.dumps({"egressLimit": "much"})})
    world.source.replace([limited, bad])
    world.store.put("NodeSLO", slo("terway-qos"), "test")
    world.round("NodeSLO")
    assert files(world) == ["global_bps_config", "pod.json"]
    told = world.history.of("node/network")
    assert told is not None
    assert {row["target"] for row in told["writes"]} == {f"var/lib/terway/qos/{name}" for name in files(world)}
    assert "hw_tx_bps_max 100000000\n" in world.root.read("/var/lib/terway/qos/global_bps_config")
    found = json.loads(world.root.read("/var/lib/terway/qos/pod.json"))
    assert list(found) == ["a"]
    assert found["a"]["qosConfig"] == {"ingressBandwidth": 0, "egressBandwidth": 10_000_000}
    assert world.standalone.last_network.errors == 1
    assert world.standalone.last_network.first_error.startswith("ns/b: TerwayQoS: annotation koordinator.sh/networkQOS")
    (error,) = (world.history.of("b") or {})["errors"]
    assert (error["hook"], error["reason"][:38]) == ("TerwayQoS", "annotation koordinator.sh/networkQOS: ")
    assert world.history.of("a") is None
    (world.folder / "var/lib/terway/qos/pod.json").write_text("somebody else's")
    world.round()
    assert json.loads(world.root.read("/var/lib/terway/qos/pod.json")) == found
    broken = pod("a", n.LS, annotations={n.ANNOTATION_NETWORK_QOS: "{"})
    world.source.replace([broken, bad])
    world.round()
    assert json.loads(world.root.read("/var/lib/terway/qos/pod.json")) == found, "what it had stays"
    world.store.put("NodeSLO", slo("tc"), "test")
    world.round("NodeSLO")
    assert files(world) == []


def test_before_a_nodeslo_is_read_and_while_the_hook_is_off_files_are_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    (world.folder / "var/lib/terway/qos/pod.json").write_text("{}")
    world.source.replace([])
    world.round()
    assert files(world) == ["pod.json"]
    off = World(tmp_path / "off", Node())
    (off.folder / "var/lib/terway/qos/pod.json").write_text("{}")
    off.store.put("NodeSLO", slo("tc"), "test")
    off.source.replace([])
    off.round()
    assert files(off) == ["pod.json"]
