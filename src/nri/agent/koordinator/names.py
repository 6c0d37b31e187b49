"""Koordinator's QoS classes, the label of a pod's class, and names that several features read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Koordinator's QoS classes; NONE is the class of a pod without a valid label.
LSE: Final = "LSE"
LSR: Final = "LSR"
LS: Final = "LS"
BE: Final = "BE"
SYSTEM: Final = "SYSTEM"
NONE: Final = ""
_CLASSES: Final = frozenset({LSE, LSR, LS, BE, SYSTEM})
# Labels of pods.
LABEL_QOS: Final = "koordinator.sh/qosClass"
ANNOTATION_DEVICES: Final = "scheduling.koordinator.sh/device-allocated"
# Resources of batch pods: thousandths of a CPU, and bytes.
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"


def qos_class(labels: Mapping[str, str]) -> str:
    """Return the QoS class in a pod's label, or NONE if the label is absent or has an unknown value."""
    name = labels.get(LABEL_QOS, NONE)
    return name if name in _CLASSES else NONE
