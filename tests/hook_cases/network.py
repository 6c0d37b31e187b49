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


def _tc_bandwidths(given: Given) -> Outcome:
    return {"bandwidth_bits_per_s": _shown(tc.bandwidths_of(given.get("node_slo"), given.quirks))}


def _tc_share(given: Given) -> Outcome:
    return {"bits_per_s": tc.bits_per_s(given.get("value"), given.get("total") or 0, given.quirks)}


def _tc_class(given: Given) -> Outcome:
    major, minor = given.get("major") or 0, given.get("minor") or 0
    return {"class_id": tc.class_name(major, minor), "hex_class_id": ClassId(major, minor).number}


def _tc_address(given: Given) -> Outcome:
    return {"hex": IPv4Address(given.get("ip") or "").packed.hex()}


def _terway(given: Given) -> Outcome:
    spec = given.get("node_slo")
    enabled = terway.is_chosen(spec)
    try:
        bandwidths = terway.rule_of(spec, given.quirks) if enabled else Bandwidths()
    except ValueError:
        return {"error": True, "updated": False}
    shown = _shown(bandwidths)
    return {"error": False, "updated": True, "enabled": enabled, "node": shown, "bandwidth_bytes_per_s": shown}


def _terway_class(given: Given) -> Outcome:
    try:
        qos = fit(inputs.mapping(given.get("network_qos")), NETWORK, "")
        total = given.get("total_bytes_per_s") or 0
        found = network.class_shares(qos, lambda value: terway.bytes_per_s(value, total, given.quirks))
    except ValueError:
        return {"error": True}
    names = {"rx_bps_min": "ingress_request", "rx_bps_max": "ingress_limit"}
    names |= {"tx_bps_min": "egress_request", "tx_bps_max": "egress_limit"}
    return {"error": False} | {f"{name}_bytes_per_s": found[part] for part, name in names.items()}


def _terway_share(given: Given) -> Outcome:
    try:
        found = terway.bytes_per_s(given.get("value"), given.get("total_bytes_per_s") or 0, given.quirks)
    except ValueError:
        return {"error": True, "bytes_per_s": 0}
    return {"error": False, "bytes_per_s": found}


def _terway_pod(given: Given) -> Outcome:
    annotations = inputs.mapping(inputs.mapping(given.get("pod")).get("annotations"))
    try:
        limits = terway.pod_limits(annotations, given.quirks)
    except HookError:
        return {"error": True}
    return {
        "error": False,
        "ingress_limit_bytes_per_s": limits.ingress,
        "egress_limit_bytes_per_s": limits.egress,
        "ingress_bytes_per_s": limits.ingress,
        "egress_bytes_per_s": limits.egress,
    }


def _terway_file(given: Given) -> Outcome:
    known = {name: value or 0 for name, value in inputs.mapping(given.get("node")).items()}
    return {"file_text": terway.node_text(Bandwidths(**known))}


def _terway_priority(given: Given) -> Outcome:
    pod = inputs.mapping(given.get("pod"))
    labels = inputs.mapping(pod.get("labels") or inputs.mapping(pod.get("metadata")).get("labels"))
    kube = inputs.mapping(pod.get("status")).get("qosClass") or pod.get("kube_qos") or given.get("kube_qos") or ""
    found = terway.priority(labels, kube)
    return {"prio": found, "priority": found}


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
