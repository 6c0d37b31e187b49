"""Results of writes to the machine: to cgroups, processes, resctrl groups and sysctls."""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Errors of kernel files whose process or cgroup no longer exists.
GONE_ERRORS = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.ENOTDIR})
_UNSUPPORTED_ERRORS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS})


class Outcome(enum.Enum):
    """The outcome of a write. All except APPLIED and UNCHANGED come with a reason."""

    APPLIED = "applied"
    """The value was written, and reads back the same."""
    UNCHANGED = "unchanged"
    """The file already had the value; nothing was written."""
    CLAMPED = "clamped"
    """The kernel accepted the value, but changed it."""
    UNSUPPORTED = "unsupported"
    """The machine does not support the setting."""
    REFUSED = "refused"
    """The machine supports the setting, but refused this value; the previous value is still in force."""
    GONE = "gone"
    """The cgroup, process or group does not exist."""


class Unsupported(NamedTuple):
    """The reason why this machine does not have a value, returned instead of the value."""

    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a write.

    Attributes:
        target: the path of a cgroup, `process 123`, or the name of a resctrl group.
        name: the neutral name of a knob, or for example `oom_score_adj`.
        wanted: the requested value.
        outcome: see :class:`Outcome`.
        reason: why the value is not in force, or "".
        before: the previous value, or None if it was not read.
        after: the current value, or None if it was not read.
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
        """Whether the machine now has the requested value."""
        return self.outcome in (Outcome.APPLIED, Outcome.UNCHANGED)

    def __str__(self) -> str:
        line = f"{self.target or '/'}: {self.name} {self.outcome.value}"
        return f"{line}: {self.reason}" if self.reason else line


def explain(error: OSError) -> tuple[Outcome, str]:
    """The outcome of a write that failed with an error, and the error's message as the reason."""
    words = error.strerror or str(error)
    if error.errno in GONE_ERRORS:
        return Outcome.GONE, words
    return (Outcome.UNSUPPORTED if error.errno in _UNSUPPORTED_ERRORS else Outcome.REFUSED), words
