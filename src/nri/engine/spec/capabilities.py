"""Capabilities of a container's process: the default ones with additions and removals.

Names may lack CAP_, and have any case. ALL, which means all of the engine's, is applied first, then names are added,
then dropped: adding NET_ADMIN and dropping ALL leaves only NET_ADMIN, as in other runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

#: In the kernel's order, so that the index is the number (linux/capability.h, Linux 5.9).
KNOWN = tuple(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
        "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
        "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
        "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
        "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
        "CHECKPOINT_RESTORE",
    )
)  # fmt: skip
#: The capabilities of a container that requests none: the traditional set since the first Docker.
DEFAULT = tuple(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
_FIELD = "linux.security_context.capabilities"
_ALL = "CAP_ALL"


def capabilities(security: pb.LinuxContainerSecurityContext, available: Sequence[str]) -> dict[str, list[str]]:
    """The ``process.capabilities`` of a container.

    Raises:
        RequestError: a name is not a capability, or the engine itself lacks a requested capability.
    """
    if security.privileged:
        return sets(available)
    requested = security.capabilities
    add = _names(requested.add_capabilities, "add_capabilities")
    drop = _names(requested.drop_capabilities, "drop_capabilities")
    ambient = _names(requested.add_ambient_capabilities, "add_ambient_capabilities")
    chosen = {name for name in DEFAULT if name in available}
    if _ALL in add:
        chosen = set(available)
    if _ALL in drop:
        chosen = set()
    for field, names in (("add_capabilities", add), ("add_ambient_capabilities", ambient)):
        for name in names:
            if name != _ALL and name not in available:
                raise RequestError(f"{_FIELD}.{field}", name, "is not among the engine's own capabilities")
    raised = {name for name in ambient if name != _ALL} | (set(available) if _ALL in ambient else set())
    chosen |= {name for name in add if name != _ALL} | raised
    chosen -= set(drop)
    return sets([name for name in KNOWN if name in chosen], [name for name in KNOWN if name in raised & chosen])


def sets(chosen: Iterable[str], ambient: Sequence[str] = ()) -> dict[str, list[str]]:
    """The capability sets of a process. Ambient ones have to be inheritable, too; otherwise the kernel rejects them."""
    names = list(chosen)
    result = {"bounding": names, "effective": list(names), "permitted": list(names)}
    return result | ({"inheritable": list(ambient), "ambient": list(ambient)} if ambient else {})


def _names(requested: Iterable[str], field: str) -> list[str]:
    """The full names of capabilities."""
    names = []
    for name in requested:
        full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
        if full != _ALL and full not in KNOWN:
            raise RequestError(f"{_FIELD}.{field}", name, "is not a capability")
        names.append(full)
    return names
