"""Rules from NodeSLO, NodeResourceTopology and the node: values, defaults, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator import names
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.rules import host_applications, network, node, node_slo, node_topology
from nri.policies.koordinator.rules.kept import Kept
from nri.policies.koordinator.rules.network import Bandwidths, TcRule


def slo(policy: str | None = None, **classes: dict[str, Any]) -> dict[str, Any]:
    strategy: dict[str, Any] = {f"{name}Class": {"cpuQOS": cpu} for name, cpu in classes.items()}
    if policy is not None:
        strategy["policies"] = {"cpuPolicy": policy}
    return {"resourceQOSStrategy": strategy}


ON = {"enable": True, "groupIdentity": 2}
BATCH = {"enable": True, "groupIdentity": -1}
OFF = {"enable": False, "groupIdentity": 2}


@pytest.mark.parametrize("policy", [None, "", "groupIdentity"])
def test_group_identity_is_the_default_policy(policy: str | None) -> None:
    rule = node_slo.group_identity(slo(policy, lsr=ON, ls=ON, be=BATCH))
    assert rule.enabled
    assert rule.pods == {"LSE": 2, "LSR": 2, "LS": 2, "BE": -1}
    assert rule.folders == {"Guaranteed": 0, "Burstable": 2, "BestEffort": -1}
    assert rule.kube_pods == {"Guaranteed": 2, "Burstable": 2, "BestEffort": -1}


def test_another_policy_or_classes_that_are_off_are_zeros() -> None:
    for spec in (slo("coreSched", lsr=ON, ls=ON, be=BATCH), slo(lsr=OFF, ls=OFF, be=OFF), {}, None):
        rule = node_slo.group_identity(spec)
        assert not rule.enabled
        assert not any({**rule.pods, **rule.kube_pods, **rule.folders}.values())


def test_guaranteed_pods_follow_lsr_and_else_ls() -> None:
    low = {"enable": True, "groupIdentity": 1}
    assert node_slo.group_identity(slo(lsr=low, ls=ON)).kube_pods["Guaranteed"] == 1
    assert node_slo.group_identity(slo(lsr=OFF, ls=ON)).kube_pods["Guaranteed"] == 2


def test_a_class_that_is_not_mentioned_is_off_and_one_without_a_value_has_the_default() -> None:
    """`absent_classes_are_off`."""
    spec = slo(ls={"enable": True}, be={"enable": True})
    assert node_slo.group_identity(spec).pods == {"LSE": 0, "LSR": 0, "LS": 2, "BE": -1}
    assert node_slo.core_sched(slo("coreSched", be={"enable": True})).pods["LS"].enabled is False
    for parse in (node_slo.group_identity, node_slo.core_sched):
        with pytest.raises(ValueError, match="lsrClass"):
            parse(spec, Quirks.REFERENCE)


def test_core_scheduling_needs_its_policy() -> None:
    classes = {
        "lsr": {**ON, "coreExpeller": True},
        "ls": {"enable": True},
        "be": {"enable": True, "schedIdle": 1},
    }
    rule = node_slo.core_sched(slo("coreSched", **classes))
    assert rule.enabled
    assert rule.known
    assert (rule.pods["LS"].expeller, rule.pods["BE"].expeller, rule.pods["BE"].cpu_idle) == (True, False, True)
    assert not node_slo.core_sched(slo(None, **classes)).enabled


@pytest.mark.parametrize(
    ("threshold", "has"),
    [
        ({}, True),
        ({"enable": True, "cpuSuppressPolicy": "cfsQuota"}, False),
        ({"enable": False, "cpuSuppressPolicy": "cfsQuota"}, True),
        ({"enable": True, "cpuSuppressPolicy": "cpuset"}, True),
    ],
)
def test_batch_pods_have_no_quota_while_their_folder_has_one(threshold: dict[str, Any], has: bool) -> None:
    assert node_slo.has_cfs_quota({"resourceUsedThresholdWithBE": threshold}) is has


@pytest.mark.parametrize("spec", [[], "x", {"resourceQOSStrategy": []}, slo(ls={"enable": "yes"}), slo(policy=5)])  # type: ignore[arg-type]
def test_a_spec_that_cannot_be_read_is_refused(spec: Any) -> None:
    for parse in (node_slo.group_identity, node_slo.core_sched, node_slo.has_cfs_quota):
        with pytest.raises(ValueError, match=r"^spec"):
            parse(spec)


def topology(**annotations: str) -> dict[str, Any]:
    keys = {"shared": names.ANNOTATION_SHARE_POOLS, "batch": names.ANNOTATION_BE_SHARE_POOLS}
    keys |= {"system": names.ANNOTATION_SYSTEM_QOS, "kubelet": names.ANNOTATION_CPU_MANAGER}
    return {"metadata": {"annotations": {keys[key]: text for key, text in annotations.items()}}}


def test_a_topology_gives_pools_policy_and_system_cpus() -> None:
    rule = node_topology.parse(
        topology(
            shared='[{"socket":0,"node":0,"cpuset":"0-7"},{"socket":1,"node":1,"cpuset":"8-15"}]',
            kubelet='{"policy":"static","options":{"a":"b"}}',
            system='{"cpuset":"16-17","cpusetExclusive":false}',
        )
    )
    assert (rule.shared(), rule.kubelet_policy, rule.system_cpus) == ("0-7,8-15", "static", "16-17")
    assert node_topology.parse({"metadata": {}}) == node_topology.CpusetRule()


@pytest.mark.parametrize(
    "wrong",
    [
        {"shared": "x"},
        {"batch": "{}"},
        {"system": '{"cpuset":"5-1"}'},
        {"kubelet": "[]"},
        {"shared": '[{"cpuset":"a"}]'},
    ],
)
def test_a_topology_that_cannot_be_read_keeps_the_last_good_rule(wrong: dict[str, str]) -> None:
    kept = Kept(node_topology.CpusetRule(system_cpus="0"))
    assert not kept.take(lambda: node_topology.parse(topology(**wrong)))
    assert kept.rule.system_cpus == "0"
    assert kept.error.startswith("annotation ")
    assert kept.take(lambda: node_topology.parse(topology()))
    assert kept.error == ""


def test_a_share_pool_without_readable_cpus_is_taken_by_the_original() -> None:
    """`bad_share_pool_refused`."""
    bad = topology(shared='[{"cpuset":"a"}]')
    assert node_topology.parse(bad, Quirks.REFERENCE).shared() == "a"


@pytest.mark.parametrize("source", [None, [], 5])
def test_no_source_is_an_error(source: Any) -> None:
    for parse in (node_topology.parse, node.ratio):
        with pytest.raises(ValueError, match="there is no"):
            parse(source)


def on_node(text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {names.ANNOTATION_RATIO: text}}}


@pytest.mark.parametrize("text", ["", "[}", "0", "-1", "nan", "inf", " 1.1", "1_0", "1,1"])
def test_a_ratio_that_is_no_positive_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cpu-normalization-ratio"):
        node.ratio(on_node(text))


def test_a_ratio_is_read_and_absent_is_off() -> None:
    assert node.ratio(on_node("1.10")) == 1.1
    assert node.ratio({"metadata": {"name": "n"}}) == -1


@given(st.floats(0.1, 10), st.floats(-0.009, 0.009))
def test_a_change_below_a_hundredth_is_none(ratio: float, change: float) -> None:
    assert node.same_ratio(ratio, ratio + change)
    assert not node.same_ratio(ratio, ratio + 0.02)
    assert not node.same_ratio(node.NO_RATIO, ratio)


def traffic(total: str | None, policy: str | None = None, **network_qos: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceQOSStrategy": {"lsClass": {"networkQOS": {"enable": True, **network_qos}}}}
    if policy is not None:
        spec["resourceQOSStrategy"]["policies"] = {"netQOSPolicy": policy}
    if total is not None:
        spec["systemStrategy"] = {"totalNetworkBandwidth": total}
    return spec


def test_the_same_text_is_bits_for_tc_and_an_eighth_in_bytes_for_terway() -> None:
    spec = traffic("100M", ingressRequest="10M", egressLimit=50)
    assert network.tc_bandwidths(spec).l1_rx_bps_min == 10_000_000
    assert network.terway(spec).l1_rx_bps_min == 1_250_000
    assert network.tc_bandwidths(spec).l1_tx_bps_max == 50_000_000
    assert network.terway(spec).hw_tx_bps_max == 12_500_000


@given(st.integers(0, 100), st.integers(0, 10**12))
def test_a_percentage_is_of_the_whole(percent: int, total: int) -> None:
    assert network.tc_bits_per_s(percent, total) == total * percent // 100
    assert network.bytes_per_s(percent, total) == total * percent // 100


@pytest.mark.parametrize("value", [None, -1, 101, "x", "-5"])
def test_tc_takes_what_makes_no_sense_for_none(value: int | str | None) -> None:
    assert network.tc_bits_per_s(value, 1000) == 0


@pytest.mark.parametrize("value", ["x", "", "808", "-8", -5])
def test_terway_refuses_what_makes_no_sense(value: int | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        network.bytes_per_s(value, 100)


def test_policies_choose_between_tc_and_terway() -> None:
    current = TcRule(True, Bandwidths(hw_tx_bps_max=5))
    assert network.tc(traffic("1k"), current) == TcRule(True, network.tc_bandwidths(traffic("1k")))
    assert network.tc(traffic(None), current) is current
    assert network.tc(traffic("1k", "terway-qos"), current) == TcRule(False, current.bandwidths)
    assert network.terway_chosen(traffic("1k", "terway-qos"))
    assert not network.terway_chosen(traffic("1k"))
    with pytest.raises(ValueError, match="bandwidth is -1"):
        network.terway(traffic("-1"))


def test_host_applications_are_by_name_and_the_last_one_counts() -> None:
    found = host_applications.by_name([{"name": "a", "qos": "LS"}, {"name": "a", "qos": "BE"}])
    assert found == {"a": {"name": "a", "qos": "BE"}}
    assert host_applications.by_name(None) == {}
    with pytest.raises(ValueError, match=r"hostApplications\[0\]\.name"):
        host_applications.by_name([{"name": 5}])
