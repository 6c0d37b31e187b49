"""The Linux part of a spec: devices, namespaces, sysctls, network devices, seccomp, memory policy, RDT.

Each function is one step of `nri.oci.generator`: a draft and a part of the adjustment go in, the draft is changed.
Resources have a module of their own: `nri.oci.resources`.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.removal import split
from nri.errors import SpecError
from nri.oci.process import adjust_map, enum_name
from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from nri.oci.draft import Draft
    from nri.rules import Rules

NAMESPACES = frozenset({"network", "pid", "mount", "ipc", "uts", "user", "cgroup"})


def devices(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Add and remove device nodes, and with them what the device cgroup allows."""
    for device in adjusted:
        path, marked = split(device.path)
        remove_device(draft, path, rules)
        if not marked:
            put_device(draft, _node(device))
            rule = {"allow": True, "type": device.type, "major": device.major, "minor": device.minor}
            allow_device(draft, {**rule, "access": _access(device, rules)}, again=not rules.device_removal_revokes)


def remove_device(draft: Draft, path: str, rules: Rules) -> None:
    """Take out the device at a path. The reference takes the first of several, and leaves what the cgroup allows."""
    found = [row for row in draft.objects("linux", "devices") if (row.get("path") or "") == path]
    gone = found if rules.removal_takes_all else found[:1]
    if not gone:
        return
    rows = draft.rows("linux", "devices")
    for row in gone:
        rows.remove(row)
    if rules.device_removal_revokes:
        _revoke(draft, gone)


def _revoke(draft: Draft, gone: list[dict[str, Any]]) -> None:
    """Take out the rules that allow just these devices, unless another node of the spec is the same device."""
    numbers = {_numbers(row) for row in gone} - {_numbers(row) for row in draft.objects("linux", "devices")}
    rules = draft.objects("linux", "resources", "devices")
    kept = [rule for rule in rules if not (rule.get("allow") and _numbers(rule) in numbers)]
    if len(kept) != len(rules):
        draft.rows("linux", "resources", "devices")[:] = kept


def _numbers(row: dict[str, Any]) -> str:
    """Type and numbers of a device as text, for a spec may have anything there. A rule for all devices equals none."""
    return repr((row.get("type"), row.get("major"), row.get("minor")))


def put_device(draft: Draft, node: dict[str, Any]) -> None:
    """Add a device node; it takes the place of one with its path."""
    rows = draft.rows("linux", "devices")
    for place, row in enumerate(draft.objects("linux", "devices")):
        if (row.get("path") or "") == node["path"]:
            rows[place] = node
            return
    rows.append(node)


def allow_device(draft: Draft, rule: dict[str, Any], *, again: bool = True) -> None:
    """Append a rule of the device cgroup; unless `again`, not one that is there."""
    rows = draft.rows("linux", "resources", "devices")
    if again or rule not in rows:
        rows.append(rule)


def _node(device: Any) -> dict[str, Any]:
    made = {"path": device.path, "type": device.type, "major": device.major, "minor": device.minor}
    for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
        if device.HasField(field):
            made[key] = getattr(device, field).value
    return made


def _access(device: Any, rules: Rules) -> str:
    """The access that a cgroup allows: as the file mode says (the reference: always rw), and mknod of block devices."""
    mode = device.file_mode.value & 0o666 if rules.device_access_follows_mode else 0
    letters = ("r" if mode & 0o444 else "") + ("w" if mode & 0o222 else "")
    return (letters or "rw") + ("m" if device.type == "b" else "")


def namespaces(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set and remove namespaces, each type once."""
    for namespace in adjusted:
        kind, marked = split(namespace.type)
        if kind not in NAMESPACES and not (kind == "time" and rules.time_namespace_known):
            raise SpecError("", f"unrecognized namespace {quote(kind)}")
        places = [place for place, row in enumerate(draft.objects("linux", "namespaces")) if row.get("type") == kind]
        if marked:
            for place in reversed(places if rules.removal_takes_all else places[:1]):
                del draft.rows("linux", "namespaces")[place]
            continue
        made = {"type": kind, "path": namespace.path} if namespace.path else {"type": kind}
        rows = draft.rows("linux", "namespaces")
        if places:
            rows[places[0]] = made
        else:
            rows.append(made)


def sysctl(draft: Draft, entries: Mapping[str, str]) -> None:
    """Set and remove kernel parameters."""
    adjust_map(entries, lambda: draft.table("linux", "sysctl"), lambda key: draft.drop("linux", "sysctl", key))


def net_devices(draft: Draft, entries: Mapping[str, Any]) -> None:
    """Move network devices of the host in, by their name there, or leave them where they are."""
    if entries:
        draft.table("linux")
    named = {host: {"name": device.name} if device.name else {} for host, device in entries.items()}
    adjust_map(named, lambda: draft.table("linux", "netDevices"), lambda key: draft.drop("linux", "netDevices", key))


def seccomp(draft: Draft, policy: Any, rules: Rules) -> None:
    """Replace the seccomp policy."""
    made: dict[str, Any] = {"defaultAction": policy.default_action}
    if policy.HasField("default_errno") and rules.seccomp_errno_kept:
        made["defaultErrnoRet"] = policy.default_errno.value
    for field, key in (("architectures", "architectures"), ("flags", "flags")):
        if values := list(getattr(policy, field)):
            made[key] = values
    for field, key in (("listener_path", "listenerPath"), ("listener_metadata", "listenerMetadata")):
        if value := getattr(policy, field):
            made[key] = value
    if policy.syscalls:
        made["syscalls"] = [_syscall(syscall) for syscall in policy.syscalls]
    draft.table("linux")["seccomp"] = made


def _syscall(syscall: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"names": list(syscall.names), "action": syscall.action}
    if syscall.HasField("errno_ret"):
        made["errnoRet"] = syscall.errno_ret.value
    if syscall.args:
        made["args"] = [_syscall_argument(argument) for argument in syscall.args]
    return made


def _syscall_argument(argument: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"index": argument.index, "value": argument.value, "op": argument.op}
    if argument.value_two:
        made["valueTwo"] = argument.value_two
    return made


def memory_policy(draft: Draft, policy: Any, rules: Rules) -> None:
    """Replace the memory policy."""
    linux = draft.table("linux")
    mode = enum_name(m.MpolMode, "LinuxMemoryPolicy", policy.mode, rules)
    if not mode:
        linux.pop("memoryPolicy", None)
        return
    made: dict[str, Any] = {"mode": mode, "nodes": policy.nodes}
    if policy.flags:
        made["flags"] = [enum_name(m.MpolFlag, "LinuxMemoryPolicy", flag, rules) for flag in policy.flags]
    linux["memoryPolicy"] = made


def rdt(draft: Draft, adjusted: Any) -> None:
    """Set the fields of the RDT settings that are given; `remove` takes away what was there before."""
    if adjusted.remove:
        draft.table("linux").pop("intelRdt", None)
    for field, key in (("clos_id", "closID"), ("schemata", "schemata"), ("enable_monitoring", "enableMonitoring")):
        if adjusted.HasField(field):
            value = getattr(adjusted, field).value
            draft.table("linux", "intelRdt")[key] = list(value) if field == "schemata" else value
