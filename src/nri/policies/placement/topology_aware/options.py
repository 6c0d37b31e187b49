"""The options of topology-aware, by the keys of its custom resource. Pure. Next: `requests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from nri.policies.placement.amounts import Amounts

__all__ = ["Level", "Options"]

Level = Literal["system", "package", "die", "numa", "l3cache", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Options:
    """The `spec` of a TopologyAwarePolicy."""

    reservedResources: Amounts
    availableResources: Amounts = field(default_factory=Amounts)
    pinCPU: bool = True
    pinMemory: bool = True
    preferIsolatedCPUs: bool = True
    preferSharedCPUs: bool = False
    colocatePods: bool = False
    colocateNamespaces: bool = False
    reservedPoolNamespaces: list[str] = field(default_factory=list)
    defaultCPUPriority: Literal["high", "normal", "low", "none"] = "none"
    unlimitedBurstable: Level = "package"
    schedulingClasses: list[dict[str, Any]] = field(default_factory=list)
    namespaceSchedulingClasses: dict[str, str] = field(default_factory=dict)
    podQoSSchedulingClasses: dict[str, str] = field(default_factory=dict)
    cpuClasses: list[dict[str, Any]] = field(default_factory=list)
    sharedPoolCPUClass: str = ""
    reservedPoolCPUClass: str = ""
    defaultExclusiveCPUClass: str = ""
    controllableInterrupts: list[str] = field(default_factory=lambda: ["*"])
    agent: dict[str, Any] = field(default_factory=dict)
    control: dict[str, Any] = field(default_factory=dict)
    instrumentation: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)
