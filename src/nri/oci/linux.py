"""Steps of the generator for the Linux fields of a spec: devices, namespaces, sysctls, seccomp, memory policy, RDT.

Each public function applies some fields of the adjustment to a draft.
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
    """Add and remove device nodes, together with their rules in the device cgroup."""
    for device in adjusted:
        path, is_removal = split(device.path)
        remove_device(draft, path, rules)
        if not is_removal:
            put_device(draft, _node(device))
            rule = {"allow": True, "type": device.type, "major": device.major, "minor": device.minor}
            allow_device(draft, {**rule, "access": _access(device, rules)}, duplicate=not rules.device_removal_revokes)


def remove_device(draft: Draft, path: str, rules: Rules) -> None:
    """Remove the devices at a path. The Go library removes only the first, and leaves the device cgroup's rules."""
    matches = [row for row in draft.objects("linux", "devices") if (row.get("path") or "") == path]
    removed = matches if rules.removal_takes_all else matches[:1]
    if not removed:
        return
    rows = draft.rows("linux", "devices")
    for row in removed:
        rows.remove(row)
    if rules.device_removal_revokes:
        _remove_device_rules(draft, removed)


def _remove_device_rules(draft: Draft, removed: list[dict[str, Any]]) -> None:
    """Remove the rules that allow exactly these devices, unless another node of the spec is the same device."""
    numbers = {_numbers(row) for row in removed} - {_numbers(row) for row in draft.objects("linux", "devices")}
    rules = draft.objects("linux", "resources", "devices")
    kept_rules = [rule for rule in rules if not (rule.get("allow") and _numbers(rule) in numbers)]
    if len(kept_rules) != len(rules):
        draft.rows("linux", "resources", "devices")[:] = kept_rules


def _numbers(row: dict[str, Any]) -> str:
    """Type and numbers of a device as a string, because a spec may have values of any type in these fields."""
    return repr((row.get("type"), row.get("major"), row.get("minor")))


def put_device(draft: Draft, node: dict[str, Any]) -> None:
    """Add a device node, or replace the node with the same path."""
    rows = draft.rows("linux", "devices")
    for place, row in enumerate(draft.objects("linux", "devices")):
        if (row.get("path") or "") == node["path"]:
            rows[place] = node
            return
    rows.append(node)


def allow_device(draft: Draft, rule: dict[str, Any], *, duplicate: bool = True) -> None:
    """Append a rule to the device cgroup. Without `duplicate`, only if the rule does not exist yet."""
    rows = draft.rows("linux", "resources", "devices")
    if duplicate or rule not in rows:
        rows.append(rule)


def _node(device: Any) -> dict[str, Any]:
    node = {"path": device.path, "type": device.type, "major": device.major, "minor": device.minor}
    for field, key in (("file_mode", "fileMode"), ("uid", "uid"), ("gid", "gid")):
        if device.HasField(field):
            node[key] = getattr(device, field).value
    return node


def _access(device: Any, rules: Rules) -> str:
    """The access that a cgroup allows: by the file mode (in the Go library: rw), and mknod for block devices."""
    mode = device.file_mode.value & 0o666 if rules.device_access_follows_mode else 0
    letters = ("r" if mode & 0o444 else "") + ("w" if mode & 0o222 else "")
    return (letters or "rw") + ("m" if device.type == "b" else "")


def namespaces(draft: Draft, adjusted: Iterable[Any], rules: Rules) -> None:
    """Set and remove namespaces, at most one of each type."""
    for namespace in adjusted:
        kind, is_removal = split(namespace.type)
        if kind not in NAMESPACES and not (kind == "time" and rules.time_namespace_known):
            raise SpecError("", f"unrecognized namespace {quote(kind)}")
        places = [place for place, row in enumerate(draft.objects("linux", "namespaces")) if row.get("type") == kind]
        if is_removal:
            for place in reversed(places if rules.removal_takes_all else places[:1]):
                del draft.rows("linux", "namespaces")[place]
            continue
        new_row = {"type": kind, "path": namespace.path} if namespace.path else {"type": kind}
        rows = draft.rows("linux", "namespaces")
        if places:
            rows[places[0]] = new_row
        else:
            rows.append(new_row)


def sysctl(draft: Draft, entries: Mapping[str, str]) -> None:
    """Set and remove kernel parameters."""
    adjust_map(entries, lambda: draft.table("linux", "sysctl"), lambda key: draft.drop("linux", "sysctl", key))


def net_devices(draft: Draft, entries: Mapping[str, Any]) -> None:
    """Move network devices of the host into the container, by host name, or remove them from the spec."""
    if entries:
        draft.table("linux")
    named = {host: {"name": device.name} if device.name else {} for host, device in entries.items()}
    adjust_map(named, lambda: draft.table("linux", "netDevices"), lambda key: draft.drop("linux", "netDevices", key))


def seccomp(draft: Draft, policy: Any, rules: Rules) -> None:
    """Replace the seccomp policy."""
    profile: dict[str, Any] = {"defaultAction": policy.default_action}
    if policy.HasField("default_errno") and rules.seccomp_errno_kept:
        profile["defaultErrnoRet"] = policy.default_errno.value
    for field, key in (("architectures", "architectures"), ("flags", "flags")):
        if values := list(getattr(policy, field)):
            profile[key] = values
    for field, key in (("listener_path", "listenerPath"), ("listener_metadata", "listenerMetadata")):
        if value := getattr(policy, field):
            profile[key] = value
    if policy.syscalls:
        profile["syscalls"] = [_syscall(syscall) for syscall in policy.syscalls]
    draft.table("linux")["seccomp"] = profile


def _syscall(syscall: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"names": list(syscall.names), "action": syscall.action}
    if syscall.HasField("errno_ret"):
        row["errnoRet"] = syscall.errno_ret.value
    if syscall.args:
        row["args"] = [_syscall_argument(argument) for argument in syscall.args]
    return row


def _syscall_argument(argument: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"index": argument.index, "value": argument.value, "op": argument.op}
    if argument.value_two:
        row["valueTwo"] = argument.value_two
    return row


def memory_policy(draft: Draft, policy: Any, rules: Rules) -> None:
    """Replace the memory policy."""
    linux = draft.table("linux")
    mode = enum_name(m.MpolMode, "LinuxMemoryPolicy", policy.mode, rules)
    if not mode:
        linux.pop("memoryPolicy", None)
        return
    row: dict[str, Any] = {"mode": mode, "nodes": policy.nodes}
    if policy.flags:
        row["flags"] = [enum_name(m.MpolFlag, "LinuxMemoryPolicy", flag, rules) for flag in policy.flags]
    linux["memoryPolicy"] = row


def rdt(draft: Draft, adjusted: Any) -> None:
    """Set the given fields of the RDT settings. `remove` drops the previous settings first."""
    if adjusted.remove:
        draft.table("linux").pop("intelRdt", None)
    for field, key in (("clos_id", "closID"), ("schemata", "schemata"), ("enable_monitoring", "enableMonitoring")):
        if adjusted.HasField(field):
            value = getattr(adjusted, field).value
            draft.table("linux", "intelRdt")[key] = list(value) if field == "schemata" else value
