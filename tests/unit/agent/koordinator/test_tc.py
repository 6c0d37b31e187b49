"""The plan for traffic control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import bandwidths, tc
from nri.agent.koordinator import names as n
from nri.agent.koordinator.bandwidths import Bandwidths
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.tc import Plan, TcRule, Traffic, TrafficClass, minors, own_minors
from nri.agent.model import HookError
from tests.support.standalone_world import World
from tests.unit.agent.transports.standalone.test_pods import pod

CLASSES = (TrafficClass(2, 400, 1000, 1), TrafficClass(3, 300, 1000, 2), TrafficClass(4, 300, 1000, 3))
PODS = (
    Traffic("a", 3, 2, ("10.0.0.1",)),
    Traffic("b", 4, 3, ("10.0.0.2", "10.0.0.3"), limit=80, own_minor=0x10),
    Traffic("host", 3, 2),
)
NODE = Node(gates=frozenset({"TCNetworkQoS"}))


def test_traffic_is_shared_40_30_30_by_default() -> None:
    rule = TcRule(True, Bandwidths(hw_tx_bps_max=1000, l2_tx_bps_min=50, l2_tx_bps_max=200))
    assert tc.classes(rule) == [(2, 400, 1000, 1), (3, 300, 1000, 2), (4, 50, 200, 3)]
    assert tc.classes(TcRule(False, rule.bandwidths)) == []
    assert tc.classes(TcRule(True)) == []


def test_every_qos_class_has_a_traffic_class() -> None:
    assert tc.class_name(1, 2) == "1:2"
    assert [tc.minor_of(qos) for qos in ("SYSTEM", "LSE", "LSR", "LS", "BE", "")] == [2, 3, 3, 3, 4, 0]


def test_limits_of_a_pod_are_in_bits_and_one_can_be_missing() -> None:
    source = {bandwidths.ANNOTATION_NETWORK_QOS: '{"egressLimit": "10M"}'}
    assert tc.own_limits(source) == (0, 10_000_000)
    assert tc.own_limits({}) == tc.own_limits({bandwidths.ANNOTATION_NETWORK_QOS: ""}) == (0, 0)
    for bad in ("{", '{"egressLimit": "much"}', '{"egressLimit": 10}', '{"ingressLimit": "-1"}', "[]"):
        with pytest.raises(HookError, match="networkQOS"):
            tc.own_limits({bandwidths.ANNOTATION_NETWORK_QOS: bad})


def plan(with_sets: bool) -> Plan:
    return Plan("eth0", 1000, CLASSES, PODS, with_sets)


def test_classes_are_ordered_from_the_root_and_a_limited_pod_has_its_own() -> None:
    lines = {minor: " ".join(words) for minor, words in plan(True).class_lines()}
    assert list(lines) == [1, 2, 3, 4, 0x10]
    assert lines[1] == "class replace dev eth0 parent 1: classid 1:1 htb rate 1000bit ceil 1000bit prio 0"
    assert lines[3] == "class replace dev eth0 parent 1:1 classid 1:3 htb rate 300bit ceil 1000bit prio 2"
    assert lines[0x10] == "class replace dev eth0 parent 1:1 classid 1:10 htb rate 80bit ceil 80bit prio 3"


def test_a_limit_above_the_nodes_bandwidth_is_reduced_to_it() -> None:
    big = plan(True)._replace(pods=(Traffic("a", 3, 2, limit=5000, own_minor=0x11),))
    assert ("rate 1000bit ceil 1000bit") in " ".join(dict(big.class_lines())[0x11])


def test_addresses_are_in_sets_or_in_separate_rules() -> None:
    assert "add nri_netqos_ls_new 10.0.0.1 -exist\nswap nri_netqos_ls nri_netqos_ls_new" in plan(True).sets()
    assert "10.0.0.2" not in plan(True).sets()
    with_sets, without = plan(True).chain().splitlines(), plan(False).chain().splitlines()
    assert "-A NRI-NETQOS -m set --match-set nri_netqos_be src -j CLASSIFY --set-class 1:4" in with_sets
    own_part = "-A NRI-NETQOS -s 10.0.0.3/32 -j CLASSIFY --set-class 1:10"
    assert own_part in with_sets and own_part in without
    assert "-A NRI-NETQOS -s 10.0.0.1/32 -j CLASSIFY --set-class 1:3" in without
    assert without[:2] == ["*mangle", ":NRI-NETQOS - [0:0]"] and without[-1] == "COMMIT"


def test_classes_are_parsed_from_the_output_of_tc() -> None:
    text = "class htb 1:3 parent 1:1 prio 2 rate 35Mbit\nclass htb 1:30 root\nclass fq 5:3 root\n\nclass htb\n"
    assert minors(text) == {0x3, 0x30}


def test_pods_have_separate_classes_that_survive_a_restart() -> None:
    uids = [f"uid-{number}" for number in range(3000)]
    source = own_minors(uids)
    assert len(set(source.values())) == 3000
    assert min(source.values()) >= 0x10 and max(source.values()) < 0xFFFF
    assert own_minors(reversed(uids)) == source
    assert own_minors(uids[:1])[uids[0]] == source[uids[0]]


def slo(policy: str = "tc", bandwidth: str = "1G") -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceQOSStrategy": {"policies": {"netQOSPolicy": policy}}}
    if bandwidth:
        spec["systemStrategy"] = {"totalNetworkBandwidth": bandwidth}
    return {"spec": spec}


def limited(uid: str, text: str) -> dict[str, Any]:
    return pod(uid, n.LS, annotations={bandwidths.ANNOTATION_NETWORK_QOS: text})


def at(manifest: dict[str, Any], *addresses: str, host: bool = False) -> dict[str, Any]:
    manifest["status"]["podIPs"] = [{"ip": address} for address in addresses]
    manifest["spec"]["hostNetwork"] = host
    return manifest


def chain(world: World) -> str:
    return [text for argv, text in world.programs.calls if argv[0] == "iptables-restore"][-1]


def test_a_pods_limit_is_in_bits_and_has_a_separate_class(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    one = at(limited("a", json.dumps({"egressLimit": "10M", "ingressLimit": "5M"})), "10.1.0.1", "fd00::1")
    folder = world.pod(one)
    world.source.replace([one])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    own_part = [argv for argv, _ in world.programs.calls if argv[:3] == ["tc", "class", "replace"]][-1]
    assert "10000000bit" in own_part
    minor = int(own_part[own_part.index("classid") + 1].partition(":")[2], 16)
    assert int(world.text(folder, "net_cls.classid")) == 0x10000 | minor
    assert f"-s 10.1.0.1/32 -j CLASSIFY --set-class 1:{minor:x}" in chain(world)
    assert "fd00" not in chain(world)
    account = world.history.account("a")
    assert account is not None
    (ingress,) = [row for row in account["writes"] if row["name"] == "tc.ingress"]
    assert (ingress["outcome"], ingress["wanted"]) == ("unsupported", "5000000")
    world.source.replace([at(limited("a", "{"), "10.1.0.1")])
    world.round()
    assert int(world.text(folder, "net_cls.classid")) == 0x10000 | minor, "what it had stays"
    world.source.replace([at(pod("a", n.LS), "10.1.0.1")])
    world.round()
    assert int(world.text(folder, "net_cls.classid")) == 0x10003


def test_the_nodes_address_is_not_used_for_a_pod(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    one = at(pod("a", n.BE, paths.BEST_EFFORT), "192.0.2.1", host=True)
    folder = world.pod(one)
    world.source.replace([one, at(pod("b", n.LS), "10.1.0.2", "not-an-address")])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert "192.0.2.1" not in str(world.programs.calls)
    assert "10.1.0.2" in str(world.programs.calls) and "not-an-address" not in str(world.programs.calls)
    assert int(world.text(folder, "net_cls.classid")) == 0x10004


def test_an_invalid_annotation_limits_nothing_and_other_pods_keep_their_classes(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad, good = limited("bad", '{"egressLimit": "$(reboot)"}'), pod("good", n.LS)
    folders = [world.pod(entry) for entry in (bad, good)]
    world.source.replace([bad, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert [int(world.text(folder, "net_cls.classid")) for folder in folders] == [0x10003, 0x10003]
    assert world.standalone.last_network.errors == 1
    (error,) = (world.history.account("bad") or {})["errors"]
    assert (error["hook"], error["reason"][:38]) == ("TCNetworkQoS", "annotation koordinator.sh/networkQOS: ")
    assert (world.history.account("good") or {})["errors"] == []
    world.source.replace([limited("bad", "{}"), good])
    world.round()
    assert (world.history.account("bad") or {})["errors"] == []
    assert "reboot" not in str(world.programs.calls)


def test_a_pod_without_a_class_is_unchanged_and_reported_if_it_requests_a_limit(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    asks = {bandwidths.ANNOTATION_NETWORK_QOS: '{"egressLimit": "10M"}'}
    proxy = at(pod("proxy", "", paths.BEST_EFFORT), "10.1.0.1")
    asking = at(pod("asking", "", annotations=asks), "10.1.0.2")
    folders = [world.pod(entry) for entry in (proxy, asking)]
    world.source.replace([proxy, asking])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert [world.text(folder, "net_cls.classid") for folder in folders] == ["0", "0"]
    assert "10.1.0." not in chain(world)
    (error,) = (world.history.account("asking") or {})["errors"]
    assert error["reason"] == (
        "annotation koordinator.sh/networkQOS requires a class (label koordinator.sh/qosClass), which the pod lacks"
    )
    world.source.replace([at(pod("asking", "LS", annotations=asks), "10.1.0.2")])
    world.round()
    assert (world.history.account("asking") or {})["errors"] == []


def test_without_the_nodes_bandwidth_nothing_is_created(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    world.source.replace([])
    world.store.put("NodeSLO", slo(bandwidth=""), "test")
    world.round("NodeSLO")
    assert not [argv for argv, _ in world.programs.calls if "replace" in argv or argv[0] == "iptables-restore"]


def test_another_policy_removes_everything_once(tmp_path: Path) -> None:
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


def test_a_pod_with_unreadable_resources_is_shaped_like_others(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad = pod("bad", n.LS, containers=[{"name": "c", "resources": {"limits": {"cpu": "many"}}}])
    folder = world.pod(bad)
    world.source.replace([bad])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folder, "net_cls.classid")) == 0x10003


def test_a_machine_without_a_default_route_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    (tmp_path / "proc/net/route").write_text("Iface\n")
    world.source.replace([])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    account = world.history.account("node/network")
    assert account is not None and account["writes"][0]["reason"] == "the machine has no default route"


def test_an_invalid_pod_is_reported_and_other_pods_keep_their_classes(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    bad, good = pod("bad", n.LS), pod("good", n.LS)
    bad["status"]["podIPs"] = ["10.1.0.1"]
    folders = [world.pod(entry) for entry in (bad, good)]
    world.source.replace([bad, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folders[1], "net_cls.classid")) == 0x10003
    assert world.standalone.last_network.errors == 1


def test_a_limit_of_thousands_of_digits_does_not_affect_other_pods(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    huge = at(limited("a", json.dumps({"ingressLimit": "9" * 4300 + "E", "egressLimit": "9" * 4300 + "E"})), "10.1.0.1")
    good = at(limited("b", json.dumps({"egressLimit": "10M"})), "10.1.0.2")
    folder = world.pod(good)
    world.source.replace([huge, good])
    world.store.put("NodeSLO", slo(), "test")
    world.round("NodeSLO")
    assert int(world.text(folder, "net_cls.classid")) > 0x10000
    assert "-s 10.1.0.2/32" in chain(world)
