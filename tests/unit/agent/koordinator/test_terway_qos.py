"""Terway's two files."""

import json

import pytest

from nri.agent.koordinator import names, terway_qos
from nri.agent.koordinator.network_rules import Bandwidths
from nri.agent.koordinator.quirks import Quirks
from nri.policies.changes import HookError
from nri.policies.contexts import PodContext


def test_one_bad_pod_is_left_out_of_terways_file_and_the_others_stay() -> None:
    limits = {names.ANNOTATION_NETWORK_QOS: '{"ingressLimit":"80M","egressLimit":"8"}'}
    good = PodContext("ns", "good", "1", {names.LABEL_QOS: "LS"}, limits, "/kubepods/pod1")
    bad = PodContext("ns", "bad", "2", {}, {names.ANNOTATION_NETWORK_QOS: "not-json"})
    plain = PodContext("ns", "plain", "3")
    text, errors = terway_qos.pods_text([(good, "Burstable"), (bad, "BestEffort"), (plain, "BestEffort")])
    found = json.loads(text)
    assert set(found) == {"1", "3"}
    assert found["1"] == {
        "podName": "good",
        "podNamespace": "ns",
        "podUID": "1",
        "prio": 1,
        "cgroupDir": "/sys/fs/cgroup/net_cls/kubepods/pod1",
        "qosConfig": {"ingressBandwidth": 10_000_000, "egressBandwidth": 1},
    }
    assert found["3"]["prio"] == 2
    assert list(errors) == ["2"]
    assert str(errors["2"]).startswith('TerwayQoS: annotation koordinator.sh/networkQOS: "not-json" is not JSON')


def test_a_pod_may_limit_one_way_alone() -> None:
    """`absent_bandwidth_is_none`."""
    given = {names.ANNOTATION_NETWORK_QOS: '{"egressLimit":"80M"}'}
    assert terway_qos.pod_limits(given) == terway_qos.PodLimits(0, 10_000_000)
    with pytest.raises(HookError, match="networkQOS: ingressLimit: "):
        terway_qos.pod_limits(given, Quirks.REFERENCE)


def test_a_negative_bandwidth_of_a_pod_is_refused() -> None:
    """`negative_bandwidth_refused`."""
    given = {names.ANNOTATION_NETWORK_QOS: '{"ingressLimit":"-8","egressLimit":"0"}'}
    with pytest.raises(HookError, match="-8"):
        terway_qos.pod_limits(given)
    assert terway_qos.pod_limits(given, Quirks.REFERENCE).ingress == (2**64 - 8) // 8


def test_the_nodes_file_has_ten_lines() -> None:
    lines = terway_qos.node_text(Bandwidths(hw_tx_bps_max=1, l1_rx_bps_min=2)).splitlines()
    assert lines[:2] == ["hw_tx_bps_max 1", "hw_rx_bps_max 0"]
    assert lines[4] == "offline_l1_rx_bps_min 2"
    assert len(lines) == 10
