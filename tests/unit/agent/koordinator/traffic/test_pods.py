"""Pods as traffic, and their classes in `net_cls`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.policies import paths
from tests.support.standalone_world import World
from tests.unit.agent.transports.standalone.test_pods import pod

NODE = Node(gates=frozenset({"TCNetworkQoS"}))


def slo(policy: str = "tc", bandwidth: str = "1G") -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceQOSStrategy": {"policies": {"netQOSPolicy": policy}}}
    if bandwidth:
        spec["systemStrategy"] = {"totalNetworkBandwidth": bandwidth}
    return {"spec": spec}


def limited(uid: str, text: str) -> dict[str, Any]:
    return pod(uid, n.LS, annotations={n.ANNOTATION_NETWORK_QOS: text})


def at(manifest: dict[str, Any], *addresses: str, host: bool = False) -> dict[str, Any]:
    manifest["status"]["podIPs"] = [{"ip": each} for each in addresses]
    manifest["spec"]["hostNetwork"] = host
    return manifest


def chain(world: World) -> str:
    return [text for argv, text in world.programs.calls if argv[0] == "iptables-restore"][-1]


def test_a_pods_limit_is_in_bits_and_has_a_class_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    one = at(limited("a", json.dumps({"egressLimit": "10M", "ingressLimit": "5M"})), "10.1.0.1", "fd00::1")
    folder = world.pod(one)
    world.source.replace([one])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    own = [argv for argv, _ in world.programs.calls if argv[:3] == ["tc", "class", "replace"]][-1]
    assert "10000000bit" in own
    minor = int(own[own.index("classid") + 1].partition(":")[2], 16)
    assert int(world.text(folder, "net_cls.classid")) == 0x10000 | minor
    assert f"-s 10.1.0.1/32 -j CLASSIFY --set-class 1:{minor:x}" in chain(world)
    assert "fd00" not in chain(world)
    told = world.history.of("a")
    assert told is not None
    (ingress,) = [row for row in told["writes"] if row["name"] == "tc.ingress"]
    assert (ingress["outcome"], ingress["wanted"]) == ("unsupported", "5000000")
    world.source.replace([at(limited("a", "{"), "10.1.0.1")])
    world.round()
    assert int(world.text(folder, "net_cls.classid")) == 0x10000 | minor, "what it had stays"
    world.source.replace([at(pod("a", n.LS), "10.1.0.1")])
    world.round()
    assert int(world.text(folder, "net_cls.classid")) == 0x10003


def test_the_nodes_own_address_is_no_pods(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    one = at(pod("a", n.BE, paths.BEST_EFFORT), "192.0.2.1", host=True)
    folder = world.pod(one)
    world.source.replace([one, at(pod("b", n.LS), "10.1.0.2", "not-an-address")])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert "192.0.2.1" not in str(world.programs.calls)
    assert "10.1.0.2" in str(world.programs.calls) and "not-an-address" not in str(world.programs.calls)
    assert int(world.text(folder, "net_cls.classid")) == 0x10004


def test_a_bad_annotation_limits_nothing_and_the_other_pods_keep_their_classes(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad, good = limited("bad", '{"egressLimit": "$(reboot)"}'), pod("good", n.LS)
    folders = [world.pod(each) for each in (bad, good)]
    world.source.replace([bad, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert [int(world.text(folder, "net_cls.classid")) for folder in folders] == [0x10003, 0x10003]
    assert world.standalone.last_network.errors == 1
    (error,) = (world.history.of("bad") or {})["errors"]
    assert (error["hook"], error["reason"][:38]) == ("TCNetworkQoS", "annotation koordinator.sh/networkQOS: ")
    assert (world.history.of("good") or {})["errors"] == []
    world.source.replace([limited("bad", "{}"), good])
    world.round()
    assert (world.history.of("bad") or {})["errors"] == []
    assert "reboot" not in str(world.programs.calls)


def test_a_pod_without_a_class_is_left_alone_and_told_if_it_asks_for_a_limit(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    asks = {n.ANNOTATION_NETWORK_QOS: '{"egressLimit": "10M"}'}
    proxy = at(pod("proxy", "", paths.BEST_EFFORT), "10.1.0.1")
    asking = at(pod("asking", "", annotations=asks), "10.1.0.2")
    folders = [world.pod(each) for each in (proxy, asking)]
    world.source.replace([proxy, asking])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert [world.text(folder, "net_cls.classid") for folder in folders] == ["0", "0"]
    assert "10.1.0." not in chain(world)
    (error,) = (world.history.of("asking") or {})["errors"]
    assert error["reason"] == (
        "annotation koordinator.sh/networkQOS is for pods with a class (label koordinator.sh/qosClass): it has none"
    )
    world.source.replace([at(pod("asking", "LS", annotations=asks), "10.1.0.2")])
    world.round()
    assert (world.history.of("asking") or {})["errors"] == []


def test_without_the_nodes_bandwidth_nothing_is_made(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.source.replace([])
    world.store.put("NodeSLO", slo(bandwidth=""), "test")
    world.round("NodeSLO")
    assert not [argv for argv, _ in world.programs.calls if "replace" in argv or argv[0] == "iptables-restore"]


def test_another_policy_takes_all_of_it_away_once(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.source.replace([at(pod("a", n.LS), "10.1.0.1")])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    world.store.put("NodeSLO", slo("terway-qos"), "test")
    world.round("NodeSLO")
    assert ["tc", "qdisc", "del", "dev", "eth0", "root"] in [argv for argv, _ in world.programs.calls]
    world.programs.calls.clear()
    world.round()
    assert world.programs.calls == []


def test_a_pod_of_which_the_resources_cannot_be_read_is_shaped_as_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad = pod("bad", n.LS, containers=[{"name": "c", "resources": {"limits": {"cpu": "many"}}}])
    folder = world.pod(bad)
    world.source.replace([bad])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folder, "net_cls.classid")) == 0x10003


def test_a_machine_without_a_default_route_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    (tmp_path / "proc/net/route").write_text("Iface\n")
    world.source.replace([])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    told = world.history.of("node/network")
    assert told is not None and told["writes"][0]["reason"] == "the machine has no default route"


def test_a_pod_of_no_form_is_told_and_the_other_pods_keep_their_classes(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad, good = pod("bad", n.LS), pod("good", n.LS)
    bad["status"]["podIPs"] = ["10.1.0.1"]
    folders = [world.pod(each) for each in (bad, good)]
    world.source.replace([bad, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folders[1], "net_cls.classid")) == 0x10003
    assert world.standalone.last_network.errors == 1


def test_a_limit_of_thousands_of_digits_costs_no_other_pod_its_class(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    huge = at(limited("a", json.dumps({"ingressLimit": "9" * 4300 + "E", "egressLimit": "9" * 4300 + "E"})), "10.1.0.1")
    good = at(limited("b", json.dumps({"egressLimit": "10M"})), "10.1.0.2")
    folder = world.pod(good)
    world.source.replace([huge, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folder, "net_cls.classid")) > 0x10000
    assert "-s 10.1.0.2/32" in chain(world)
