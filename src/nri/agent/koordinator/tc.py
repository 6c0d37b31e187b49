"""TCNetworkQoS: the classes of traffic control that share the node's bandwidth between system, LS and BE pods.

A plan, not commands: root 1:1 with all of the bandwidth, and below it system 1:2, LS 1:3 and BE 1:4, of which each may
borrow up to the ceiling. The pod's class id goes into `net_cls.classid`. Bandwidths are bits per second. Next:
`nri.agent.koordinator.terway_qos`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri.agent.koordinator.names import ANNOTATION_NETWORK_QOS, BE, LABEL_QOS, LS, LSE, LSR, SYSTEM
from nri.agent.koordinator.network_rules import TcRule
from nri.agent.koordinator.pod_annotations import bandwidths
from nri.policies.changes import HookError
from nri.policies.hooks import Hook
from nri.policies.ownership import Level, Owns

__all__ = ["NAME", "TrafficClass", "class_name", "classes", "minor_of", "own_limits"]

NAME: Final = "TCNetworkQoS"
_MAJOR: Final = 1
#: Minor number, share of the bandwidth in percent while NodeSLO gives none, and priority of each class.
_DEFAULTS: Final = {"system": (2, 40, 1), "ls": (3, 30, 2), "be": (4, 30, 3)}
_MINORS: Final = {SYSTEM: 2, LSE: 3, LSR: 3, LS: 3, BE: 4}


class TrafficClass(NamedTuple):
    """One class: what it is sure of (`rate`) and what it may have at most (`ceil`), in bits per second."""

    minor: int
    rate: int
    ceil: int
    priority: int


def classes(rule: TcRule) -> list[TrafficClass]:
    """Return the classes below the root; none while tc is off or the node's bandwidth is not known."""
    total = rule.bandwidths.hw_tx_bps_max
    if not rule.enabled or not total:
        return []
    own = {"ls": (rule.bandwidths.l1_tx_bps_min, rule.bandwidths.l1_tx_bps_max)}
    own["be"] = (rule.bandwidths.l2_tx_bps_min, rule.bandwidths.l2_tx_bps_max)
    return [
        TrafficClass(
            minor, own.get(name, (0, 0))[0] or total * percent // 100, own.get(name, (0, 0))[1] or total, first
        )
        for name, (minor, percent, first) in _DEFAULTS.items()
    ]


def own_limits(annotations: Mapping[str, str]) -> tuple[int, int]:
    """Return what a pod may be sent and may send, in bits per second; 0 for no limit of its own.

    Raises HookError for an annotation that cannot be read, or a negative bandwidth.
    """
    try:
        found = bandwidths(annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if min(found.values(), default=0) < 0:
        raise HookError(NAME, f"annotation {ANNOTATION_NETWORK_QOS}: a bandwidth is not {min(found.values())}")
    return found.get("ingressLimit", 0), found.get("egressLimit", 0)


def minor_of(qos: str) -> int:
    """Return the class that a pod's traffic belongs to; 0 for a pod without a QoS class, which stays in the default."""
    return _MINORS.get(qos, 0)


def class_name(major: int, minor: int) -> str:
    """Return a class as tc writes it: `1:2`."""
    return f"{major}:{minor}"


HOOK: Final = Hook(
    NAME,
    False,
    ("NodeSLO", "pods"),
    (LABEL_QOS, ANNOTATION_NETWORK_QOS),
    {},
    (Owns(Level.NODE, "tc"), Owns(Level.POD, "net_cls.classid")),
)
