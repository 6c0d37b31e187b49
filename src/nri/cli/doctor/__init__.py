"""The checks of `nri doctor`: find everything that keeps plugins from working on this machine, with the next steps.

A check only reads, and reports problems as findings instead of raising. Its parameter `root` is the folder below which
it reads, so that a copied /etc, or the host's file system mounted in a container (`--root /host`), can be examined.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "Finding"]

#: The levels from good to bad. Only a problem makes the doctor fail: something does not work, or will stop working.
LEVELS = ("ok", "note", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        level: an element of LEVELS.
        what: the result, as one sentence without a full stop.
            where: a file, file:key, a socket or a component.
            next: the next step, or "" if nothing has to be done.
    """

    level: str
    what: str
    where: str
    next: str = ""
