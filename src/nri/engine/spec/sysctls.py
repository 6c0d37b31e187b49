"""The sysctls of a pod: only those that its own namespaces have, each under one name.

A name is taken apart into the names of folders and file below /proc/sys, and is nothing else from there on;
either form is read, ``net.ipv4.ip_forward`` and ``net/ipv4/ip_forward``, in which a separator of the other form is a
dot of an interface's name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

_PART = re.compile(r"[A-Za-z0-9_@:-][A-Za-z0-9_.@:-]*")
_LONGEST_NAME = 253  # as Kubernetes has it
_LONGEST_VALUE = 1024
_NETWORK = "net"
#: The folder of the sysctls that IPC and UTS namespaces have for themselves, their names, and the namespace
#: (ipc/ipc_sysctl.c, ipc/mq_sysctl.c, kernel/utsname_sysctl.c).
_IPC = "auto_msgmni msg_next_id msgmax msgmnb msgmni sem sem_next_id shm_next_id shm_rmid_forced shmall shmmax shmmni"
_FILES = (
    (("kernel",), _IPC, "ipc"),
    (("fs", "mqueue"), "msg_default msg_max msgsize_default msgsize_max queues_max", "ipc"),
    (("kernel",), "hostname domainname", "uts"),
)
_OTHERS = {(*folder, name): kind for folder, names, kind in _FILES for name in names.split()}
#: The option of the pod that decides about a namespace.
_MODE = {"network": "network", "ipc": "ipc", "uts": "network"}


class Sysctl(NamedTuple):
    """One setting of a pod. `path` is folders and file below /proc/sys, one name each; `field` is for errors."""

    path: tuple[str, ...]
    value: str
    field: str

    @property
    def name(self) -> str:
        """The name with dots, in which a slash is a dot of an interface's name."""
        return ".".join(part.replace(".", "/") for part in self.path)


def pod_sysctls(config: pb.PodSandboxConfig) -> list[Sysctl]:
    """The sysctls of a pod, each once.

    Raises:
        RequestError: one that no namespace has for itself, one whose namespace this pod shares with the node, one
            that is asked for with two values, or a value that none can have.
    """
    asked = config.linux.security_context.namespace_options
    made: dict[tuple[str, ...], Sysctl] = {}
    for name, value in config.linux.sysctls.items():
        field = f"linux.sysctls[{name}]"
        path = _path(name)
        kind = _kind(path)
        if not kind:
            raise RequestError(field, value, "is a setting of the whole node, not of a pod")
        if getattr(asked, _MODE[kind]) == pb.NODE:
            raise RequestError(field, value, f"the pod shares its {kind} namespace with the node")
        if len(value) > _LONGEST_VALUE or not value.replace("\t", " ").isprintable():
            raise RequestError(field, value, f"is not one line of at most {_LONGEST_VALUE} characters")
        if made.setdefault(path, Sysctl(path, value, field)).value != value:
            raise RequestError(field, value, f"is {made[path].value!r} under another spelling of the name")
    return list(made.values())


def _path(name: str) -> tuple[str, ...]:
    """Folders and file of a sysctl; nothing for a name that can be none."""
    separator = next((char for char in name if char in "./"), "")
    if not separator or len(name) > _LONGEST_NAME:
        return ()
    parts = name.split(separator)
    if separator == ".":
        parts = [part.replace("/", ".") for part in parts]
    return tuple(parts) if all(map(_PART.fullmatch, parts)) else ()


def _kind(path: tuple[str, ...]) -> str:
    """The namespace that has this setting for itself; "" for none."""
    return "network" if len(path) > 1 and path[0] == _NETWORK else _OTHERS.get(path, "")
