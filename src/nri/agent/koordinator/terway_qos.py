"""TerwayQoS: the two files by which the terway network daemon learns the bandwidths of the node and of its pods.

No runtime is asked: the files are written when NodeSLO or the pods change, and taken away when terway is not chosen.
Bandwidths are bytes per second. Next: `nri.agent.koordinator.oom_score_adj`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.names import ANNOTATION_NETWORK_QOS, BE, LABEL_QOS, LS, LSE, LSR, SYSTEM
from nri.agent.koordinator.network_rules import Bandwidths
from nri.agent.koordinator.pod_annotations import bandwidths
from nri.agent.koordinator.quirks import Quirks
from nri.policies.changes import HookError
from nri.policies.contexts import PodContext
from nri.policies.hooks import Hook
from nri.policies.ownership import Level, Owns

__all__ = ["FOLDER", "NAME", "NODE_FILE", "POD_FILE", "PodLimits", "node_text", "pod_limits", "pods_text", "priority"]

NAME: Final = "TerwayQoS"
FOLDER: Final = "/host-var-lib/terway/qos"
POD_FILE: Final = "pod.json"
NODE_FILE: Final = "global_bps_config"
_PRIORITIES: Final = {SYSTEM: 0, LSE: 1, LSR: 1, LS: 1, BE: 2}
_KUBE_PRIORITIES: Final = {"Guaranteed": 1, "Burstable": 1, "BestEffort": 2}


class PodLimits(NamedTuple):
    """A pod's bandwidths in bytes per second; 0 is none."""

    ingress: int = 0
    egress: int = 0


def node_text(bandwidths: Bandwidths) -> str:
    """Return the node's file: a line for each bandwidth; terway calls all pods offline."""
    return "".join(
        f"{name if name.startswith('hw') else 'offline_' + name} {value}\n" for name, value in bandwidths.items()
    )


def pods_text(
    pods: Iterable[tuple[PodContext, str]], quirks: Quirks = Quirks.DEFAULT
) -> tuple[str, dict[str, HookError]]:
    """Return the pods' file, and what could not be read, by uid: such a pod is left out and the others stay.

    Args:
        pods: each pod with its Kubernetes QoS class.
        quirks: where to decide as the original.
    """
    entries: dict[str, Any] = {}
    errors: dict[str, HookError] = {}
    for pod, kube_class in pods:
        try:
            limits = pod_limits(pod.annotations, quirks)
        except HookError as error:
            errors[pod.uid] = error
            continue
        entries[pod.uid] = {
            "podName": pod.name,
            "podNamespace": pod.namespace,
            "podUID": pod.uid,
            "prio": priority(pod.labels, kube_class),
            "cgroupDir": f"/sys/fs/cgroup/net_cls/{pod.cgroup_parent.strip('/')}",
            "qosConfig": {"ingressBandwidth": limits.ingress, "egressBandwidth": limits.egress},
        }
    return json.dumps(dict(sorted(entries.items())), separators=(",", ":"), ensure_ascii=False), errors


def priority(labels: Mapping[str, str], kube_class: str) -> int:
    """Return 0 for the system's, 1 for latency-sensitive and 2 for best-effort pods."""
    return _PRIORITIES.get(labels.get(LABEL_QOS, "-"), _KUBE_PRIORITIES.get(kube_class, 0))


def pod_limits(annotations: Mapping[str, str], quirks: Quirks = Quirks.DEFAULT) -> PodLimits:
    """Read a pod's own bandwidths. Raises HookError for what cannot be read."""
    if not annotations.get(ANNOTATION_NETWORK_QOS):
        return PodLimits()
    try:
        found = bandwidths(annotations)
        return PodLimits(*(_bytes(found.get(key), key, quirks) for key in ("ingressLimit", "egressLimit")))
    except ValueError as error:
        raise HookError(NAME, str(error)) from None


def _bytes(bits: int | None, key: str, quirks: Quirks) -> int:
    if bits is None and not quirks.absent_bandwidth_is_none:
        raise ValueError(f"annotation {ANNOTATION_NETWORK_QOS}: {key}: there is none")
    bits = bits or 0
    if bits < 0 and quirks.negative_bandwidth_refused:
        raise ValueError(f"annotation {ANNOTATION_NETWORK_QOS}: {key}: a bandwidth is not {bits}")
    return bits % (1 << 64) // 8


HOOK: Final = Hook(
    NAME,
    False,
    ("NodeSLO", "pods"),
    (LABEL_QOS, ANNOTATION_NETWORK_QOS),
    {},
    (Owns(Level.NODE, "terway"),),
)
