"""Oom scores, terway's files, the plan of traffic control, and programs of the host."""

import json

import pytest

from nri.policies.koordinator import names
from nri.policies.koordinator.contexts import ContainerContext, HostApplicationContext, PodContext
from nri.policies.koordinator.hooks import host_application, oom_score_adj, tc, terway_qos
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.rules.network import Bandwidths, TcRule
from nri.policies.koordinator.values import Changes, Decision, HookError


def container(score: str = "", scores: str = "", **more: bool) -> ContainerContext:
    given = {names.ANNOTATION_OOM_SCORE: score, names.ANNOTATION_OOM_SCORES: scores}
    annotations = {key: value for key, value in given.items() if value}
    return ContainerContext(PodContext(annotations=annotations), name="c1", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "value"),
    [
        (container("-500"), -500),
        (container("-500", '{"c1":100}'), 100),
        (container("-500", '{"c2":100}'), -500),
        (container("", '{"c2":100}'), None),
        (container(), None),
        (container("-1000"), -1000),
        (container("1000"), 1000),
        (container("5", sandbox=True), None),
    ],
)
def test_a_containers_score_goes_before_its_pods(context: ContainerContext, value: int | None) -> None:
    assert oom_score_adj.container(context).changes.oom_score_adj == value


@pytest.mark.parametrize(
    "context",
    [
        container("x"),
        container("1.5"),
        container("1001"),
        container("-1001"),
        container("5", "[]"),
        container("9" * 30),
    ],
)
def test_a_score_that_is_none_is_an_error(context: ContainerContext) -> None:
    with pytest.raises(HookError):
        oom_score_adj.container(context)


def test_only_processes_with_another_score_are_written() -> None:
    assert oom_score_adj.needed({1: 0, 2: -500, 3: None}, -500) == ((1,), 1)


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
    assert len(errors) == 1
    assert str(errors[0]).startswith('TerwayQoS: annotation koordinator.sh/networkQOS: "not-json" is not JSON')


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


def test_traffic_is_shared_forty_thirty_thirty_unless_nodeslo_says_otherwise() -> None:
    rule = TcRule(True, Bandwidths(hw_tx_bps_max=1000, l2_tx_bps_min=50, l2_tx_bps_max=200))
    assert tc.classes(rule) == [(2, 400, 1000, 1), (3, 300, 1000, 2), (4, 50, 200, 3)]
    assert tc.classes(TcRule(False, rule.bandwidths)) == []
    assert tc.classes(TcRule(True)) == []


def test_class_ids_are_decimal_digits_read_as_hexadecimal() -> None:
    assert tc.class_id(2) == 0x10002
    assert tc.class_name(1, 2) == "1:2"
    assert tc.hex_address("10.211.248.149") == "0ad3f895"
    assert [
        tc.minor_of(qos, kube) for qos, kube in (("LS", ""), ("BE", ""), ("", "BestEffort"), ("", "Burstable"))
    ] == [
        3,
        4,
        4,
        3,
    ]
    for wrong in ("", "1.2.3", "1.2.3.256", "a.b.c.d", "::1"):
        with pytest.raises(ValueError, match="no IPv4"):
            tc.hex_address(wrong)


def test_a_program_that_cannot_be_decided_stops_no_other() -> None:
    def hook(context: HostApplicationContext) -> Decision:
        if context.name == "bad":
            raise HookError("x", "bad")
        return Decision(Changes(bvt=2), "why")

    writes, errors = host_application.decide([{"name": "bad", "qos": "LS"}, {"name": "good", "qos": "LS"}], [hook])
    assert [(write.folder, write.knob, write.value) for write in writes] == [
        ("host-latency-sensitive/good", "cpu.bvt", "2")
    ]
    assert len(errors) == 1
