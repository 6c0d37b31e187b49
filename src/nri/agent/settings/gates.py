"""The gates: hooks and strategies by the names that Koordinator switches them with, and which are on by default.

Rules: pure. Hooks are the rows of `nri.policies.koordinator.profile`; strategies those of its `loops`, by the names of
koordlet's feature gates. Next: :mod:`nri.agent.settings.sources`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from nri.policies.koordinator.profile import PROFILE

__all__ = ["LOOPS", "Gate", "hooks_on", "loops_on"]

Gate = Literal[
    "BatchResource", "CoreSched", "CPUNormalization", "CPUSetAllocator", "GPUEnvInject", "GroupIdentity",
    "OOMScoreAdj", "RDMADeviceInject", "Resctrl", "TCNetworkQoS", "TerwayQoS",
    "BECPUManager", "BECPUSuppress", "BECPUEvict", "BEMemoryEvict", "BlkIOReconcile", "CgroupReconcile", "CPUBurst",
]  # fmt: skip

#: The strategies, whether each is on by default, and what it is.
LOOPS: Final[Mapping[str, tuple[bool, str]]] = {
    "BECPUSuppress": (True, "best-effort pods get the CPU that the others leave"),
    "CPUBurst": (True, "containers that are throttled may borrow CPU"),
    "CgroupReconcile": (False, "memory QoS: minimum, low and high of pods and containers"),
    "BlkIOReconcile": (False, "block I/O: weights and limits for each disk"),
    "BECPUEvict": (False, "batch pods that get too little CPU are evicted"),
    "BEMemoryEvict": (False, "batch pods are evicted when memory runs short"),
}


def hooks_on(gates: Mapping[Gate, bool]) -> frozenset[str]:
    """The names of the hooks that are on."""
    named: dict[str, bool] = {str(name): on for name, on in gates.items()}
    return frozenset(row.name for row in PROFILE if named.get(row.name, row.default))


def loops_on(gates: Mapping[Gate, bool]) -> frozenset[str]:
    """The names of the strategies that are on."""
    named: dict[str, bool] = {str(name): on for name, on in gates.items()}
    return frozenset(name for name, (default, _) in LOOPS.items() if named.get(name, default))
