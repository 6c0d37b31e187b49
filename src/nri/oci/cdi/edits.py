"""Edits of CDI files applied to a spec. Next: `nri.oci.cdi.file` for what they are.

All edits come together first, and are then applied kind by kind, so that a later device wins over an earlier one. A
device node is completed by the one that this host has at its path. The rules of `nri.rules` do not matter here: these
are the CDI library's own.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from nri.config.root import inside
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

__all__ = ["apply", "complete"]


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
        if permissions != NO_PERMISSIONS:
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


_TYPES = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))


class _Node(NamedTuple):
    type: str
    major: int
    minor: int
    mode: int


def complete(node: DeviceNode, root: str = "/") -> dict[str, object]:
    """The spec's device of a node, completed by the host's. SpecError if the host lacks what is needed of it.

    A node with type and number needs no host; it takes only the file mode of one that is there.
    """
    made: dict[str, object] = {"path": node.path, "type": node.type, "major": node.major, "minor": node.minor}
    given = bool(node.type and (node.major or node.type == "p"))
    where = node.hostPath or node.path
    mode = node.fileMode
    try:
        host = _look(inside(root, where))
    except OSError as error:
        if not given:
            raise SpecError("", f'CDI device node "{where}": {error.strerror or error}') from None
    else:
        mode = host.mode if mode is None else mode
        if not given:
            if node.type not in ("", host.type):
                raise SpecError("", f'CDI device node "{where}" is of type {host.type}, not {node.type}')
            made["type"] = host.type
            if not node.major and host.type != "p":
                made["major"], made["minor"] = host.major, host.minor
    if mode is not None:
        made["fileMode"] = mode
    return made | {key: value for key, value in (("uid", node.uid), ("gid", node.gid)) if value is not None}


def _look(path: str) -> _Node:
    found = os.lstat(path)
    for is_type, name in _TYPES:
        if is_type(found.st_mode):
            return _Node(name, os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))
    raise OSError(None, "not a device node")
