"""Convert the API's message of container resources to the OCI format: for a spec, and to update a container."""

from __future__ import annotations

from nri.api.optional import get
from nri.api.resource_names import CPU, CPUSET, MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.oci.draft import Draft
    from nri.rules import Rules

#: Fields in which a request's 0 means "not set". An OCI runtime may use the 0 as a value.
_UNSET_AT_ZERO = (("cpu", "shares"), ("cpu", "quota"), ("cpu", "period"), ("memory", "limit"), ("memory", "swap"))
#: The path of the resources in a spec.
_RESOURCES = ("linux", "resources")


def adjust(draft: Draft, resources: Any, rules: Rules) -> None:
    """Set the given resources, except the block-I/O and RDT classes, which the generator resolves."""
    draft.table("linux")
    if resources.HasField("cpu"):
        _cpu(draft, resources.cpu)
    if resources.HasField("memory"):
        _memory(draft, resources.memory, rules)
    for limit in resources.hugepage_limits:
        _hugepages(draft, limit)
    if resources.unified:
        draft.table(*_RESOURCES, "unified").update(resources.unified)
    if resources.HasField("pids"):
        _pids(draft, resources.pids.limit, rules)
    for device in resources.devices:
        draft.rows(*_RESOURCES, "devices").append(_device_rule(device))


def _cpu(draft: Draft, cpu: Any) -> None:
    for field, key in CPU:
        if cpu.HasField(field):
            draft.table(*_RESOURCES, "cpu")[key] = getattr(cpu, field).value
    for field in CPUSET:
        if value := getattr(cpu, field):
            draft.table(*_RESOURCES, "cpu")[field] = value


def _memory(draft: Draft, memory: Any, rules: Rules) -> None:
    """Set the memory fields of the request. A limit of 0 means "not set".

    A limit also sets `swap`, the limit of memory and swap together, unless the request has its own swap limit. The Go
    library ignores all fields except the limit.
    """
    limit = memory.limit.value
    if limit:
        draft.table(*_RESOURCES, "memory").update(limit=limit, swap=limit)
    if not rules.all_memory_fields_applied:
        return
    for field, key in MEMORY[1:]:
        if memory.HasField(field):
            draft.table(*_RESOURCES, "memory")[key] = getattr(memory, field).value


def _hugepages(draft: Draft, limit: Any) -> None:
    new_limits = draft.rows(*_RESOURCES, "hugepageLimits")
    for place, current in enumerate(draft.objects(*_RESOURCES, "hugepageLimits")):
        if (current.get("pageSize") or "") == limit.page_size:
            new_limits[place] = {**current, "limit": limit.limit}
            return
    new_limits.append({"pageSize": limit.page_size, "limit": limit.limit})


def _pids(draft: Draft, limit: int, rules: Rules) -> None:
    """Set the limit of processes. A negative limit means unlimited; the Go library then keeps the old limit."""
    pids = draft.table(*_RESOURCES, "pids")
    if limit >= 0:
        pids["limit"] = limit
    elif rules.unlimited_pids_applied:
        pids["limit"] = -1


def _device_rule(device: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"allow": device.allow}
    for field in ("type", "major", "minor", "access"):
        if field in ("type", "access"):
            if value := getattr(device, field):
                rule[field] = value
        elif device.HasField(field):
            rule[field] = getattr(device, field).value
    return rule


def without_unset(resources: Any) -> Any:
    """Return a copy of an update's resources without the zeros that mean "not set".

    A runtime sends plugins every scalar of the kubelet's request, as 0 if the kubelet did not set it. Plugins send
    these zeros back.
    """
    copy = type(resources)()
    copy.CopyFrom(resources)
    for part, name in _UNSET_AT_ZERO:
        message = getattr(copy, part)
        if message.HasField(name) and not getattr(message, name).value:
            message.ClearField(name)
    for part in ("cpu", "memory"):
        if not getattr(copy, part).ListFields():
            copy.ClearField(part)
    return copy


def to_oci(resources: Any) -> dict[str, Any]:
    """Convert a LinuxResources message to the spec's ``linux.resources``, to update a container in an OCI runtime.

    The result has only the given fields; a runtime leaves all others unchanged. The block-I/O and RDT classes
    are omitted: callers resolve and add them.
    """
    table: dict[str, Any] = {}
    memory = {key: get(resources.memory, field) for field, key in MEMORY if resources.memory.HasField(field)}
    cpu = {key: get(resources.cpu, field) for field, key in CPU if resources.cpu.HasField(field)}
    cpu |= {field: value for field in CPUSET if (value := getattr(resources.cpu, field))}
    if memory:
        table["memory"] = memory
    if cpu:
        table["cpu"] = cpu
    if resources.HasField("pids"):
        table["pids"] = {"limit": max(resources.pids.limit, -1)}
    if resources.hugepage_limits:
        table["hugepageLimits"] = [
            {"pageSize": limit.page_size, "limit": limit.limit} for limit in resources.hugepage_limits
        ]
    if resources.unified:
        table["unified"] = dict(resources.unified)
    if resources.devices:
        table["devices"] = [_device_rule(device) for device in resources.devices]
    return table
