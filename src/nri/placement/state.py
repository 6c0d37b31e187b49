"""A policy's decisions as plain values: to be written down, and to be taken up again by the next policy.

One job: :class:`PlacementState`, its form as JSON, and back; :class:`Kept` is what both policies do for it. A policy
that is made with a state gives each container just what it had, as far as machine and options still allow that; who
makes the policy places the others again. Pure.
Next: `topology_aware.policy` and `balloons.policy`, which give it and take it up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nri.kube.requests import Requests
from nri.placement.containers import Container, Hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.placement.containers import Changes, Pins
    from nri.placement.zones import MemoryZones

__all__ = [
    "BalloonState",
    "ContainerState",
    "Entries",
    "GrantState",
    "Kept",
    "PartState",
    "PlacementState",
    "patched",
    "plain",
    "refuse_version",
]

#: Some of a state: of its parts the entries by name, None for those that are gone; of some parts they are all.
Entries = dict[str, dict[str, Any]]
_WHOLE = ("balloons", "interrupts")

#: Of the form that is written; another one is not read.
_VERSION = 3
#: What of it changes with each event.
_PARTS = ("containers", "grants", "balloons", "members", "zones", "interrupts", "free")


@dataclass(frozen=True)
class ContainerState:
    """A container as it came, before it was adjusted: a runtime that is asked later reports it as it is now.

    `squeezed`: it was placed as if it asked for nothing.
    """

    cpu_m: int = 0
    cpu_limit_m: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    mems: str = ""
    shares: int | None = None
    hints: dict[str, list[str]] = field(default_factory=dict)
    squeezed: bool = False

    @classmethod
    def of(cls, container: Container) -> ContainerState:
        """The values of a container."""
        if container.written is None or container.written[0] is not container.requests:
            hints = {source: list(hint) for source, hint in container.hints.items()}
            squeezed = container.asked is not None
            asked = container.requests if container.asked is None else container.asked
            made = cls(*asked, container.mems, container.shares, hints, squeezed)
            container.written = container.requests, made
        written: ContainerState = container.written[1]
        return written

    def restore(self, container: Container) -> None:
        """Let a container be as it came."""
        asked = Requests(self.cpu_m, self.cpu_limit_m, self.memory_bytes, self.memory_limit_bytes)
        container.requests, container.asked = (Requests(), asked) if self.squeezed else (asked, None)
        container.mems, container.shares = self.mems, self.shares
        container.hints = {source: Hint(*hint[: len(Hint._fields)]) for source, hint in self.hints.items()}


@dataclass(frozen=True)
class GrantState:
    """The placement of a container by topology-aware; lists of CPUs and nodes as texts."""

    pool: str
    kind: Literal["normal", "reserved", "preserve"] = "normal"
    exclusive: str = ""
    portion_m: int = 0
    zone: str = ""
    cold: bool = False


@dataclass(frozen=True)
class PartState:
    """A balloon or a component of one; `components` of the parts that follow, with theirs, are its own."""

    type: str
    instance: int
    cpus: str
    components: int = 0


@dataclass(frozen=True)
class BalloonState:
    """The CPUs of a balloon. `parts` begins with itself."""

    parts: list[PartState]
    idle: str = ""


@dataclass
class PlacementState:
    """All of it. Containers and balloons are in their order, the oldest first.

    Attributes:
        version, policy: who can read it.
        members, zones: the balloon of a container, and its memory nodes.
        interrupts: the CPUs of those that were moved, before.
        free: the containers whose CPUs, memory nodes or both ("cpus mems") are left as they are.
    """

    policy: str
    version: int = _VERSION
    containers: dict[str, ContainerState] = field(default_factory=dict)
    grants: dict[str, GrantState] = field(default_factory=dict)
    balloons: dict[str, BalloonState] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    interrupts: dict[str, str] = field(default_factory=dict)
    free: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_version({"version": self.version})

    def restore(self, containers: Iterable[Container]) -> None:
        """Let those of some containers that are known be as they came."""
        for container in containers:
            known = self.containers.get(container.id)
            if known is not None:
                known.restore(container)

    def tree(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {"version": self.version, "policy": self.policy, **plain({part: getattr(self, part) for part in _PARTS})}

    def since(self, before: PlacementState) -> Entries:
        """All entries, and those of an earlier one that are gone: `take` brings the earlier one to this one by them."""
        parts = ((part, getattr(before, part), getattr(self, part)) for part in _PARTS)
        return {part: dict.fromkeys(name for name in old if name not in new) | new for part, old, new in parts}

    def take(self, entries: Entries) -> Entries | None:
        """Have these entries; those that were others before, or None if balloons are in another order now.

        `patched` does the same to the tree of this one.
        """
        found: Entries = {}
        for part, given in entries.items():
            mine = getattr(self, part)
            gone = [name for name in mine if name not in given] if part in _WHOLE else ()
            for name, each in (dict.fromkeys(gone) | given).items():
                was = mine.get(name)
                if was is each or was == each:
                    continue
                found.setdefault(part, {})[name] = each
                if each is None:
                    del mine[name]
                else:
                    mine[name] = each
            if part == "balloons" and [*mine] != [name for name, each in given.items() if each is not None]:
                return None
        return found


class Kept(ABC):
    """What of a policy is kept over a restart: all of it, or what has changed."""

    name: str
    annotations: ClassVar[Mapping[str, str]]
    unread_annotations: ClassVar[Mapping[str, str]]
    containers: dict[str, Container]
    zones: MemoryZones
    _changes: Changes

    @property
    def pins(self) -> Mapping[str, Pins]:
        """All pins as they are."""
        return self._changes.pins

    def saved(self) -> PlacementState:
        """All placements as plain values."""
        state = PlacementState(self.name)
        state.take(self._entries(self.containers))
        return state

    def news(self) -> Entries:
        """Of these what may have changed since it was asked for that last."""
        names, self._changes.touched, self.zones.touched = self._changes.touched | self.zones.touched, {}, {}
        return self._entries(names)

    @abstractmethod
    def _entries(self, names: Iterable[str]) -> Entries:
        """What these containers have, None for those that are gone; of balloons all."""


def refuse_version(tree: object) -> None:
    """Raise ValueError for a tree of another version: its keys would be complained of else, which nobody can mend."""
    found = tree.get("version", _VERSION) if isinstance(tree, dict) else _VERSION
    if found != _VERSION:
        raise ValueError(f"it is of version {found}, and this program reads version {_VERSION}")


def patched(tree: dict[str, Any], changes: dict[str, Any]) -> None:
    """Put what `take` has found into a tree. AttributeError, KeyError or TypeError if it has not found that."""
    for part, entries in changes.items():
        for name, each in entries.items():
            if each is None:
                tree[part].pop(name, None)
            else:
                tree[part][name] = each


def plain(entries: Entries) -> Entries:
    """Entries as JSON has them."""
    return {part: {name: _plain(each) for name, each in given.items()} for part, given in entries.items()}


def _plain(entry: object) -> Any:
    if isinstance(entry, BalloonState):
        return vars(entry) | {"parts": [vars(each) for each in entry.parts]}
    return entry if entry is None or isinstance(entry, str) else vars(entry)
