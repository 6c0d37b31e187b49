"""The device nodes of a container, and what its device cgroup allows.

Everything is forbidden, then the harmless devices are allowed, then those of the request. OCI runtimes make the
harmless nodes by themselves; the rules are written out, because not all of them add these too. A privileged container
has all devices of the host, and may use any.
"""

from __future__ import annotations

from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Device, Options
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

_FORBID_ALL = {"allow": False, "access": "rwm"}
_ALLOW_ALL = {"allow": True, "access": "rwm"}
#: type, major, minor (None: all of them), access.
_HARMLESS = (
    ("c", None, None, "m"),  # making a node is no use of it
    ("b", None, None, "m"),
    ("c", 1, 3, "rwm"),  # /dev/null
    ("c", 1, 5, "rwm"),  # /dev/zero
    ("c", 1, 7, "rwm"),  # /dev/full
    ("c", 1, 8, "rwm"),  # /dev/random
    ("c", 1, 9, "rwm"),  # /dev/urandom
    ("c", 5, 0, "rwm"),  # /dev/tty
    ("c", 5, 1, "rwm"),  # /dev/console
    ("c", 5, 2, "rwm"),  # /dev/ptmx
    ("c", 136, None, "rwm"),  # /dev/pts/*
)
#: Devices that runtimes make by themselves, or that must not be the host's.
_OWN = ("/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/console", "/dev/ptmx", "/dev/tty")  # noqa: S108


def devices(config: pb.ContainerConfig, options: Options) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The ``linux.devices`` and the ``linux.resources.devices`` of a container.

    Raises:
        RequestError: a device that is not there, or permissions that are none.
    """
    rules: list[dict[str, Any]] = [dict(_FORBID_ALL), *(_rule(*row) for row in _HARMLESS)]
    nodes: dict[str, dict[str, Any]] = {}
    privileged = config.linux.security_context.privileged
    if privileged:
        every = (node for node in options.devices.get("/dev", ()) if not _is_own(node.path))
        nodes = {node.path: _node(node, node.path) for node in every}
    for index, device in enumerate(config.devices):
        access = _access(device.permissions, f"devices[{index}].permissions")
        for node in _found(device, f"devices[{index}]", options):
            inside = device.container_path or device.host_path
            path = inside.rstrip("/") + node.path.removeprefix(device.host_path.rstrip("/"))
            nodes[path] = _node(node, path)
            rules.append(_rule(node.type, node.major, node.minor, access))
    return list(nodes.values()), [dict(_ALLOW_ALL)] if privileged else rules


def _found(device: pb.Device, field: str, options: Options) -> list[Device]:
    """The nodes at a path of the host: one, or all of a folder."""
    for name in ("container_path", "host_path"):
        path = getattr(device, name)
        if not path.startswith("/") and (path or name == "host_path"):
            raise RequestError(f"{field}.{name}", path, "must be an absolute path")
        check_path(f"{field}.{name}", path)
    nodes = list(options.devices.get(device.host_path, ()))
    if not nodes:
        raise RequestError(f"{field}.host_path", device.host_path, "there is no device")
    return nodes


def _access(permissions: str, field: str) -> str:
    """Any of r, w and m. Nothing said means all, as in the field."""
    if set(permissions) - set("rwm"):
        raise RequestError(field, permissions, "permissions are r, w and m")
    return permissions or "rwm"


def _is_own(path: str) -> bool:
    return path in _OWN or path.startswith(("/dev/pts/", "/dev/shm/", "/dev/mqueue/"))  # noqa: S108


def _node(device: Device, path: str) -> dict[str, Any]:
    return {
        "path": path,
        "type": device.type,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": device.uid,
        "gid": device.gid,
    }


def _rule(kind: str, major: int | None, minor: int | None, access: str) -> dict[str, Any]:
    numbers = {"major": major, "minor": minor}
    given = {name: number for name, number in numbers.items() if number is not None}
    return {"allow": True, "type": kind, **given, "access": access}
