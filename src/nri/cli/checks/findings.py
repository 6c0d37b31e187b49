"""The vocabulary of the doctor: findings, and what is known about a runtime's NRI after its configuration was read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

#: From good to bad. Only a problem makes the doctor fail: it is something that does not work, or will not.
LEVELS = ("ok", "note", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor saw.

    Attributes:
        level: one of LEVELS.
        what: what was found, as one sentence without a full stop.
        where: file, or file:key, or socket, or component.
        next: what to do about it; empty when there is nothing to do.
    """

    level: str
    what: str
    where: str
    next: str = ""


@dataclass(slots=True)
class RuntimeNri:
    """A runtime's NRI as configured. `enabled` None means: depends on a version that is not known.

    Attributes:
        origin: where each setting was made, as "file:line: key"; a setting that is not here has its default.
        required: plugins that the default validator wants to be there.
    """

    name: str
    enabled: bool | None = None
    connections: bool = True
    socket_path: str = "/var/run/nri/nri.sock"
    plugin_path: str = "/opt/nri/plugins"
    plugin_config_path: str = "/etc/nri/conf.d"
    registration_timeout_s: float = 5.0
    request_timeout_s: float = 2.0
    required: tuple[str, ...] = ()
    origin: dict[str, str] = field(default_factory=dict)


def inside(root: str, path: str) -> str:
    """The path below `root`, with symbolic links resolved as if `root` were /: a link to /run must not leave it."""
    if root == "/":
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")][::-1]
    done, hops = "", 0
    while parts:
        part = parts.pop()
        if part == "..":
            done = os.path.dirname(done)
            continue
        candidate = f"{done}/{part}"
        try:
            target = os.readlink(root + candidate)
        except OSError:
            done = candidate
            continue
        hops += 1
        if hops > 40:  # the kernel's own bound for a chain of links
            return root + candidate
        if target.startswith("/"):
            done = ""
        parts.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return root.rstrip("/") + (done or "/")
