"""The judgement of `nri doctor`: everything that keeps plugins from working here, found in one go, with the next step.

Rules: a check reads, never changes, and takes the root folder to look under, so that a copied /etc or a container's
view of the host (`--root /host`) can be examined; it never raises for what it finds. `nri.config.runtimes` reads the
runtimes' files; `runtimes` says what is wrong in them and compares them, `engine` adds ours, `sockets` and `plugins`
look at the machine, `kubelet` at who pins containers besides, and `examination` has the order.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "Finding"]

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
