"""The options of topology-aware, by the keys of its custom resource. Pure. Next: `requests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
