"""Changes: what a hook wants for one pod, container, folder or host application, in neutral words.

None means "not set by this hook"; "" as the CPUs is an explicit clear, which is something else. Every hook returns a
`Decision`, which also says why; a hook that cannot decide raises `HookError`. Next:
`nri.policies.writes`, which names the knobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from nri.errors import NriError

__all__ = ["NO_CHANGES", "Changes", "Decision", "Device", "HookError", "Mount", "Resctrl"]


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
class Resctrl:
    """A resctrl group: its name, lines for its schemata ("" leaves them), task ids to append, or its removal."""

    group: str
    schemata: str = ""
    tasks: tuple[int, ...] = ()
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The values to be set. CPU quota and memory limit -1 are unlimited; quota in microseconds, memory in bytes."""

    cpu_shares: int | None = None
    cfs_quota: int | None = None
    cpuset: str | None = None
    memory_limit: int | None = None
    net_class: int | None = None
    bvt: int | None = None
    cpu_idle: int | None = None
    resctrl: Resctrl | None = None
    oom_score_adj: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()

    def __bool__(self) -> bool:
        return self != NO_CHANGES

    def __or__(self, other: Changes) -> Changes:
        """Return both; where both set one thing, the other's word counts."""
        set_by_other = {name: value for name in _SINGLE if (value := getattr(other, name)) is not None}
        return replace(
            self,
            **set_by_other,
            env={**self.env, **other.env},
            mounts=self.mounts + other.mounts,
            devices=self.devices + other.devices,
        )


_SINGLE = tuple(each.name for each in fields(Changes) if each.name not in ("env", "mounts", "devices"))
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
