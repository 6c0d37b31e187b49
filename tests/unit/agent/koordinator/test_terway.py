"""The files of the terway daemon."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from nri.agent.koordinator import bandwidths, names, terway
from nri.agent.koordinator import names as n
from nri.agent.koordinator.bandwidths import Bandwidths
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import HookError, Pod
from nri.host import Outcome, Root
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
    return sorted(entry.name for entry in (world.folder / "var/lib/terway/qos").iterdir())


def test_files_are_written_kept_and_removed_as_nodeslo_requires(tmp_path: Path) -> None:
    world = World(tmp_path, NODE)
    limited = pod(
        "a",
        n.LS,
        annotations={bandwidths.ANNOTATION_NETWORK_QOS: json.dumps({"ingressLimit": "0", "egressLimit": "80M"})},
    )
    bad = pod("b", n.LS, annotations={bandwidths.ANNOTATION_NETWORK_QOS: json.dumps({"egressLimit": "much"})})
    world.source.replace([limited, bad])
    world.store.put("NodeSLO", slo("terway-qos"), "test")
    world.round("NodeSLO")
    assert files(world) == ["global_bps_config", "pod.json"]
    account = world.history.account("node/network")
    assert account is not None
    assert {row["target"] for row in account["writes"]} == {f"var/lib/terway/qos/{name}" for name in files(world)}
    assert "hw_tx_bps_max 100000000\n" in world.root.read("/var/lib/terway/qos/global_bps_config")
    document = json.loads(world.root.read("/var/lib/terway/qos/pod.json"))
    assert list(document) == ["a"]
    assert document["a"]["qosConfig"] == {"ingressBandwidth": 0, "egressBandwidth": 10_000_000}
    assert world.standalone.last_network.errors == 1
    assert world.standalone.last_network.first_error.startswith("ns/b: TerwayQoS: annotation koordinator.sh/networkQOS")
    (error,) = (world.history.account("b") or {})["errors"]
    assert (error["hook"], error["reason"][:38]) == ("TerwayQoS", "annotation koordinator.sh/networkQOS: ")
    assert world.history.account("a") is None
    (world.folder / "var/lib/terway/qos/pod.json").write_text("somebody else's")
    world.round()
    assert json.loads(world.root.read("/var/lib/terway/qos/pod.json")) == document
    broken = pod("a", n.LS, annotations={bandwidths.ANNOTATION_NETWORK_QOS: "{"})
    world.source.replace([broken, bad])
    world.round()
    assert json.loads(world.root.read("/var/lib/terway/qos/pod.json")) == document, "what it had stays"
    world.store.put("NodeSLO", slo("tc"), "test")
    world.round("NodeSLO")
    assert files(world) == []


def test_files_are_unchanged_before_a_nodeslo_and_while_the_hook_is_disabled(tmp_path: Path) -> None:
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


def test_an_invalid_pod_is_left_out_of_terways_file_and_others_are_kept() -> None:
    limits = {bandwidths.ANNOTATION_NETWORK_QOS: '{"ingressLimit":"80M","egressLimit":"8"}'}
    good = Pod("ns", "good", "1", {names.LABEL_QOS: "LS"}, limits, "/kubepods/pod1")
    bad = Pod("ns", "bad", "2", {}, {bandwidths.ANNOTATION_NETWORK_QOS: "not-json"})
    plain = Pod("ns", "plain", "3")
    text, errors = terway.pods_text([(good, "Burstable"), (bad, "BestEffort"), (plain, "BestEffort")])
    document = json.loads(text)
    assert set(document) == {"1", "3"}
    assert document["1"] == {
        "podName": "good",
        "podNamespace": "ns",
        "podUID": "1",
        "prio": 1,
        "cgroupDir": "/sys/fs/cgroup/net_cls/kubepods/pod1",
        "qosConfig": {"ingressBandwidth": 10_000_000, "egressBandwidth": 1},
    }
    assert document["3"]["prio"] == 2
    assert list(errors) == ["2"]
    assert str(errors["2"]).startswith('TerwayQoS: annotation koordinator.sh/networkQOS: "not-json" is not JSON')


def test_a_pod_can_limit_one_direction_only() -> None:
    """`absent_bandwidth_is_none`."""
    source = {bandwidths.ANNOTATION_NETWORK_QOS: '{"egressLimit":"80M"}'}
    assert terway.pod_limits(source) == terway.PodLimits(0, 10_000_000)
    with pytest.raises(HookError, match="networkQOS: ingressLimit is missing"):
        terway.pod_limits(source, Quirks.REFERENCE)


def test_a_negative_bandwidth_of_a_pod_is_refused() -> None:
    """`negative_bandwidth_refused`."""
    source = {bandwidths.ANNOTATION_NETWORK_QOS: '{"ingressLimit":"-8","egressLimit":"0"}'}
    with pytest.raises(HookError, match="-8"):
        terway.pod_limits(source)
    assert terway.pod_limits(source, Quirks.REFERENCE).ingress == (2**64 - 8) // 8


def test_the_nodes_file_has_ten_lines() -> None:
    lines = terway.node_text(Bandwidths(hw_tx_bps_max=1, l1_rx_bps_min=2)).splitlines()
    assert lines[:2] == ["hw_tx_bps_max 1", "hw_rx_bps_max 0"]
    assert lines[4] == "offline_l1_rx_bps_min 2"
    assert len(lines) == 10


def test_a_file_is_replaced_atomically_and_only_if_it_differs(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    root = Root(tmp_path)
    assert terway.replace_file(root, "/d", "f", "one").outcome is Outcome.APPLIED
    first = (tmp_path / "d" / "f").stat().st_ino
    assert terway.replace_file(root, "/d", "f", "one").outcome is Outcome.UNCHANGED
    assert (tmp_path / "d" / "f").stat().st_ino == first
    with (tmp_path / "d" / "f").open() as reader:
        assert terway.replace_file(root, "/d", "f", "two").outcome is Outcome.APPLIED
        assert reader.read() == "one"
    assert (tmp_path / "d" / "f").read_text() == "two"
    assert [entry.name for entry in (tmp_path / "d").iterdir()] == ["f"]


def test_a_missing_folder_is_reported_and_not_created(tmp_path: Path) -> None:
    result = terway.replace_file(Root(tmp_path), "/d", "f", "one")
    assert result.outcome is Outcome.GONE
    assert terway.remove_file(Root(tmp_path), "/d", "f").outcome is Outcome.UNCHANGED
    assert not list(tmp_path.iterdir())


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d" / "f").symlink_to(secret)
    (root / "d" / ".f.nri").symlink_to(secret)
    assert terway.replace_file(Root(root), "/d", "f", "one").outcome is Outcome.APPLIED
    assert secret.read_text() == "mine"
    assert (root / "d" / "f").read_text() == "one"
    assert not (root / "d" / "f").is_symlink()


def test_removing_a_file_twice_is_unchanged_the_second_time(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    outcomes = [terway.remove_file(Root(tmp_path), "/", "f").outcome for _ in range(2)]
    assert outcomes == [Outcome.APPLIED, Outcome.UNCHANGED]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    result = terway.replace_file(Root(tmp_path), "/", "f", "one")
    assert result.outcome is Outcome.REFUSED
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        result = terway.replace_file(Root(tmp_path), "/", "f", "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "File too large")
    assert (tmp_path / "f").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
