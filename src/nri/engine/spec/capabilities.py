"""Capabilities of a container's process: the default capabilities with additions and removals.

A name may have any case and may lack the prefix CAP_. ALL means every capability that the engine has. It is applied
first, then single names are added, then removed. So a container that adds NET_ADMIN and drops ALL has only NET_ADMIN,
as in containerd and CRI-O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nri.cri.pb import api_pb2 as pb
from nri.engine.support.capabilities import KNOWN, full_name
from nri.errors import RequestError

#: The capabilities of a container that requests no changes. Docker and containerd use the same list.
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
    """The ``process.capabilities`` of a container. `default` replaces `DEFAULT`.

    Raises RequestError if a name is not a capability, or if the engine itself does not have it.
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
                raise RequestError(f"{_FIELD}.{field}", name, "the engine itself does not have this capability")
    raised = {name for name in ambient if name != _ALL} | (set(available) if _ALL in ambient else set())
    chosen |= {name for name in add if name != _ALL} | raised
    chosen -= set(drop)
    return sets([name for name in KNOWN if name in chosen], [name for name in KNOWN if name in raised & chosen])


def sets(chosen: Iterable[str], ambient: Sequence[str] = ()) -> dict[str, list[str]]:
    """The capability sets of a process. The kernel accepts ambient capabilities only if they are inheritable, too."""
    names = list(chosen)
    result = {"bounding": names, "effective": list(names), "permitted": list(names)}
    return result | ({"inheritable": list(ambient), "ambient": list(ambient)} if ambient else {})


def _names(requested: Iterable[str], field: str) -> list[str]:
    """The full names of requested capabilities. Raises RequestError if a name is unknown."""
    names = []
    for name in requested:
        full = full_name(name)
        if full != _ALL and full not in KNOWN:
            raise RequestError(f"{_FIELD}.{field}", name, "is not a capability")
        names.append(full)
    return names
