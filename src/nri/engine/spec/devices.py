"""The device nodes of a container, and the rules of its device cgroup.

The first rule forbids all devices, and the following rules allow harmless and requested devices. OCI runtimes create
the nodes of the harmless devices, but some OCI runtimes add no rules for them. A privileged container gets all devices
of the host.
"""

from __future__ import annotations

import posixpath
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Device, Options
from nri.engine.spec.limits import check_path
from nri.engine.spec.user import checked_id
from nri.errors import RequestError

_FORBID_ALL = {"allow": False, "access": "rwm"}
_ALLOW_ALL = {"allow": True, "access": "rwm"}
#: Type, major, minor (None: all), access.
_HARMLESS = (
    ("c", None, None, "m"),  # creating a node does not allow using it
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
#: Devices that runtimes create, or that must not be the host's.
_RUNTIME_DEVICES = ("/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/console", "/dev/ptmx", "/dev/tty")  # noqa: S108


def devices(config: pb.ContainerConfig, options: Options) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return ``linux.devices`` and ``linux.resources.devices`` of a container.

    Raises:
        RequestError: a device does not exist, or its permissions are invalid.
    """
    rules: list[dict[str, Any]] = [dict(_FORBID_ALL), *(_rule(*row) for row in _HARMLESS)]
    nodes: dict[str, dict[str, Any]] = {}
    privileged = config.linux.security_context.privileged
    if privileged and options.host_devices:
        host_devices = (node for node in options.devices.get("/dev", ()) if not _is_runtime_device(node.path))
        nodes = {node.path: _node(node, node.path) for node in host_devices}
    owners = _owners(config) if options.owned_devices else {}
    for index, device in enumerate(config.devices):
        access = _access(device.permissions, f"devices[{index}].permissions")
        for node in _host_devices(device, f"devices[{index}]", options):
            inside = posixpath.join("/", device.container_path or device.host_path)
            path = inside.rstrip("/") + node.path.removeprefix(device.host_path.rstrip("/"))
            nodes[path] = {**_node(node, path), **owners}
            rules.append(_rule(node.type, node.major, node.minor, access))
    return list(nodes.values()), [dict(_ALLOW_ALL)] if privileged and options.all_devices_allowed else rules


def _owners(config: pb.ContainerConfig) -> dict[str, int]:
    """The owner and group of requested devices; root leaves those of the host, as in containerd."""
    context = config.linux.security_context
    ids = {
        "uid": checked_id(context.run_as_user.value, "run_as_user"),
        "gid": checked_id(context.run_as_group.value, "run_as_group"),
    }
    return {key: number for key, number in ids.items() if number}


def _host_devices(device: pb.Device, field: str, options: Options) -> list[Device]:
    """Return the device at a path of the host, or all devices in a folder."""
    if not device.host_path.startswith("/"):
        raise RequestError(f"{field}.host_path", device.host_path, "must be an absolute path")
    for name in ("container_path", "host_path"):
        check_path(f"{field}.{name}", getattr(device, name))
    nodes = list(options.devices.get(device.host_path, ()))
    if not nodes:
        raise RequestError(f"{field}.host_path", device.host_path, "is neither a device nor a folder with devices")
    return nodes


def _access(permissions: str, field: str) -> str:
    """Check a combination of r, w and m. An empty string means all three, as in other runtimes."""
    if set(permissions) - set("rwm"):
        raise RequestError(field, permissions, "must be a combination of r, w and m")
    return permissions or "rwm"


def _is_runtime_device(path: str) -> bool:
    return path in _RUNTIME_DEVICES or path.startswith(("/dev/pts/", "/dev/shm/", "/dev/mqueue/"))  # noqa: S108


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
    known_numbers = {name: number for name, number in numbers.items() if number is not None}
    return {"allow": True, "type": kind, **known_numbers, "access": access}
