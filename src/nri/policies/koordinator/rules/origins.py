"""The keys of rules by which a hook or strategy decides for a pod of a class: a table, for `explain`.

Rules: pure; a key is named whether a document has it or its default holds. Next: `nri.agent.rules.origins`, which finds
where each one is written.
"""

from __future__ import annotations

from typing import Final

from nri.policies.koordinator import names
from nri.policies.koordinator.loops.memory_qos import CLASS_KEYS
from nri.policies.paths import BEST_EFFORT, BURSTABLE, GUARANTEED

__all__ = ["origins"]

_SLO, _TOPOLOGY, _NODE = "NodeSLO", "NodeResourceTopology", "Node"
_CLASS_KEYS: Final = {**CLASS_KEYS, GUARANTEED: "lsrClass", BURSTABLE: "lsClass", BEST_EFFORT: "beClass"}
_OF_CLASS: Final = "resourceQOSStrategy.{}"
_CPU = (_SLO, f"{_OF_CLASS}.cpuQOS")
_NETWORK = ((_SLO, f"{_OF_CLASS}.networkQOS"), (_SLO, "systemStrategy.totalNetworkBandwidth"))
_RATIO = (_NODE, f"annotation {names.ANNOTATION_RATIO}")
_THRESHOLD = (_SLO, "resourceUsedThresholdWithBE")
_KEYS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "BatchResource": ((_SLO, "resourceUsedThresholdWithBE.cpuSuppressPolicy"), _RATIO),
    "CoreSched": ((_SLO, "resourceQOSStrategy.policies.cpuPolicy"), _CPU),
    "CPUNormalization": (_RATIO,),
    "CPUSetAllocator": ((_TOPOLOGY, f"annotation {names.ANNOTATION_SHARE_POOLS}"),),
    "GroupIdentity": (_CPU,),
    "TCNetworkQoS": _NETWORK,
    "TerwayQoS": _NETWORK,
    "BECPUSuppress": (_THRESHOLD,),
    "CPUBurst": ((_SLO, "cpuBurstStrategy"),),
    "CgroupReconcile": ((_SLO, f"{_OF_CLASS}.memoryQOS"),),
    "RdtResctrl": ((_SLO, f"{_OF_CLASS}.resctrlQOS"),),
    "SystemConfig": ((_SLO, "systemStrategy"),),
    "BlkIOReconcile": ((_SLO, "resourceQOSStrategy.beClass.blkioQOS"),),
}


def origins(hook: str, of: str) -> tuple[tuple[str, str], ...]:
    """Return the kinds and keys.

    Args:
        hook: the name of a hook or strategy; an eviction feature reads the thresholds.
        of: the pod's QoS class, or its Kubernetes class.
    """
    keys = _KEYS.get(hook) or ((_THRESHOLD,) if hook.endswith("Evict") else ())
    return tuple((kind, key.format(_CLASS_KEYS.get(of, "lsClass"))) for kind, key in keys)
