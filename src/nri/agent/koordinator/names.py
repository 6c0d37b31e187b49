"""The labels, annotations and classes by which people tell Koordinator what to do. A table, no logic but `qos_class`.

Next: `nri.agent.koordinator.pod_annotations`, which reads what is under these keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ANNOTATION_BE_SHARE_POOLS",
    "ANNOTATION_CPU_MANAGER",
    "ANNOTATION_CPU_QOS",
    "ANNOTATION_DEVICES",
    "ANNOTATION_EXTENDED",
    "ANNOTATION_NETWORK_QOS",
    "ANNOTATION_OOM_SCORE",
    "ANNOTATION_OOM_SCORES",
    "ANNOTATION_RATIO",
    "ANNOTATION_RESCTRL",
    "ANNOTATION_RESERVATION",
    "ANNOTATION_SHARE_POOLS",
    "ANNOTATION_STATUS",
    "ANNOTATION_SYSTEM_QOS",
    "BATCH_CPU",
    "BATCH_MEMORY",
    "BE",
    "LABEL_CORE_GROUP",
    "LABEL_CORE_POLICY",
    "LABEL_GPU_ISOLATION",
    "LABEL_QOS",
    "LS",
    "LSE",
    "LSR",
    "NONE",
    "SYSTEM",
    "qos_class",
]

# Koordinator's QoS classes; "" is a pod without one.
LSE: Final = "LSE"
LSR: Final = "LSR"
LS: Final = "LS"
BE: Final = "BE"
SYSTEM: Final = "SYSTEM"
NONE: Final = ""
_CLASSES: Final = frozenset({LSE, LSR, LS, BE, SYSTEM})

# Labels of pods.
LABEL_QOS: Final = "koordinator.sh/qosClass"
LABEL_GPU_ISOLATION: Final = "koordinator.sh/gpu-isolation-provider"
LABEL_CORE_GROUP: Final = "koordinator.sh/core-sched-group-id"
LABEL_CORE_POLICY: Final = "koordinator.sh/core-sched-policy"

# Annotations of pods.
ANNOTATION_STATUS: Final = "scheduling.koordinator.sh/resource-status"
ANNOTATION_DEVICES: Final = "scheduling.koordinator.sh/device-allocated"
ANNOTATION_EXTENDED: Final = "node.koordinator.sh/extended-resource-spec"
ANNOTATION_RESCTRL: Final = "node.koordinator.sh/resctrl"
ANNOTATION_CPU_QOS: Final = "koordinator.sh/cpuQOS"
ANNOTATION_NETWORK_QOS: Final = "koordinator.sh/networkQOS"
ANNOTATION_OOM_SCORE: Final = "koordinator.sh/oom-score-adj"
ANNOTATION_OOM_SCORES: Final = "koordinator.sh/oom-score-adj-spec"

# Annotations of the node and of its topology.
ANNOTATION_RATIO: Final = "node.koordinator.sh/cpu-normalization-ratio"
ANNOTATION_RESERVATION: Final = "node.koordinator.sh/reservation"
ANNOTATION_SHARE_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
ANNOTATION_BE_SHARE_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
ANNOTATION_SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
ANNOTATION_CPU_MANAGER: Final = "kubelet.koordinator.sh/cpu-manager-policy"

# Resources of batch pods: thousandths of a CPU, and bytes.
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"


def qos_class(labels: Mapping[str, str]) -> str:
    """Return the class that a pod's label gives it; any other word, or no label, is none."""
    name = labels.get(LABEL_QOS, NONE)
    return name if name in _CLASSES else NONE
