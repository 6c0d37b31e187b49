"""The keys of rules that hooks and strategies go by: which gate a key asks for, and which keys each of them reads.

Rules: pure; a key that is read is named whether a document has it or its default holds. A gate that only a default asks
for is left out, and a part of another form is passed over, because its reader reports that. Next:
`nri.agent.koordinator.unread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nri.agent.koordinator import cpu_normalization, cpuset, evict, system_config
from nri.agent.koordinator.memory_qos import CLASS_KEYS
from nri.agent.koordinator.resctrl import GROUPS
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED

__all__ = ["asked", "origins"]

_STRATEGY, _THRESHOLD = "resourceQOSStrategy", "resourceUsedThresholdWithBE"
_CLASSES: Final = ("lsrClass", "lsClass", "beClass", "systemClass")
#: Parts that ask for a gate by being switched on: the part of a class, the gate, and the classes that have it.
_PARTS: Final = (
    ("memoryQOS", "CgroupReconcile", _CLASSES),
    ("resctrlQOS", "RdtResctrl", tuple(GROUPS.values())),
    ("blkioQOS", "BlkIOReconcile", ("beClass", "cgroupRoot")),
)
_BY_POLICY: Final = (
    ("cpuQOS", "cpuPolicy", {"coreSched": "CoreSched"}, "GroupIdentity", _CLASSES[:3]),
    ("networkQOS", "netQOSPolicy", {"terway-qos": "TerwayQoS"}, "TCNetworkQoS", _CLASSES),
)
_SLO, _TOPOLOGY, _NODE = "NodeSLO", "NodeResourceTopology", "Node"
_CLASS_KEYS: Final = {**CLASS_KEYS, GUARANTEED: "lsrClass", BURSTABLE: "lsClass", BEST_EFFORT: "beClass"}
_OF_CLASS: Final = "resourceQOSStrategy.{}"
_CPU = (_SLO, f"{_OF_CLASS}.cpuQOS")
_NETWORK = ((_SLO, f"{_OF_CLASS}.networkQOS"), (_SLO, "systemStrategy.totalNetworkBandwidth"))
_RATIO = (_NODE, f"annotation {cpu_normalization.ANNOTATION_RATIO}")
_BY_THRESHOLD = (_SLO, "resourceUsedThresholdWithBE")
_KEYS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "BatchResource": ((_SLO, "resourceUsedThresholdWithBE.cpuSuppressPolicy"), _RATIO),
    "CoreSched": ((_SLO, "resourceQOSStrategy.policies.cpuPolicy"), _CPU),
    "CPUNormalization": (_RATIO,),
    "CPUSetAllocator": ((_TOPOLOGY, f"annotation {cpuset.ANNOTATION_SHARE_POOLS}"),),
    "GroupIdentity": (_CPU,),
    "TCNetworkQoS": _NETWORK,
    "TerwayQoS": _NETWORK,
    "BECPUSuppress": (_BY_THRESHOLD,),
    "CPUBurst": ((_SLO, "cpuBurstStrategy"),),
    "CgroupReconcile": ((_SLO, f"{_OF_CLASS}.memoryQOS"),),
    "RdtResctrl": ((_SLO, f"{_OF_CLASS}.resctrlQOS"),),
    "SystemConfig": ((_SLO, "systemStrategy"),),
    "BlkIOReconcile": ((_SLO, "resourceQOSStrategy.beClass.blkioQOS"),),
}


def asked(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the gates of hooks and strategies that a NodeSLO asks for, each with the first key that does."""
    found: dict[str, str] = {}
    for gate, key in _asking(_table(document, "spec")):
        found.setdefault(gate, key)
    return found


def _asking(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    strategy, thresholds = _table(spec, _STRATEGY), _table(spec, _THRESHOLD)
    policies = _table(strategy, "policies")
    chosen = [
        (part, by_word.get(str(policies.get(policy)), otherwise), classes)
        for part, policy, by_word, otherwise, classes in _BY_POLICY
    ]
    for part, gate, classes in (*_PARTS, *chosen):
        for name in classes:
            if _table(_table(strategy, name), part).get("enable") is True:
                yield gate, f"{_STRATEGY}.{name}.{part}.enable"
    if thresholds.get("enable") is True:
        yield "BECPUSuppress", f"{_THRESHOLD}.enable"
        for feature in evict.FEATURES:
            if feature.threshold in thresholds and _valid(feature, thresholds):
                yield feature.name, f"{_THRESHOLD}.{feature.threshold}"
    for key in _table(spec, "systemStrategy"):
        if key in system_config.SHAPE.keys:
            yield "SystemConfig", f"systemStrategy.{key}"
    if _table(spec, "cpuBurstStrategy").get("policy") not in (None, "", "none"):
        yield "CPUBurst", "cpuBurstStrategy.policy"


def _valid(feature: evict.Feature, thresholds: Mapping[str, Any]) -> bool:
    numbers = (feature.threshold, feature.lower)
    return all(isinstance(thresholds.get(key, 0), int) for key in numbers) and evict.valid(feature, thresholds)


def _table(value: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def origins(hook: str, of: str) -> tuple[tuple[str, str], ...]:
    """Return the kinds and keys.

    Args:
        hook: the name of a hook or strategy; an eviction feature reads the thresholds.
        of: the pod's QoS class, or its Kubernetes class.
    """
    keys = _KEYS.get(hook) or ((_BY_THRESHOLD,) if hook.endswith("Evict") else ())
    return tuple((kind, key.format(_CLASS_KEYS.get(of, "lsClass"))) for kind, key in keys)
