"""Apply the edits of CDI files to a spec, as the CDI library does."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from nri.config.root import resolve_below
from nri.errors import SpecError
from nri.oci import linux, mounts
from nri.oci.cdi.file import NO_PERMISSIONS
from nri.oci.propagation import clean_path
from nri.rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.oci.cdi.file import DeviceNode, Edits, Hook, IntelRdt, Mount
    from nri.oci.draft import Draft


def apply(draft: Draft, edits: Iterable[Edits], root: str = "/") -> None:
    """Apply edits to a spec, in order. Raises SpecError if the host does not have a device.

    Edits are applied kind by kind, so that a later device overrides an earlier device within each kind.
    """
    all_edits = list(edits)
    _env(draft, [entry for edit in all_edits for entry in edit.env or ()])
    for edit in all_edits:
        for node in edit.deviceNodes or ():
            _node(draft, complete(node, root), node.permissions)
    for edit in all_edits:
        for device in edit.netDevices or ():
            draft.table("linux", "netDevices")[device.hostInterfaceName] = {"name": device.name}
    _mounts(draft, [mount for edit in all_edits for mount in edit.mounts or ()])
    for edit in all_edits:
        for hook in edit.hooks or ():
            draft.rows("hooks", hook.hookName).append(_hook(hook))
    for edit in all_edits:
        if edit.intelRdt is not None:
            draft.table("linux")["intelRdt"] = _rdt(edit.intelRdt)
    for edit in all_edits:
        for gid in edit.additionalGids or ():
            if gid and gid not in (draft.find("process", "user", "additionalGids") or ()):
                draft.rows("process", "user", "additionalGids").append(gid)


def _env(draft: Draft, entries: list[str]) -> None:
    """Set environment variables: replace the last variable of the same name, or append."""
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


def _node(draft: Draft, device: dict[str, Any], permissions: str) -> None:
    """Add a device, owned by the container's user unless the file has an owner, and allow access to it."""
    for key in ("uid", "gid"):
        container_id = draft.find("process", "user", key)
        if key not in device and container_id:
            device[key] = container_id
    linux.remove_device(draft, device["path"], Rules.REFERENCE)
    linux.put_device(draft, device)
    if device["type"] in ("b", "c"):
        rule = {"allow": True, "type": device["type"], "major": device["major"], "minor": device["minor"]}
        if permissions != NO_PERMISSIONS:
            rule["access"] = permissions or "rwm"
        linux.allow_device(draft, rule)


def _mounts(draft: Draft, cdi_mounts: list[Mount]) -> None:
    if not cdi_mounts:
        return
    has_user_namespace = any(row.get("type") == "user" for row in draft.objects("linux", "namespaces"))
    for mount in cdi_mounts:
        mounts.remove(draft, mount.containerPath, Rules.REFERENCE)
        mounts.put(draft, _mount(mount, has_user_namespace))
    draft.rows("mounts").sort(key=lambda row: clean_path(str(row.get("destination") or "")).count("/"))


def _mount(mount: Mount, has_user_namespace: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"destination": mount.containerPath, "source": mount.hostPath}
    options = list(mount.options or ())
    if has_user_namespace and (id_mapping := _id_mapping(mount.type, options)):
        options.append(id_mapping)
    if mount.type:
        row["type"] = mount.type
    if options:
        row["options"] = options
    return row


def _id_mapping(kind: str, options: list[str]) -> str:
    """The option that maps a bind mount's owners to the container's user namespace. Returns "" if it is not needed."""
    mapping = "idmap" if kind == "bind" else ""
    for option in options:
        if option in ("idmap", "ridmap"):
            return ""
        mapping = {"bind": "idmap", "rbind": "ridmap"}.get(option, mapping)
    return mapping


def _hook(hook: Hook) -> dict[str, Any]:
    row: dict[str, Any] = {"path": hook.path}
    for key in ("args", "env"):
        if values := getattr(hook, key):
            row[key] = list(values)
    if hook.timeout is not None:
        row["timeout"] = hook.timeout
    return row


def _rdt(rdt: IntelRdt) -> dict[str, Any]:
    keys = ("closID", "l3CacheSchema", "memBwSchema", "schemata", "enableMonitoring")
    return {key: value for key in keys if (value := getattr(rdt, key))}


_TYPES = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))


class _Node(NamedTuple):
    type: str
    major: int
    minor: int
    mode: int


def complete(node: DeviceNode, root: str = "/") -> dict[str, object]:
    """The spec's device for a node, completed with the host's type, numbers and mode.

    A node with type and number does not have to exist on the host. If it exists, only its mode is used.

    Raises:
        SpecError: the host does not have the device, or its node has another type.
    """
    device: dict[str, object] = {"path": node.path, "type": node.type, "major": node.major, "minor": node.minor}
    is_complete = bool(node.type and (node.major or node.type == "p"))
    host_path = node.hostPath or node.path
    mode = node.fileMode
    try:
        host = _host_node(resolve_below(root, host_path))
    except OSError as error:
        if not is_complete:
            raise SpecError("", f'CDI device node "{host_path}": {error.strerror or error}') from None
    else:
        mode = host.mode if mode is None else mode
        if not is_complete:
            if node.type not in ("", host.type):
                raise SpecError("", f'CDI device node "{host_path}" is of type {host.type}, not {node.type}')
            device["type"] = host.type
            if not node.major and host.type != "p":
                device["major"], device["minor"] = host.major, host.minor
    if mode is not None:
        device["fileMode"] = mode
    return device | {key: value for key, value in (("uid", node.uid), ("gid", node.gid)) if value is not None}


def _host_node(path: str) -> _Node:
    status = os.lstat(path)
    for is_type, name in _TYPES:
        if is_type(status.st_mode):
            return _Node(name, os.major(status.st_rdev), os.minor(status.st_rdev), stat.S_IMODE(status.st_mode))
    raise OSError(None, "not a device node")
