"""Capabilities of a container's process: the default ones, added and dropped ones.

Names with or without CAP_, in any case, and ALL. ALL is settled first, then single ones are added, then
dropped: adding NET_ADMIN and dropping ALL leaves NET_ADMIN alone, as in the field. ALL is all that the engine has.
Inheritable ones are none, and ambient ones only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError

#: In the kernel's order, so the place of each is its number (linux/capability.h, Linux 5.9).
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
#: The capabilities of a container that asks for nothing: the set that containers have had since the first Docker.
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
        RequestError: a name is no capability, or one is asked for by name that the engine itself does not have.
    """
    if security.privileged:
        return sets(available)
    asked = security.capabilities
    add = _names(asked.add_capabilities, "add_capabilities")
    drop = _names(asked.drop_capabilities, "drop_capabilities")
    ambient = _names(asked.add_ambient_capabilities, "add_ambient_capabilities")
    chosen = {name for name in DEFAULT if name in available}
    if _ALL in add:
        chosen = set(available)
    if _ALL in drop:
        chosen = set()
    for field, wanted in (("add_capabilities", add), ("add_ambient_capabilities", ambient)):
        for name in wanted:
            if name != _ALL and name not in available:
                raise RequestError(f"{_FIELD}.{field}", name, "the engine itself does not have it")
    raised = {name for name in ambient if name != _ALL} | (set(available) if _ALL in ambient else set())
    chosen |= {name for name in add if name != _ALL} | raised
    chosen -= set(drop)
    return sets([name for name in KNOWN if name in chosen], [name for name in KNOWN if name in raised & chosen])


def sets(chosen: Iterable[str], ambient: Sequence[str] = ()) -> dict[str, list[str]]:
    """The capability sets of a process. An ambient one has to be inheritable too, else the kernel refuses it."""
    held = list(chosen)
    made = {"bounding": held, "effective": list(held), "permitted": list(held)}
    return made | ({"inheritable": list(ambient), "ambient": list(ambient)} if ambient else {})


def _names(given: Iterable[str], field: str) -> list[str]:
    """The names as the kernel's header has them."""
    made = []
    for name in given:
        full = name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"
        if full != _ALL and full not in KNOWN:
            raise RequestError(f"{_FIELD}.{field}", name, "is no capability")
        made.append(full)
    return made
