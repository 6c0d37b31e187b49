"""Capabilities of a container's process: the default ones with additions and removals.

Names may lack CAP_, and have any case. ALL, which means all of the engine's, is applied first, then names are added,
then dropped: adding NET_ADMIN and dropping ALL leaves only NET_ADMIN, as in other runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri.cri.pb import api_pb2 as pb
from nri.engine.support.capabilities import KNOWN, full_name
from nri.errors import RequestError

#: The default capabilities without other settings: the traditional set since the first Docker.
DEFAULT = tuple(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
_FIELD = "linux.security_context.capabilities"
_ALL = "CAP_ALL"


def capabilities(
    security: pb.LinuxContainerSecurityContext, available: Sequence[str], default: Iterable[str] | None = None
) -> dict[str, list[str]]:
    """The ``process.capabilities`` of a container. `default` replaces the usual default ones.

    Raises:
        RequestError: a name is not a capability, or the engine itself lacks a requested capability.
    """
    if security.privileged:
        return sets(available)
    requested = security.capabilities
    add = _names(requested.add_capabilities, "add_capabilities")
    drop = _names(requested.drop_capabilities, "drop_capabilities")
    ambient = _names(requested.add_ambient_capabilities, "add_ambient_capabilities")
    chosen = {name for name in (DEFAULT if default is None else default) if name in available}
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
        full = full_name(name)
        if full != _ALL and full not in KNOWN:
            raise RequestError(f"{_FIELD}.{field}", name, "is not a capability")
        names.append(full)
    return names
