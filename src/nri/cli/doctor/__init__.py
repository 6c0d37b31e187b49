"""The checks of `nri doctor`: find everything that keeps plugins from working here, each with the next step.

A check only reads, and reports problems as findings instead of raising. It takes the root folder to look under, so that
a copied /etc, or the host's file system mounted in a container (`--root /host`), can be examined.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "Finding"]

#: From good to bad. Only a problem makes the doctor fail: something does not work, or will stop working.
LEVELS = ("ok", "note", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        level: one of LEVELS.
        what: the result, as one sentence without a full stop.
        where: file, or file:key, or socket, or component.
        next: what to do about it; empty if nothing has to be done.
    """

    level: str
    what: str
    where: str
    next: str = ""
