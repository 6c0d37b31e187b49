"""Resources of a container in three languages: the CRI's, NRI's, and the OCI spec's.

One job: three functions, `to_nri` and `to_cri` between the CRI and NRI, and `from_oci` from a spec's
``linux.resources``; the way back into a spec is `nri.oci`'s. Rules: in the CRI 0 and an empty text mean "not set";
shares, quota, period and memory limit of a request are always there for plugins, 0 where the kubelet set none,
because plugins count on it. Swap is carried over, which containerd does not. Next: `nri.cri.convert.nri_messages`.
"""

from __future__ import annotations

from typing import Any

from nri.api import messages as m
from nri.api.optional import get, put
from nri.cri.convert.dropped import Converted, Dropped, left_over, shown
from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

__all__ = ["from_oci", "to_cri", "to_nri"]

NOT_IN_NRI = "NRI's resources have no field for it"
NOT_IN_CRI = "the CRI's resources have no field for it"
_INT64_MAX = 2**63 - 1

#: Of the CRI's message; object and field of NRI's; whether it is there for plugins even if it is 0.
SCALARS = (
    ("cpu_period", "cpu", "period", True),
    ("cpu_quota", "cpu", "quota", True),
    ("cpu_shares", "cpu", "shares", True),
    ("memory_limit_in_bytes", "memory", "limit", True),
    ("memory_swap_limit_in_bytes", "memory", "swap", False),
)
CPUSETS = (("cpuset_cpus", "cpus"), ("cpuset_mems", "mems"))
_CARRIED = {*(row[0] for row in SCALARS), *(row[0] for row in CPUSETS), "hugepage_limits[]", "unified"}

#: Field of NRI's object, key of the spec's object.
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


def to_nri(asked: pb.LinuxContainerResources, path: str = "") -> Converted[m.LinuxResources]:
    """The resources of a request, for plugins. The OOM score is no resource in NRI, and is dropped if it is set.

    `path` is the place of `asked` in the request, for the names of fields in what was dropped.

    Raises:
        RequestError: a value is negative where NRI has none.
    """
    made = m.LinuxResources()
    made.cpu.SetInParent()
    made.memory.SetInParent()
    for field, part, name, always in SCALARS:
        value = getattr(asked, field)
        if value or always:
            try:
                put(getattr(made, part), name, value)
            except ValueError:
                raise RequestError(f"{path}.{field}" if path else field, value, "is negative") from None
    for field, name in CPUSETS:
        setattr(made.cpu, name, getattr(asked, field))
    for limit in asked.hugepage_limits:
        made.hugepage_limits.add(page_size=limit.page_size, limit=limit.limit)
    made.unified.update(asked.unified)
    return Converted(made, lambda: [one.below(path) if path else one for one in left_over(asked, _CARRIED, NOT_IN_NRI)])


def to_cri(
    wanted: m.LinuxResources, base: pb.LinuxContainerResources | None = None
) -> Converted[pb.LinuxContainerResources]:
    """Resources that plugins want, for a runtime that speaks the CRI: `base` with all that is set in `wanted` over it.

    `base` is the request, or what the container has: what NRI does not know (the OOM score) comes from there.
    """
    made = pb.LinuxContainerResources()
    if base is not None:
        made.CopyFrom(base)
    too_much: list[Dropped] = []
    for field, part, name, _ in SCALARS:
        value = get(getattr(wanted, part), name)
        if value is None:
            continue
        if value > _INT64_MAX:
            too_much.append(Dropped(f"{part}.{name}", shown(value), "more than the CRI can say"))
            continue
        setattr(made, field, value)
    for field, name in CPUSETS:
        if value := getattr(wanted.cpu, name):
            setattr(made, field, value)
    known = {limit.page_size: limit for limit in made.hugepage_limits}
    for limit in wanted.hugepage_limits:
        if limit.page_size not in known:
            known[limit.page_size] = made.hugepage_limits.add(page_size=limit.page_size)
        known[limit.page_size].limit = limit.limit
    made.unified.update(wanted.unified)
    return Converted(made, lambda: [*left_over(wanted, _carried_to_cri(), NOT_IN_CRI), *too_much])


def _carried_to_cri() -> set[str]:
    fields = {f"{part}.{name}" for _, part, name, _ in SCALARS} | {f"cpu.{name}" for _, name in CPUSETS}
    # `cpu` and `memory` that are there and empty say nothing, so nothing is lost with them.
    return fields | {"hugepage_limits[]", "unified"}


def from_oci(resources: dict[str, Any]) -> Converted[m.LinuxResources]:
    """The ``linux.resources`` of a spec, for plugins. Block I/O and RDT are never made classes again."""
    made = m.LinuxResources()
    unknown = {key: value for key, value in resources.items() if value}
    for part, fields in OCI_FIELDS.items():
        source = unknown.pop(part, {})
        known = {key: name for name, key in fields.items()}
        for key, value in source.items():
            if key in known:
                put(getattr(made, part), known[key], value)
            elif part == "cpu" and key in ("cpus", "mems"):
                setattr(made.cpu, key, value or "")
            elif value is not None:
                unknown[f"{part}.{key}"] = value
        if part in resources and resources[part] is not None:
            getattr(made, part).SetInParent()
    if resources.get("pids") is not None:
        made.pids.limit = (unknown.pop("pids", None) or {}).get("limit") or 0
    for limit in unknown.pop("hugepageLimits", ()):
        made.hugepage_limits.add(page_size=limit.get("pageSize", ""), limit=limit.get("limit", 0))
    made.unified.update(unknown.pop("unified", {}))
    for rule in unknown.pop("devices", ()):
        added = made.devices.add(
            allow=bool(rule.get("allow")), type=rule.get("type") or "", access=rule.get("access") or ""
        )
        for name in ("major", "minor"):
            put(added, name, rule.get(name))
    return Converted(made, lambda: [Dropped(key, shown(value), NOT_IN_NRI) for key, value in unknown.items()])
