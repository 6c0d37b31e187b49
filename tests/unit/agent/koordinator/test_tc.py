"""The plan of traffic control."""

import pytest

from nri.agent.koordinator import names, tc
from nri.agent.koordinator.network_rules import Bandwidths, TcRule
from nri.policies.changes import HookError


def test_traffic_is_shared_forty_thirty_thirty_unless_nodeslo_says_otherwise() -> None:
    rule = TcRule(True, Bandwidths(hw_tx_bps_max=1000, l2_tx_bps_min=50, l2_tx_bps_max=200))
    assert tc.classes(rule) == [(2, 400, 1000, 1), (3, 300, 1000, 2), (4, 50, 200, 3)]
    assert tc.classes(TcRule(False, rule.bandwidths)) == []
    assert tc.classes(TcRule(True)) == []


def test_each_class_of_service_has_a_class_of_traffic() -> None:
    assert tc.class_name(1, 2) == "1:2"
    assert [tc.minor_of(qos) for qos in ("SYSTEM", "LSE", "LSR", "LS", "BE", "")] == [2, 3, 3, 3, 4, 0]


def test_a_pods_own_limits_are_bits_and_one_of_them_may_be_missing() -> None:
    given = {names.ANNOTATION_NETWORK_QOS: '{"egressLimit": "10M"}'}
    assert tc.own_limits(given) == (0, 10_000_000)
    assert tc.own_limits({}) == tc.own_limits({names.ANNOTATION_NETWORK_QOS: ""}) == (0, 0)
    for bad in ("{", '{"egressLimit": "much"}', '{"egressLimit": 10}', '{"ingressLimit": "-1"}', "[]"):
        with pytest.raises(HookError, match="networkQOS"):
            tc.own_limits({names.ANNOTATION_NETWORK_QOS: bad})
