"""Scheduling classes: named settings for how the kernel has_cpu_settings a container's processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from nri.config.complaint import WrongValue
from nri.config.key_path import Path
from nri.placement.containers import Container, quoted

SchedulingPolicy = Literal["", "none", "other", "fifo", "rr", "batch", "iso", "idle", "deadline"]
SchedulingFlag = Literal[
    "reset-on-fork", "reclaim", "dl-overrun", "keep-policy", "keep-params", "util-clamp-min", "util-clamp-max"
]
IoClass = Literal["", "none", "rt", "be", "idle"]

#: Minimum and maximum of each number in the kernel.
_BOUNDS: Final = {"nice": (-20, 19), "priority": (0, 99), "ioPriority": (0, 7)}
_TIMES: Final = ("runtime", "deadline", "period")
#: One day.
_MAX_US = 86_400_000_000


@dataclass(frozen=True)
class SchedulingClass:
    """A scheduling class. Values that are not set stay unchanged. Raises WrongValue if the kernel would refuse it.

    Attributes:
        name: the name by which other keys and annotations refer to the class.
        policy: the policy of Linux's scheduler.
        priority: from 1 to 99, for the policies fifo and rr.
        flags: the flags of sched_setattr.
        nice: from -20, with the largest share of the CPU, to 19.
        runtime, deadline, period: in microseconds, for the policy deadline.
        ioClass: the class of I/O priority.
        ioPriority: from 0, the highest, to 7, for the I/O classes rt and be.
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
            raise WrongValue("name", "a scheduling class must have a name", "add name")
        for key, (low, high) in (*_BOUNDS.items(), *dict.fromkeys(_TIMES, (0, _MAX_US)).items()):
            value = getattr(self, key)
            if value is not None and not low <= value <= high:
                raise WrongValue(key, f"{value} is out of range", f"write a number from {low} to {high}")
        if self.policy in ("fifo", "rr") and not self.priority:
            raise WrongValue("policy", f"{self.policy} requires a priority", "add priority, from 1 to 99")
        if self.policy not in ("fifo", "rr") and self.priority:
            raise WrongValue(
                "priority", "allowed only with the policies fifo and rr", "remove priority, or set nice instead"
            )
        if self.policy == "deadline":
            runtime, deadline, period = self.runtime or 0, self.deadline or 0, self.period or self.deadline or 0
            if not 0 < runtime <= deadline <= period:
                times = f"runtime {runtime}, deadline {deadline} and period {period}"
                reason = f"deadline requires 0 < runtime <= deadline <= period; the class has {times}"
                raise WrongValue("policy", reason, "correct runtime, deadline or period")
        elif time_key := next((key for key in _TIMES if getattr(self, key)), None):
            raise WrongValue(time_key, "allowed only with the policy deadline", f"remove {time_key}")
        if self.ioPriority is not None and self.ioClass not in ("rt", "be"):
            raise WrongValue("ioPriority", "allowed only with ioClass rt or be", "add ioClass: rt or be")

    @property
    def has_cpu_settings(self) -> bool:
        """Whether the class has settings for the CPU; a class may have only I/O settings."""
        return bool(self.policy or self.flags or self.nice is not None)


def check_names(key: str, names: Sequence[str], references: Mapping[Path, str]) -> None:
    """Raise WrongValue if two classes have the same name, or if a reference names an undefined class.

    Args:
        key: the key of the list that defines the classes.
        names: the names in that list.
        references: names used under other keys of the configuration, by path.
    """
    defined = set[str]()
    for place, name in enumerate(names):
        if name in defined:
            raise WrongValue((key, place, "name"), f"duplicate name {name!r}", "rename one")
        defined.add(name)
    for path, name in references.items():
        if name and name not in defined:
            raise WrongValue(
                path,
                f"{name!r} is not in {key}",
                f"write {' or '.join(names)}" if names else f"define {name!r} in {key}",
            )


def scheduling_class_of(
    container: Container, classes: Iterable[SchedulingClass], default: str
) -> SchedulingClass | None:
    """The class that a container's annotation names, else the class `default`. Returns None if it is not defined."""
    annotation = container.scoped_annotation("scheduling-class")
    name = default if annotation is None else annotation[1]
    by_name = {scheduling_class.name: scheduling_class for scheduling_class in classes}
    if name not in by_name and annotation is not None:
        defined = ", ".join(by_name) or "none"
        container.doubt("scheduling-class", f"unknown class {quoted(name)}; defined classes: {defined}")
    return by_name.get(name)
