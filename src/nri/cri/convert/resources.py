"""Convert container resources between the CRI and NRI (`to_nri`, `to_cri`), and from an OCI spec (`from_oci`).

In the CRI, 0 and an empty string mean "not set". Unlike containerd, these functions convert swap, too.
"""

from __future__ import annotations

from typing import Any

from nri.api import messages as m
from nri.api.optional import get, put
from nri.cri.convert.dropped import Conversion, DroppedField, left_over, shown
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

NOT_IN_NRI = "NRI's resources have no field for it"
NOT_IN_CRI = "the CRI's resources have no field for it"
_INT64_MAX = 2**63 - 1

#: The fields of the CRI's message, with object and field of NRI's message, and whether the field is set even if it is
#: 0. Plugins rely on shares, quota, period and memory limit being set.
SCALARS = (
    ("cpu_period", "cpu", "period", True),
    ("cpu_quota", "cpu", "quota", True),
    ("cpu_shares", "cpu", "shares", True),
    ("memory_limit_in_bytes", "memory", "limit", True),
    ("memory_swap_limit_in_bytes", "memory", "swap", False),
)
CPUSETS = (("cpuset_cpus", "cpus"), ("cpuset_mems", "mems"))
_CARRIED = {*(row[0] for row in SCALARS), *(row[0] for row in CPUSETS), "hugepage_limits[]", "unified"}

#: The fields of NRI's object, with the key of the spec's object.
OCI_FIELDS = {
    "cpu": {
        "shares": "shares", "quota": "quota", "period": "period", "realtime_runtime": "realtimeRuntime",
        "realtime_period": "realtimePeriod",
    },
    "memory": {
        "limit": "limit", "reservation": "reservation", "swap": "swap", "kernel": "kernel", "kernel_tcp": "kernelTCP",
        "swappiness": "swappiness", "disable_oom_killer": "disableOOMKiller", "use_hierarchy": "useHierarchy",
    },
}  # fmt: skip


def to_nri(requested: pb.LinuxContainerResources, path: str = "") -> Conversion[m.LinuxResources]:
    """Convert the resources of a request for plugins. NRI's resources have no OOM score, so it is dropped.

    `path` is the path of `requested` in the request, for the names of dropped fields.

    Raises:
        RequestError: a value is negative, and NRI's field is unsigned.
    """
    resources = m.LinuxResources()
    resources.cpu.SetInParent()
    resources.memory.SetInParent()
    for field, part, name, always in SCALARS:
        value = getattr(requested, field)
        if value or always:
            try:
                put(getattr(resources, part), name, value)
            except ValueError:
                raise RequestError(f"{path}.{field}" if path else field, value, "is negative") from None
    for field, name in CPUSETS:
        setattr(resources.cpu, name, getattr(requested, field))
    for limit in requested.hugepage_limits:
        resources.hugepage_limits.add(page_size=limit.page_size, limit=limit.limit)
    resources.unified.update(requested.unified)
    return Conversion(
        resources,
        lambda: [dropped.below(path) if path else dropped for dropped in left_over(requested, _CARRIED, NOT_IN_NRI)],
    )


def to_cri(
    resources: m.LinuxResources, base: pb.LinuxContainerResources | None = None
) -> Conversion[pb.LinuxContainerResources]:
    """Convert resources of plugins for a runtime's CRI: `base`, overridden by the fields that are set in `resources`.

    `base` is the request, or the container's current resources. Fields that NRI does not have (the OOM score) come from
    `base`.
    """
    request = pb.LinuxContainerResources()
    if base is not None:
        request.CopyFrom(base)
    out_of_range: list[DroppedField] = []
    for field, part, name, _ in SCALARS:
        value = get(getattr(resources, part), name)
        if value is None:
            continue
        if value > _INT64_MAX:
            out_of_range.append(DroppedField(f"{part}.{name}", shown(value), "exceeds the range of the CRI's field"))
            continue
        setattr(request, field, value)
    for field, name in CPUSETS:
        if value := getattr(resources.cpu, name):
            setattr(request, field, value)
    limits = {limit.page_size: limit for limit in request.hugepage_limits}
    for limit in resources.hugepage_limits:
        if limit.page_size not in limits:
            limits[limit.page_size] = request.hugepage_limits.add(page_size=limit.page_size)
        limits[limit.page_size].limit = limit.limit
    request.unified.update(resources.unified)
    return Conversion(request, lambda: [*left_over(resources, _carried_to_cri(), NOT_IN_CRI), *out_of_range])


def _carried_to_cri() -> set[str]:
    fields = {f"{part}.{name}" for _, part, name, _ in SCALARS} | {f"cpu.{name}" for _, name in CPUSETS}
    # A set but empty `cpu` or `memory` has no fields, so nothing is lost.
    return fields | {"hugepage_limits[]", "unified"}


def from_oci(resources: dict[str, Any]) -> Conversion[m.LinuxResources]:
    """Convert the ``linux.resources`` of a spec for plugins. Block-I/O and RDT settings are not mapped to classes."""
    message = m.LinuxResources()
    unknown = {key: value for key, value in resources.items() if value}
    for part, fields in OCI_FIELDS.items():
        source = unknown.pop(part, {})
        names = {key: name for name, key in fields.items()}
        for key, value in source.items():
            if key in names:
                put(getattr(message, part), names[key], value)
            elif part == "cpu" and key in ("cpus", "mems"):
                setattr(message.cpu, key, value or "")
            elif value is not None:
                unknown[f"{part}.{key}"] = value
        if part in resources and resources[part] is not None:
            getattr(message, part).SetInParent()
    if resources.get("pids") is not None:
        message.pids.limit = (unknown.pop("pids", None) or {}).get("limit") or 0
    for limit in unknown.pop("hugepageLimits", ()):
        message.hugepage_limits.add(page_size=limit.get("pageSize", ""), limit=limit.get("limit", 0))
    message.unified.update(unknown.pop("unified", {}))
    for rule in unknown.pop("devices", ()):
        added = message.devices.add(
            allow=bool(rule.get("allow")), type=rule.get("type") or "", access=rule.get("access") or ""
        )
        for name in ("major", "minor"):
            put(added, name, rule.get(name))
    return Conversion(message, lambda: [DroppedField(key, shown(value), NOT_IN_NRI) for key, value in unknown.items()])
