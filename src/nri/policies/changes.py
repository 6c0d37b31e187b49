"""Changes: what a hook wants for one pod, container, folder or host application, in neutral words.

A value goes by the neutral name of its knob; a name that is not there is not set by this hook. "" as the CPUs is an
explicit clear, which is something else. Every hook returns a `Decision`, which also says why; a hook that cannot decide
raises `HookError`. Next: `nri.policies.writes`.

The names are those of `nri.host.KNOBS` (`cpu.cfs_burst`, `memory.high`, `io.read_bps`, `hugetlb.2MB.limit`), and what
only a runtime sets, which `nri.policies.messages.FIELDS` adds (`rdt_class`, `cpu.realtime_period`). `unified.FILE` is a
file of cgroup v2 as a text, such as `unified.memory.reclaim`, for one that has no knob.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from nri.errors import NriError

__all__ = [
    "NO_CHANGES",
    "UNIFIED",
    "Changes",
    "Decision",
    "Device",
    "DeviceRule",
    "HookError",
    "Mount",
    "Resctrl",
    "Setting",
]

#: The value of a knob: a number, a list of CPUs or memory nodes as a text, or a number or some words for each device.
Setting = int | str | Mapping[str, int] | Mapping[str, str]
#: The beginning of the name of a file of cgroup v2.
UNIFIED: Final = "unified."


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount to add to a container."""

    destination: str
    type: str
    source: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device node to add to a container. `type` is c or b, `mode` its permission bits."""

    path: str
    type: str
    major: int
    minor: int
    mode: int


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """Whether a container may use some devices. `type` is a, b or c; None as a number is all; `access` some of rwm."""

    allow: bool
    type: str = "a"
    major: int | None = None
    minor: int | None = None
    access: str = "rwm"


@dataclass(frozen=True, slots=True)
class Resctrl:
    """A resctrl group: its name, lines for its schemata ("" leaves them), task ids to append, or its removal."""

    group: str
    schemata: str = ""
    tasks: tuple[int, ...] = ()
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The values to be set.

    Attributes:
        knobs: by neutral name, each in the unit of its knob; -1 is no limit.
        resctrl: a resctrl group, which the executor makes and the runtime is given as the RDT class.
        env, mounts, devices, device_rules: for a container that is being created.
    """

    knobs: Mapping[str, Setting] = field(default_factory=dict)
    resctrl: Resctrl | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    device_rules: tuple[DeviceRule, ...] = ()

    def __bool__(self) -> bool:
        return self != NO_CHANGES

    def __or__(self, other: Changes) -> Changes:
        """Return both; where both set one thing, the other's word counts."""
        return Changes(
            {**self.knobs, **other.knobs},
            self.resctrl if other.resctrl is None else other.resctrl,
            {**self.env, **other.env},
            self.mounts + other.mounts,
            self.devices + other.devices,
            self.device_rules + other.device_rules,
        )

    def number(self, knob: str) -> int | None:
        """Return the number that a knob is to have; None if it is not set."""
        value = self.knobs.get(knob)
        return value if isinstance(value, int) else None

    def text(self, knob: str) -> str | None:
        """Return the text that a knob is to have, such as a list of CPUs; None if it is not set."""
        value = self.knobs.get(knob)
        return value if isinstance(value, str) else None

    def only(self, knobs: Container[str]) -> Changes:
        """Return these knobs alone, and nothing else."""
        return Changes({name: value for name, value in self.knobs.items() if name in knobs})

    def without(self, knobs: Container[str]) -> Changes:
        """Return all but these knobs."""
        return replace(self, knobs={name: value for name, value in self.knobs.items() if name not in knobs})


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one hook: the changes, and in one line which annotation, rule or input made them."""

    changes: Changes = NO_CHANGES
    reason: str = ""


class HookError(NriError):
    """A hook cannot decide, mostly because of what an annotation says.

    Attributes:
        hook: its name.
        reason: what is wrong, in one line.
        partial: what it had decided until then. The original applies it; by default nothing of a failed hook counts.
    """

    def __init__(self, hook: str, reason: str, partial: Changes = NO_CHANGES) -> None:
        super().__init__(f"{hook}: {reason}")
        self.hook = hook
        self.reason = reason
        self.partial = partial
