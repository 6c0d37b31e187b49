"""Memory QoS: what of a pod's and a container's memory is protected, and from where on it is slowed down.

Knobs are `memory.min`, `memory.low`, `memory.high`, which cgroup v2 has (v1 on Anolis alone), and Anolis' own
`memory.wmark_*`. Percentages are NodeSLO's `memoryQOS`. Next: `nri.policies.koordinator.loops.block_io`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from nri.policies.koordinator.formulas import UNLIMITED
from nri.policies.koordinator.shapes import Record, fit

__all__ = ["MemoryQos", "container_values", "parse", "pod_values"]

_PAGE: Final = 4096
_FIELDS: Final = {
    "enable": "enabled",
    "minLimitPercent": "min_percent",
    "lowLimitPercent": "low_percent",
    "throttlingPercent": "throttling_percent",
    "wmarkRatio": "wmark_ratio",
    "wmarkScalePermill": "wmark_scale",
    "wmarkMinAdj": "wmark_min_adj",
}
_SHAPE = Record({name: bool if name == "enable" else int for name in _FIELDS})


class MemoryQos(NamedTuple):
    """One class's memory QoS; None is not set. Ratios are percent, the scale is per mille."""

    enabled: bool = False
    min_percent: int | None = None
    low_percent: int | None = None
    throttling_percent: int | None = None
    wmark_ratio: int | None = None
    wmark_scale: int | None = None
    wmark_min_adj: int | None = None


def parse(given: Any) -> MemoryQos:
    """Read a class's `memoryQOS`. Raises ValueError."""
    found = fit({} if given is None else given, _SHAPE, "memoryQOS")
    return MemoryQos(**{_FIELDS[name]: value for name, value in found.items()})


def pod_values(qos: MemoryQos, request: int) -> dict[str, int]:
    """Return the knobs of a pod whose containers ask for so many bytes together."""
    return _values(qos, max(request, 0))


def container_values(qos: MemoryQos, request: int, limit: int, allocatable: int | None) -> dict[str, int]:
    """Return the knobs of a container, in bytes. Without a limit it is slowed down by what the node can give.

    Where that is not known (None), there is no `memory.high` for it.

    `memory.high` is between request and limit, in whole pages, one at least, and never below
    `memory.min`.
    """
    request = max(request, 0)
    values = _values(qos, request)
    if qos.enabled and qos.throttling_percent is not None:
        if qos.throttling_percent == 0:
            values["memory.high"] = UNLIMITED
            return values
        end = limit if limit > 0 else allocatable
        if end is None:
            return values
        high = (request + (end - request) * qos.throttling_percent // 100) // _PAGE * _PAGE
        values["memory.high"] = max(high, values.get("memory.min", 0), _PAGE)
    return values


def _values(qos: MemoryQos, request: int) -> dict[str, int]:
    if not qos.enabled:
        return {}
    values: dict[str, int | None] = {
        "memory.wmark_ratio": qos.wmark_ratio,
        "memory.wmark_scale_factor": qos.wmark_scale,
        "memory.wmark_min_adj": qos.wmark_min_adj,
    }
    for knob, percent in (("memory.min", qos.min_percent), ("memory.low", qos.low_percent)):
        values[knob] = None if percent is None else request * percent // 100
    low, least = values["memory.low"], values["memory.min"]
    if low and least and low < least:
        values["memory.low"] = least
    return {knob: value for knob, value in values.items() if value is not None}
