"""`resourceUsedThresholdWithBE` of NodeSLO: when best-effort pods are suppressed or evicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nri.agent.koordinator.documents import Part
from nri.kube.shapes import Record, Word, fit

DEFAULT_PERCENT: Final = 65
#: Keys of NodeSLO with percentages or seconds.
NUMBERS: Final = (
    "cpuSuppressThresholdPercent", "cpuSuppressMinPercent", "memoryEvictThresholdPercent", "memoryEvictLowerPercent",
    "cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent", "cpuEvictBEUsageThresholdPercent",
    "cpuEvictTimeWindowSeconds", "cpuEvictThresholdPercent", "cpuEvictLowerPercent",
)  # fmt: skip
#: Keys with percentages of allocatable amounts, which may be above 100, or with priorities.
_FREE_NUMBERS: Final = (
    "cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent",
    "memoryAllocatableEvictLowerPercent", "evictEnabledPriorityThreshold", "allocatableEvictPriorityThreshold",
)  # fmt: skip
_TEXTS: Final = {
    "cpuSuppressPolicy": Word(("cpuset", "cfsQuota")),
    "cpuEvictPolicy": Word(("evictByRealLimit", "evictByAllocatable")),
}
#: The shape of `resourceUsedThresholdWithBE` of NodeSLO.
THRESHOLDS: Final = Record({"enable": bool, **_TEXTS, **dict.fromkeys((*NUMBERS, *_FREE_NUMBERS), int)})


class Threshold(NamedTuple):
    """NodeSLO's `resourceUsedThresholdWithBE` in percent. None means not set; `keys` has all keys."""

    enabled: bool = False
    suppress_percent: int = DEFAULT_PERCENT
    suppress_least: int | None = None
    by_quota: bool = False
    keys: Mapping[str, Any] = {}


def _threshold(document: Any) -> Threshold:
    fields = fit({} if document is None else document, THRESHOLDS, "resourceUsedThresholdWithBE")
    for name in NUMBERS:
        minimum, maximum = (1, 86_400) if name.endswith("Seconds") else (0, 100)
        if name in fields and not minimum <= fields[name] <= maximum:
            raise ValueError(
                f"resourceUsedThresholdWithBE.{name}: {fields[name]} is not between {minimum} and {maximum}"
            )
    return Threshold(
        enabled=fields.get("enable", False),
        suppress_percent=fields.get("cpuSuppressThresholdPercent", DEFAULT_PERCENT),
        suppress_least=fields.get("cpuSuppressMinPercent"),
        by_quota=fields.get("cpuSuppressPolicy", "") == "cfsQuota",
        keys=fields,
    )


THRESHOLD: Final = Part(lambda spec: _threshold(spec.get("resourceUsedThresholdWithBE")), Threshold())
