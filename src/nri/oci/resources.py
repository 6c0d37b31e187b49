"""Resources of a container: from the API's message into a spec, and as the object that an update hands to a runtime.

`adjust` is a step of `nri.oci.generator`. `to_oci` makes of an update `without_unset` fields what ``runc update
--resources -`` takes.
"""

from __future__ import annotations

from nri.api.optional import get
from nri.api.resource_names import CPU, CPUSET, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.oci.draft import Draft
    from nri.rules import Rules

__all__ = ["adjust", "to_oci", "without_unset"]

#: A 0 of these in a request says that it is not set; an OCI runtime may take it for a value.
_UNSET_AT_ZERO = (("cpu", "shares"), ("cpu", "quota"), ("cpu", "period"), ("memory", "limit"), ("memory", "swap"))
_ABOVE = ("linux", "resources")


def adjust(draft: Draft, resources: Any, rules: Rules) -> None:
    """Set the resources that are given. Block-I/O and RDT classes are not among them: they have steps of their own."""
    draft.table("linux")
    if resources.HasField("cpu"):
        _cpu(draft, resources.cpu)
    if resources.HasField("memory"):
        _memory(draft, resources.memory, rules)
    for limit in resources.hugepage_limits:
        _hugepages(draft, limit)
    if resources.unified:
        draft.table(*_ABOVE, "unified").update(resources.unified)
    if resources.HasField("pids"):
        _pids(draft, resources.pids.limit, rules)
    for device in resources.devices:
        draft.rows(*_ABOVE, "devices").append(_device_rule(device))


def _cpu(draft: Draft, cpu: Any) -> None:
    for field, key in CPU:
        if cpu.HasField(field):
            draft.table(*_ABOVE, "cpu")[key] = getattr(cpu, field).value
    for field in CPUSET:
        if value := getattr(cpu, field):
            draft.table(*_ABOVE, "cpu")[field] = value


def _memory(draft: Draft, memory: Any, rules: Rules) -> None:
    """Set what is given; a limit without a word on swap limits both together. A limit of 0 says nothing.

    The reference sets the limit alone, and swap to the same.
    """
    limit = memory.limit.value
    if limit:
        draft.table(*_ABOVE, "memory").update(limit=limit, swap=limit)
    if not rules.all_memory_fields_applied:
        return
    for field, key in MEMORY[1:]:
        if memory.HasField(field):
            draft.table(*_ABOVE, "memory")[key] = getattr(memory, field).value


def _hugepages(draft: Draft, limit: Any) -> None:
    rows = draft.rows(*_ABOVE, "hugepageLimits")
    for place, row in enumerate(draft.objects(*_ABOVE, "hugepageLimits")):
        if (row.get("pageSize") or "") == limit.page_size:
            rows[place] = {**row, "limit": limit.limit}
            return
    rows.append({"pageSize": limit.page_size, "limit": limit.limit})


def _pids(draft: Draft, limit: int, rules: Rules) -> None:
    """Set the limit of processes; below 0 it is none, which has to be in the spec. The reference keeps the old."""
    pids = draft.table(*_ABOVE, "pids")
    if limit >= 0:
        pids["limit"] = limit
    elif rules.unlimited_pids_applied:
        pids["limit"] = -1


def _device_rule(device: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"allow": device.allow}
    for field in ("type", "major", "minor", "access"):
        if field in ("type", "access"):
            if value := getattr(device, field):
                made[field] = value
        elif device.HasField(field):
            made[field] = getattr(device, field).value
    return made


def without_unset(resources: Any) -> Any:
    """The resources of an update without the zeros by which a request says "not set", as a message of its own.

    Runtimes show plugins all of the request's scalars, 0 where the kubelet set none, and plugins hand them back.
    """
    made = type(resources)()
    made.CopyFrom(resources)
    for part, name in _UNSET_AT_ZERO:
        held = getattr(made, part)
        if held.HasField(name) and not getattr(held, name).value:
            held.ClearField(name)
    for part in ("cpu", "memory"):
        if not getattr(made, part).ListFields():
            made.ClearField(part)
    return made


def to_oci(resources: Any) -> dict[str, Any]:
    """Make the spec's ``linux.resources`` of a LinuxResources message, as OCI runtimes take it for an update.

    Only what is given is in there; a runtime leaves the rest as it is. Classes are not: resolve them, and add them.
    """
    made: dict[str, Any] = {}
    memory = {key: get(resources.memory, field) for field, key in MEMORY if resources.memory.HasField(field)}
    cpu = {key: get(resources.cpu, field) for field, key in CPU if resources.cpu.HasField(field)}
    cpu |= {field: value for field in CPUSET if (value := getattr(resources.cpu, field))}
    if memory:
        made["memory"] = memory
    if cpu:
        made["cpu"] = cpu
    if resources.HasField("pids"):
        made["pids"] = {"limit": max(resources.pids.limit, -1)}
    if resources.hugepage_limits:
        made["hugepageLimits"] = [{"pageSize": one.page_size, "limit": one.limit} for one in resources.hugepage_limits]
    if resources.unified:
        made["unified"] = dict(resources.unified)
    if resources.devices:
        made["devices"] = [_device_rule(device) for device in resources.devices]
    return made
