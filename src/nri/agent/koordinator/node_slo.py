"""Rules for the CPU from NodeSLO's spec: group identity, core scheduling, and whether batch pods have a CPU quota.

The spec is the API's JSON, as a dict. Missing keys have Koordinator's default: classes are off; switched on, LSR
and LS have identity 2 and expel others from their core, BE has -1 and does not. Next:
`nri.agent.koordinator.network_rules`, for the same spec's bandwidths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.agent.koordinator.quirks import Quirks
from nri.policies.shapes import INT_OR_TEXT, QUANTITY, Record, Word, fit

NETWORK = Record(
    {
        "enable": bool,
        "ingressRequest": INT_OR_TEXT,
        "ingressLimit": INT_OR_TEXT,
        "egressRequest": INT_OR_TEXT,
        "egressLimit": INT_OR_TEXT,
    }
)
_CPU = Record({"enable": bool, "groupIdentity": int, "schedIdle": int, "coreExpeller": bool})
_CLASS = Record({"cpuQOS": _CPU, "networkQOS": NETWORK})
_STRATEGY = Record(
    {
        "policies": Record(
            {"cpuPolicy": Word(("groupIdentity", "coreSched")), "netQOSPolicy": Word(("tc", "terway-qos"))}
        ),
        "lsrClass": _CLASS,
        "lsClass": _CLASS,
        "beClass": _CLASS,
        "systemClass": _CLASS,
    }
)
#: The keys of NodeSLO's spec that rules read.
SPEC = Record(
    {
        "resourceQOSStrategy": _STRATEGY,
        "resourceUsedThresholdWithBE": Record({"enable": bool, "cpuSuppressPolicy": str}),
        "systemStrategy": Record({"totalNetworkBandwidth": QUANTITY}),
    }
)


def read_spec(spec: Any) -> dict[str, Any]:
    """Read NodeSLO's spec. Raises ValueError naming what cannot be read."""
    found: dict[str, Any] = fit({} if spec is None else spec, SPEC, "spec")
    return found


def cpu_of(strategy: Mapping[str, Any], name: str, quirks: Quirks) -> dict[str, Any]:
    """Return `cpuQOS` of a class, empty if NodeSLO does not mention it. Raises ValueError where the original panics."""
    cpu: dict[str, Any] | None = strategy.get(name, {}).get("cpuQOS")
    if cpu is None and not quirks.absent_classes_are_off:
        raise ValueError(f"spec.resourceQOSStrategy.{name}.cpuQOS is absent")
    return cpu or {}
