"""Stages of TerwayQoS and of traffic control. Next: `tests.hook_cases.processes`."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

from nri.agent.koordinator import bandwidths as network
from nri.agent.koordinator import tc, terway
from nri.agent.koordinator.bandwidths import Bandwidths
from nri.agent.koordinator.documents import NETWORK
from nri.agent.model import HookError
from nri.host.net_class import ClassId
from nri.kube.shapes import fit
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given

__all__ = ["STAGES"]

Outcome = dict[str, Any]


def _shown(bandwidths: Bandwidths) -> Outcome:
    return {name: value for name, value in bandwidths.items() if value}


def _tc_bandwidths(case: Given) -> Outcome:
    return {"bandwidth_bits_per_s": _shown(tc.bandwidths_of(case.get("node_slo"), case.quirks))}


def _tc_share(case: Given) -> Outcome:
    return {"bits_per_s": tc.bits_per_s(case.get("value"), case.get("total") or 0, case.quirks)}


def _tc_class(case: Given) -> Outcome:
    major, minor = case.get("major") or 0, case.get("minor") or 0
    return {"class_id": tc.class_name(major, minor), "hex_class_id": ClassId(major, minor).number}


def _tc_address(case: Given) -> Outcome:
    return {"hex": IPv4Address(case.get("ip") or "").packed.hex()}


def _terway(case: Given) -> Outcome:
    spec = case.get("node_slo")
    enabled = terway.is_chosen(spec)
    try:
        bandwidths = terway.rule_of(spec, case.quirks) if enabled else Bandwidths()
    except ValueError:
        return {"error": True, "updated": False}
    shown = _shown(bandwidths)
    return {"error": False, "updated": True, "enabled": enabled, "node": shown, "bandwidth_bytes_per_s": shown}


def _terway_class(case: Given) -> Outcome:
    try:
        qos = fit(inputs.mapping(case.get("network_qos")), NETWORK, "")
        total = case.get("total_bytes_per_s") or 0
        actual = network.class_shares(qos, lambda value: terway.bytes_per_s(value, total, case.quirks))
    except ValueError:
        return {"error": True}
    names = {"rx_bps_min": "ingress_request", "rx_bps_max": "ingress_limit"}
    names |= {"tx_bps_min": "egress_request", "tx_bps_max": "egress_limit"}
    return {"error": False} | {f"{name}_bytes_per_s": actual[part] for part, name in names.items()}


def _terway_share(case: Given) -> Outcome:
    try:
        actual = terway.bytes_per_s(case.get("value"), case.get("total_bytes_per_s") or 0, case.quirks)
    except ValueError:
        return {"error": True, "bytes_per_s": 0}
    return {"error": False, "bytes_per_s": actual}


def _terway_pod(case: Given) -> Outcome:
    annotations = inputs.mapping(inputs.mapping(case.get("pod")).get("annotations"))
    try:
        limits = terway.pod_limits(annotations, case.quirks)
    except HookError:
        return {"error": True}
    return {
        "error": False,
        "ingress_limit_bytes_per_s": limits.ingress,
        "egress_limit_bytes_per_s": limits.egress,
        "ingress_bytes_per_s": limits.ingress,
        "egress_bytes_per_s": limits.egress,
    }


def _terway_file(case: Given) -> Outcome:
    known_entry = {name: value or 0 for name, value in inputs.mapping(case.get("node")).items()}
    return {"file_text": terway.node_text(Bandwidths(**known_entry))}


def _terway_priority(case: Given) -> Outcome:
    pod = inputs.mapping(case.get("pod"))
    labels = inputs.mapping(pod.get("labels") or inputs.mapping(pod.get("metadata")).get("labels"))
    kube = inputs.mapping(pod.get("status")).get("qosClass") or pod.get("kube_qos") or case.get("kube_qos") or ""
    actual = terway.priority(labels, kube)
    return {"prio": actual, "priority": actual}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "tc/rule.parse": _tc_bandwidths,
    "tc/helper.bandwidth": _tc_share,
    "tc/helper.class_id": _tc_class,
    "tc/helper.ip_to_hex": _tc_address,
    "terwayqos/rule.parse": _terway,
    "terwayqos/helper.class_limits": _terway_class,
    "terwayqos/helper.quantity": _terway_share,
    "terwayqos/helper.pod_limits": _terway_pod,
    "terwayqos/helper.pod_priority": _terway_priority,
    "terwayqos/helper.pod_prio": _terway_priority,
    "terwayqos/helper.node_file": _terway_file,
}
