"""The vocabulary of the doctor: findings and their levels.

Next: `nri.cli.doctor.examination`, which collects the findings.
"""

from __future__ import annotations

from dataclasses import dataclass

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
