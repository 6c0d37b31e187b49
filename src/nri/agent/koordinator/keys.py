"""Find the gates that a NodeSLO requests. Default values of NodeSLO do not request gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nri.agent.koordinator import evict, system_config
from nri.agent.koordinator.resctrl import GROUPS

_STRATEGY, _THRESHOLD = "resourceQOSStrategy", "resourceUsedThresholdWithBE"
_CLASSES: Final = ("lsrClass", "lsClass", "beClass", "systemClass")
#: Sections that request a gate when they are switched on: section, gate, and the classes with this section.
_PARTS: Final = (
    ("memoryQOS", "CgroupReconcile", _CLASSES),
    ("resctrlQOS", "RdtResctrl", tuple(GROUPS.values())),
    ("blkioQOS", "BlkIOReconcile", ("beClass", "cgroupRoot")),
)
_BY_POLICY: Final = (
    ("cpuQOS", "cpuPolicy", {"coreSched": "CoreSched"}, "GroupIdentity", _CLASSES[:3]),
    ("networkQOS", "netQOSPolicy", {"terway-qos": "TerwayQoS"}, "TCNetworkQoS", _CLASSES),
)


def requested_gates(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the gates that a NodeSLO requests, each with the first key that requests it."""
    key_by_gate: dict[str, str] = {}
    for gate, key in _requests(_table(document, "spec")):
        key_by_gate.setdefault(gate, key)
    return key_by_gate


def _requests(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
            if feature.threshold in thresholds and _has_valid_thresholds(feature, thresholds):
                yield feature.name, f"{_THRESHOLD}.{feature.threshold}"
    for key in _table(spec, "systemStrategy"):
        if key in system_config.SHAPE.keys:
            yield "SystemConfig", f"systemStrategy.{key}"
    if _table(spec, "cpuBurstStrategy").get("policy") not in (None, "", "none"):
        yield "CPUBurst", "cpuBurstStrategy.policy"


def _has_valid_thresholds(feature: evict.Feature, thresholds: Mapping[str, Any]) -> bool:
    numbers = (feature.threshold, feature.lower)
    return all(isinstance(thresholds.get(key, 0), int) for key in numbers) and evict.valid(feature, thresholds)


def _table(value: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    table = value.get(key) if isinstance(value, Mapping) else None
    return table if isinstance(table, Mapping) else {}
