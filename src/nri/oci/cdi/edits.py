"""Edits of CDI files applied to a spec. Next: `nri.oci.cdi.host_nodes` for what the host has to say.

All edits come together first, and are then applied kind by kind, so that a later device wins over an earlier one. The
rules of `nri.rules` do not matter here: these are the CDI library's own.
"""

from __future__ import annotations

from nri.oci import linux, mounts
from nri.oci.cdi.host_nodes import complete
from nri.oci.propagation import clean_path
from nri.rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.oci.cdi.format import Edits, Hook, IntelRdt, Mount
    from nri.oci.draft import Draft

__all__ = ["apply"]

_NO_PERMISSIONS = "none"


def apply(draft: Draft, edits: Iterable[Edits], root: str = "/") -> None:
    """Apply edits, in their order, to a spec. SpecError if the host lacks a device."""
    every = list(edits)
    _env(draft, [entry for each in every for entry in each.env or ()])
    for each in every:
        for node in each.deviceNodes or ():
            _node(draft, complete(node, root), node.permissions)
    for each in every:
        for device in each.netDevices or ():
            draft.table("linux", "netDevices")[device.hostInterfaceName] = {"name": device.name}
    _mounts(draft, [mount for each in every for mount in each.mounts or ()])
    for each in every:
        for hook in each.hooks or ():
            draft.rows("hooks", hook.hookName).append(_hook(hook))
    for each in every:
        if each.intelRdt is not None:
            draft.table("linux")["intelRdt"] = _rdt(each.intelRdt)
    for each in every:
        for gid in each.additionalGids or ():
            if gid and gid not in (draft.find("process", "user", "additionalGids") or ()):
                draft.rows("process", "user", "additionalGids").append(gid)


def _env(draft: Draft, entries: list[str]) -> None:
    """Set variables: in the place of the last one of that name, or at the end."""
    if not entries:
        return
    places = {entry.partition("=")[0]: place for place, entry in enumerate(draft.texts("process", "env"))}
    rows = draft.rows("process", "env")
    for entry in entries:
        name = entry.partition("=")[0]
        if name in places:
            rows[places[name]] = entry
        else:
            places[name] = len(rows)
            rows.append(entry)


def _node(draft: Draft, made: dict[str, Any], permissions: str) -> None:
    """Add a device, owned by the container's user unless the file says otherwise, and allow it to be used."""
    for key in ("uid", "gid"):
        own = draft.find("process", "user", key)
        if key not in made and own:
            made[key] = own
    linux.remove_device(draft, made["path"], Rules.REFERENCE)
    linux.put_device(draft, made)
    if made["type"] in ("b", "c"):
        rule = {"allow": True, "type": made["type"], "major": made["major"], "minor": made["minor"]}
        if permissions != _NO_PERMISSIONS:
            rule["access"] = permissions or "rwm"
        linux.allow_device(draft, rule)


def _mounts(draft: Draft, wanted: list[Mount]) -> None:
    if not wanted:
        return
    users = any(row.get("type") == "user" for row in draft.objects("linux", "namespaces"))
    for mount in wanted:
        mounts.remove(draft, mount.containerPath, Rules.REFERENCE)
        mounts.put(draft, _mount(mount, users))
    draft.rows("mounts").sort(key=lambda row: clean_path(str(row.get("destination") or "")).count("/"))


def _mount(mount: Mount, users: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"destination": mount.containerPath, "source": mount.hostPath}
    options = list(mount.options or ())
    if users and (mapped := _id_mapping(mount.type, options)):
        options.append(mapped)
    if mount.type:
        made["type"] = mount.type
    if options:
        made["options"] = options
    return made


def _id_mapping(kind: str, options: list[str]) -> str:
    """The option that maps a bind mount's owners into the container's user namespace; "" where none is to be added."""
    mapped = "idmap" if kind == "bind" else ""
    for option in options:
        if option in ("idmap", "ridmap"):
            return ""
        mapped = {"bind": "idmap", "rbind": "ridmap"}.get(option, mapped)
    return mapped


def _hook(hook: Hook) -> dict[str, Any]:
    made: dict[str, Any] = {"path": hook.path}
    for key in ("args", "env"):
        if values := getattr(hook, key):
            made[key] = list(values)
    if hook.timeout is not None:
        made["timeout"] = hook.timeout
    return made


def _rdt(rdt: IntelRdt) -> dict[str, Any]:
    keys = ("closID", "l3CacheSchema", "memBwSchema", "schemata", "enableMonitoring")
    return {key: value for key in keys if (value := getattr(rdt, key))}
