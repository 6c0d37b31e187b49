"""Rules for the CPU from NodeSLO's spec: group identity, core scheduling, and whether batch pods have a CPU quota.

The spec is the API's JSON, as a dict. Missing keys have Koordinator's default: classes are off; switched on, LSR
and LS have identity 2 and expel others from their core, BE has -1 and does not. Next:
`nri.agent.koordinator.network_rules`, for the same spec's bandwidths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nri.agent.koordinator.names import BE, LS, LSE, LSR
from nri.agent.koordinator.quirks import Quirks
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.policies.shapes import INT_OR_TEXT, QUANTITY, Record, Word, fit

__all__ = [
    "NETWORK",
    "SPEC",
    "CoreSchedClass",
    "CoreSchedRule",
    "GroupIdentityRule",
    "core_sched",
    "group_identity",
    "has_cfs_quota",
]

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
_IDENTITIES = {"lsrClass": 2, "lsClass": 2, "beClass": -1}
_EXPELLERS = {"lsrClass": True, "lsClass": True, "beClass": False}


@dataclass(frozen=True, slots=True)
class GroupIdentityRule:
    """The identity (`cpu.bvt_warp_ns`) of pods by QoS class, of kube-QoS folders, and of pods without a class."""

    enabled: bool = False
    pods: Mapping[str, int] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)
    kube_pods: Mapping[str, int] = field(default_factory=dict)

    def of_pod(self, qos: str, kube_class: str) -> int:
        """Return the identity of a pod: by its class, else by its Kubernetes class."""
        return self.pods.get(qos, self.kube_pods.get(kube_class, 0))


@dataclass(frozen=True, slots=True)
class CoreSchedClass:
    """Core scheduling of one class. An expeller shares a core with no other class; `cpu_idle` is for its folder."""

    enabled: bool = False
    expeller: bool = False
    cpu_idle: bool = False


@dataclass(frozen=True, slots=True)
class CoreSchedRule:
    """Core scheduling by QoS class, and by Kubernetes class for pods without one."""

    enabled: bool = False
    pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)
    kube_pods: Mapping[str, CoreSchedClass] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether a NodeSLO has been read at all."""
        return bool(self.pods) and bool(self.kube_pods)

    def of_pod(self, qos: str, kube_class: str) -> CoreSchedClass:
        """Return what holds for a pod; nothing while core scheduling is off on the node."""
        if not self.enabled:
            return CoreSchedClass()
        return self.pods.get(qos) or self.kube_pods.get(kube_class) or CoreSchedClass()


def read_spec(spec: Any) -> dict[str, Any]:
    """Read NodeSLO's spec. Raises ValueError naming what cannot be read."""
    found: dict[str, Any] = fit({} if spec is None else spec, SPEC, "spec")
    return found


def group_identity(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> GroupIdentityRule:
    """Return the identities. Guaranteed pods without a class have those of LSR, else of LS; their folder has none."""
    strategy = read_spec(spec).get("resourceQOSStrategy", {})
    chosen = strategy.get("policies", {}).get("cpuPolicy", "") in ("", "groupIdentity")
    on, value = {}, {}
    for name, default in _IDENTITIES.items():
        cpu = _cpu_of(strategy, name, quirks)
        on[name] = chosen and cpu.get("enable", False)
        value[name] = cpu.get("groupIdentity", default) if on[name] else 0
    lsr, ls, be = value["lsrClass"], value["lsClass"], value["beClass"]
    return GroupIdentityRule(
        enabled=any(on.values()),
        pods={LSE: lsr, LSR: lsr, LS: ls, BE: be},
        folders={GUARANTEED: 0, BURSTABLE: ls, BEST_EFFORT: be},
        kube_pods={GUARANTEED: lsr if on["lsrClass"] else ls, BURSTABLE: ls, BEST_EFFORT: be},
    )


def core_sched(spec: Any, quirks: Quirks = Quirks.DEFAULT) -> CoreSchedRule:
    """Return core scheduling by class; everything is off unless NodeSLO's CPU policy is `coreSched`."""
    strategy = read_spec(spec).get("resourceQOSStrategy", {})
    chosen = strategy.get("policies", {}).get("cpuPolicy", "") == "coreSched"
    classes: dict[str, CoreSchedClass] = {}
    for name, default in _EXPELLERS.items():
        cpu = _cpu_of(strategy, name, quirks)
        enabled = chosen and cpu.get("enable", False)
        expels = cpu.get("coreExpeller", default and enabled)
        classes[name] = CoreSchedClass(enabled, chosen and expels, chosen and cpu.get("schedIdle", 0) == 1)
    lsr, ls, be = classes["lsrClass"], classes["lsClass"], classes["beClass"]
    return CoreSchedRule(
        enabled=any(each.enabled for each in classes.values()),
        pods={LSE: lsr, LSR: lsr, LS: ls, BE: be},
        kube_pods={GUARANTEED: lsr if lsr.enabled else ls, BURSTABLE: ls, BEST_EFFORT: be},
    )


def has_cfs_quota(spec: Any) -> bool:
    """Return whether batch pods have a CPU quota: not while their folder is suppressed by one, which must be larger."""
    threshold = read_spec(spec).get("resourceUsedThresholdWithBE", {})
    return not (threshold.get("enable", False) and threshold.get("cpuSuppressPolicy", "") == "cfsQuota")


def _cpu_of(strategy: Mapping[str, Any], name: str, quirks: Quirks) -> dict[str, Any]:
    cpu: dict[str, Any] | None = strategy.get(name, {}).get("cpuQOS")
    if cpu is None and not quirks.absent_classes_are_off:
        raise ValueError(f"spec.resourceQOSStrategy.{name}.cpuQOS is absent")
    return cpu or {}
