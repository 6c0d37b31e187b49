"""Bandwidths for tc and for terway."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator import bandwidths as network
from nri.agent.koordinator import tc, terway
from nri.agent.koordinator.bandwidths import Bandwidths
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.tc import TcRule


def traffic(total: str | None, policy: str | None = None, **network_qos: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceQOSStrategy": {"lsClass": {"networkQOS": {"enable": True, **network_qos}}}}
    if policy is not None:
        spec["resourceQOSStrategy"]["policies"] = {"netQOSPolicy": policy}
    if total is not None:
        spec["systemStrategy"] = {"totalNetworkBandwidth": total}
    return spec


def test_a_bandwidth_is_in_bits_for_tc_and_in_bytes_for_terway() -> None:
    spec = traffic("100M", ingressRequest="10M", egressLimit=50)
    assert tc.bandwidths_of(spec).l1_rx_bps_min == 10_000_000
    assert terway.rule_of(spec).l1_rx_bps_min == 1_250_000
    assert tc.bandwidths_of(spec).l1_tx_bps_max == 50_000_000
    assert terway.rule_of(spec).hw_tx_bps_max == 12_500_000


def test_terway_computes_a_percentage_in_bytes_and_refuses_more_than_the_node() -> None:
    bandwidths = terway.rule_of(traffic("100M", ingressRequest=50, egressLimit=100))
    assert (bandwidths.l1_rx_bps_min, bandwidths.l1_tx_bps_max) == (6_250_000, bandwidths.hw_tx_bps_max)
    assert terway.rule_of(traffic("100M", egressLimit="100M")).l1_tx_bps_max == bandwidths.hw_tx_bps_max
    with pytest.raises(ValueError, match="more than the node's"):
        terway.rule_of(traffic("100M", egressLimit="200M"))


def test_in_the_original_shares_are_of_bits_bandwidth_shares_in_bytes() -> None:
    bandwidths = terway.rule_of(traffic("100M", ingressRequest=50, egressLimit="200M"), Quirks.REFERENCE)
    assert (bandwidths.l1_rx_bps_min, bandwidths.l1_tx_bps_max) == (50_000_000, 25_000_000)
    assert bandwidths.hw_tx_bps_max == 12_500_000


@given(st.integers(0, 100), st.integers(0, 10**12))
def test_a_percentage_is_of_the_total(percent: int, total: int) -> None:
    assert tc.bits_per_s(percent, total) == total * percent // 100
    assert terway.bytes_per_s(percent, total) == total * percent // 100


@pytest.mark.parametrize("value", [None, -1, 101, "x", "-5"])
def test_tc_treats_an_invalid_bandwidth_as_none(value: int | str | None) -> None:
    assert tc.bits_per_s(value, 1000) == 0


@pytest.mark.parametrize("value", ["x", "", "808", "-8", -5])
def test_terway_refuses_an_invalid_bandwidth(value: int | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        terway.bytes_per_s(value, 100)


def test_policies_choose_between_tc_and_terway() -> None:
    current = TcRule(True, Bandwidths(hw_tx_bps_max=5))
    assert tc.rule_of(traffic("1k"), current) == TcRule(True, tc.bandwidths_of(traffic("1k")))
    assert tc.rule_of(traffic(None), current) is current
    assert tc.rule_of(traffic("1k", "terway-qos"), current) == TcRule(False, current.bandwidths)
    assert terway.is_chosen(traffic("1k", "terway-qos"))
    assert not terway.is_chosen(traffic("1k"))


@pytest.mark.parametrize("read", [terway.rule_of, tc.bandwidths_of])
def test_an_invalid_node_bandwidth_is_an_error_with_its_key(read: Callable[..., Bandwidths]) -> None:
    with pytest.raises(ValueError, match=r"^spec\.systemStrategy\.totalNetworkBandwidth: -1 is below 0$"):
        read(traffic("-1"))


def test_an_invalid_share_is_an_error_with_its_key() -> None:
    with pytest.raises(ValueError, match=r'^spec\.resourceQOSStrategy\.lsClass\.networkQOS\.egressLimit: "x" is not'):
        terway.rule_of(traffic("100M", egressLimit="x"))


def test_terway_has_no_bandwidths_without_a_node_bandwidth() -> None:
    assert terway.rule_of(traffic(None, ingressRequest="10M")) == Bandwidths()


def _of_ten_million(value: int | str | None) -> int:
    return terway.bytes_per_s(value, 10_000_000)


@pytest.mark.parametrize("switch", [{}, {"enable": False}])
def test_a_disabled_class_has_no_shares(switch: dict[str, bool]) -> None:
    actual = network.class_shares({**switch, "ingressLimit": "8M", "egressRequest": 50}, _of_ten_million)
    assert actual == {"rx_bps_min": 0, "rx_bps_max": 0, "tx_bps_min": 0, "tx_bps_max": 0}


def test_a_class_has_requests_and_limits_of_both_directions_in_bytes() -> None:
    qos = {"enable": True, "ingressRequest": "8M", "ingressLimit": "16M", "egressRequest": 30, "egressLimit": 40}
    actual = network.class_shares(qos, _of_ten_million)
    assert actual == {
        "rx_bps_min": 1_000_000,
        "rx_bps_max": 2_000_000,
        "tx_bps_min": 3_000_000,
        "tx_bps_max": 4_000_000,
    }


def test_a_disabled_class_keeps_the_nodes_bandwidth() -> None:
    spec = traffic("100M", enable=False, ingressRequest="10M")
    assert tc.bandwidths_of(spec) == Bandwidths(hw_tx_bps_max=100_000_000, hw_rx_bps_max=100_000_000)
