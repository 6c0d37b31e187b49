"""The result of a write to the machine: what was wanted, what is there now, and why if they differ.

Rules: pure values; an outcome other than applied and unchanged always has a reason. One form for cgroups, processes,
resctrl groups and switches of the kernel. Next: the rooms that return it, first :mod:`nri.host.cgroups.writer`.
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["GONE_ERRORS", "Outcome", "Result", "Unsupported", "explain"]

#: The errors of a file of the kernel whose process or cgroup has ended.
GONE_ERRORS = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENOTDIR})
_UNSUPPORTED_ERRORS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS})


class Outcome(enum.Enum):
    """The outcome of one write."""

    APPLIED = "applied"
    """It was written, and reads back as wanted."""
    UNCHANGED = "unchanged"
    """It was so already; nothing was written."""
    CLAMPED = "clamped"
    """The kernel took it, and made something else of it."""
    UNSUPPORTED = "unsupported"
    """This machine cannot do it."""
    REFUSED = "refused"
    """This machine could, but does not take this value, here or now; what was before is still there."""
    GONE = "gone"
    """The cgroup, process or group is not there, or not any more."""


class Unsupported(NamedTuple):
    """Something that this machine cannot do, in place of a value."""

    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """One write and what became of it.

    Attributes:
        target: where: the path of a cgroup, `process 123`, the name of a resctrl group.
        name: what: the neutral name of a knob, `oom_score_adj`, and the like.
        wanted: the value that was to be.
        outcome: see :class:`Outcome`.
        reason: why it is not as wanted; empty if it is.
        before: the value that was found first; None if none was read.
        after: the value that is there now, as far as it was read.
    """

    target: str
    name: str
    wanted: Any
    outcome: Outcome
    reason: str = ""
    before: Any = None
    after: Any = None

    @property
    def in_force(self) -> bool:
        """Whether the machine now has what was wanted."""
        return self.outcome in (Outcome.APPLIED, Outcome.UNCHANGED)

    def __str__(self) -> str:
        line = f"{self.target or '/'}: {self.name} {self.outcome.value}"
        return f"{line}: {self.reason}" if self.reason else line


def explain(error: OSError) -> tuple[Outcome, str]:
    """The outcome of a write that an error ended, and the error's words as its reason."""
    words = error.strerror or str(error)
    if error.errno in GONE_ERRORS:
        return Outcome.GONE, words
    return (Outcome.UNSUPPORTED if error.errno in _UNSUPPORTED_ERRORS else Outcome.REFUSED), words
