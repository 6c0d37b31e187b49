"""Sysctls of namespaces, by name and value.

A name is split into the names of folders and file below /proc/sys. Its parts are separated by dots or by slashes:
``net.ipv4.ip_forward`` or ``net/ipv4/ip_forward``. If they are separated by dots, a slash stands for a dot in the name
of a network interface.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.errors import RequestError

_PART = re.compile(r"[A-Za-z0-9_@:-][A-Za-z0-9_.@:-]*")
_MAX_NAME_LENGTH = 253  # as in Kubernetes
_MAX_VALUE_LENGTH = 1024
_NETWORK = "net"
#: Folder, names and namespace of sysctls that IPC and UTS namespaces have separately
#: (ipc/ipc_sysctl.c, ipc/mq_sysctl.c, kernel/utsname_sysctl.c).
_IPC = "auto_msgmni msg_next_id msgmax msgmnb msgmni sem sem_next_id shm_next_id shm_rmid_forced shmall shmmax shmmni"
_FILES = (
    (("kernel",), _IPC, "ipc"),
    (("fs", "mqueue"), "msg_default msg_max msgsize_default msgsize_max queues_max", "ipc"),
    (("kernel",), "hostname domainname", "uts"),
)
_OTHERS = {(*folder, name): kind for folder, names, kind in _FILES for name in names.split()}


class Sysctl(NamedTuple):
    """A sysctl of a pod. `path` has the names of folders and file below /proc/sys. `field` is the field in errors."""

    path: tuple[str, ...]
    value: str
    field: str

    @property
    def name(self) -> str:
        """The name with dots as separators. A slash stands for a dot in the name of a network interface."""
        return ".".join(part.replace(".", "/") for part in self.path)

    @property
    def kind(self) -> str:
        """The kind of namespace that has this sysctl: network, ipc or uts; "" if it belongs to no namespace."""
        is_network = len(self.path) > 1 and self.path[0] == _NETWORK
        return "network" if is_network else _OTHERS.get(self.path, "")


def parse_sysctl(name: str, value: str, field: str) -> Sysctl:
    """Parse a sysctl. Raises RequestError if the name is unknown, or if the value is invalid."""
    path = _path(name)
    sysctl = Sysctl(path, value, field)
    if not sysctl.kind:
        raise RequestError(field, value, "is not a sysctl of a pod's namespaces")
    if len(value) > _MAX_VALUE_LENGTH or not value.replace("\t", " ").isprintable():
        raise RequestError(field, value, f"must be one line of at most {_MAX_VALUE_LENGTH} characters")
    return sysctl


def _path(name: str) -> tuple[str, ...]:
    """Return the names of folders and file of a sysctl, or () if the name is invalid."""
    separator = next((char for char in name if char in "./"), "")
    if not separator or len(name) > _MAX_NAME_LENGTH:
        return ()
    parts = name.split(separator)
    if separator == ".":
        parts = [part.replace("/", ".") for part in parts]
    return tuple(parts) if all(map(_PART.fullmatch, parts)) else ()
