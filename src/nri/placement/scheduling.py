"""Scheduling classes: how the kernel schedules a container's processes, by a name that configuration defines.

One job: :class:`SchedulingClass`, and :func:`named`, which finds the one that a container's annotation asks for.
Pure; values that the kernel would refuse are refused here, where the configuration is read. Next: the options of the
policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from nri.config.complaint import WrongValue
from nri.config.place import Path
from nri.placement.containers import Container, shown

__all__ = ["SchedulingClass", "check_names", "named"]

SchedulingPolicy = Literal["", "none", "other", "fifo", "rr", "batch", "iso", "idle", "deadline"]
SchedulingFlag = Literal[
    "reset-on-fork", "reclaim", "dl-overrun", "keep-policy", "keep-params", "util-clamp-min", "util-clamp-max"
]
IoClass = Literal["", "none", "rt", "be", "idle"]

#: The least and the most of each number, as the kernel takes them.
_BOUNDS: Final = {"nice": (-20, 19), "priority": (0, 99), "ioPriority": (0, 7)}
_TIMES: Final = ("runtime", "deadline", "period")
#: A day, in microseconds.
_MOST_US = 86_400_000_000


@dataclass(frozen=True)
class SchedulingClass:
    """One class; what is not given is left as it is.

    Attributes:
        name: what other keys and annotations call it.
        policy: of Linux's scheduler.
        priority: from 1 to 99, for the policies fifo and rr.
        flags: of sched_setattr.
        nice: from -20, the most of the CPU, to 19.
        runtime, deadline, period: in microseconds, for the policy deadline.
        ioClass: the class of I/O priority.
        ioPriority: from 0, the first, to 7, for the I/O classes rt and be.
    """

    name: str
    policy: SchedulingPolicy = ""
    priority: int | None = None
    flags: list[SchedulingFlag] = field(default_factory=list)
    nice: int | None = None
    runtime: int | None = None
    deadline: int | None = None
    period: int | None = None
    ioClass: IoClass = ""
    ioPriority: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise WrongValue("name", "a scheduling class has no name", "give it one")
        for key, (least, most) in (*_BOUNDS.items(), *dict.fromkeys(_TIMES, (0, _MOST_US)).items()):
            value = getattr(self, key)
            if value is not None and not least <= value <= most:
                raise WrongValue(key, f"{value} is not from {least} to {most}", "write one that is")
        if self.policy in ("fifo", "rr") and not self.priority:
            raise WrongValue("policy", f"{self.policy} needs a priority", "add priority, from 1 to 99")
        if self.policy not in ("fifo", "rr") and self.priority:
            raise WrongValue(
                "priority", f"{self.priority} is for the policies fifo and rr", "leave it out, or write nice"
            )
        if self.policy == "deadline":
            runtime, deadline, period = self.runtime or 0, self.deadline or 0, self.period or self.deadline or 0
            if not 0 < runtime <= deadline <= period:
                times = f"runtime {runtime}, deadline {deadline} and period {period}"
                raise WrongValue("policy", f"deadline with {times}", "write 0 < runtime <= deadline <= period")
        elif given := next((key for key in _TIMES if getattr(self, key)), None):
            raise WrongValue(given, f"{getattr(self, given)} is for the policy deadline", "leave it out")
        if self.ioPriority is not None and self.ioClass not in ("rt", "be"):
            raise WrongValue("ioPriority", f"{self.ioPriority} is for the ioClass rt and be", "add one of them")

    @property
    def schedules(self) -> bool:
        """Whether it says anything of CPUs, and not of I/O alone."""
        return bool(self.policy or self.flags or self.nice is not None)


def check_names(key: str, names: Sequence[str], asked: Mapping[Path, str]) -> None:
    """Raise WrongValue for two classes of one name, or for a path that asks for one that is not there.

    `key` is the list that defines them.
    """
    known = set[str]()
    for place, name in enumerate(names):
        if name in known:
            raise WrongValue((key, place, "name"), f"two are called {name!r}", "rename one")
        known.add(name)
    for path, name in asked.items():
        if name and name not in known:
            raise WrongValue(
                path, f"{name!r} is not in {key}", f"write {', '.join(names)}" if names else "define it there"
            )


def named(container: Container, classes: Iterable[SchedulingClass], default: str) -> SchedulingClass | None:
    """The class of a container's annotation, else the one of this name; None without, or for the name of none."""
    found = container.asks("scheduling-class")
    name = default if found is None else found[1]
    by_name = {each.name: each for each in classes}
    if name not in by_name and found is not None:
        defined = ", ".join(by_name) or "none is defined"
        container.doubt("scheduling-class", f"there is no class {shown(name)}; {defined}")
    return by_name.get(name)
