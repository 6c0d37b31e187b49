"""The state of a policy as plain values, for the state file and for the next policy.

A policy that is made with a state restores the placement of each container, as far as the machine and the options
allow. The policy's caller places the remaining containers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nri.kube.requests import Requests
from nri.placement.containers import Container, Hint, SavedState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nri.placement.containers import Changes, Pins
    from nri.placement.zones import MemoryZones

#: A change of a state: for each part its changed entries by name; None for a deleted entry.
Entries = dict[str, dict[str, Any]]
#: Parts that a change always contains completely.
_COMPLETE_PARTS = ("balloons", "interrupts")

#: Version of the file format; other versions are not read.
_VERSION = 3
#: The sections of a state that events change.
_SECTIONS = ("containers", "grants", "balloons", "members", "zones", "interrupts", "free")


@dataclass(frozen=True)
class ContainerState:
    """The values with which a container was created. Later the runtime reports only the adjusted values.

    Attributes:
        squeezed: whether it was placed without its requests because they did not fit.
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
        """The state of a container."""
        saved = container.saved
        if saved is None or saved.requests is not container.requests:
            hints = {source: list(hint) for source, hint in container.hints.items()}
            squeezed = container.unmet_requests is not None
            requests = container.requests if container.unmet_requests is None else container.unmet_requests
            state = cls(*requests, container.mems, container.shares, hints, squeezed)
            container.saved = saved = SavedState(container.requests, state)
        state_: ContainerState = saved.state
        return state_

    def restore(self, container: Container) -> None:
        """Set a container's values to this state."""
        requests = Requests(self.cpu_m, self.cpu_limit_m, self.memory_bytes, self.memory_limit_bytes)
        container.requests, container.unmet_requests = (Requests(), requests) if self.squeezed else (requests, None)
        container.mems, container.shares = self.mems, self.shares
        container.hints = {source: Hint(*hint[: len(Hint._fields)]) for source, hint in self.hints.items()}


@dataclass(frozen=True)
class GrantState:
    """The placement of a container by the topology-aware policy; CPUs and memory nodes are lists such as `0-3,8`.

    `portion_m` has the millicores of the shared CPUs.
    """

    pool: str
    kind: Literal["normal", "reserved", "preserve"] = "normal"
    exclusive: str = ""
    portion_m: int = 0
    zone: str = ""
    cold: bool = False


@dataclass(frozen=True)
class PartState:
    """A balloon, or a component of a balloon.

    Attributes:
        components: the number of its components, which follow it in `BalloonState.parts` with their own components.
    """

    type: str
    instance: int
    cpus: str
    components: int = 0


@dataclass(frozen=True)
class BalloonState:
    """A balloon. `parts` has the balloon and then its components."""

    parts: list[PartState]
    idle: str = ""


@dataclass
class PlacementState:
    """The complete state. Containers and balloons are ordered by age, the oldest first.

    Attributes:
        policy: the name of the policy that wrote it.
        members: the balloon of each container.
        zones: the memory nodes of each container.
        interrupts: the original CPUs of each moved interrupt.
        free: the resources of each container that are not pinned: "cpus", "mems" or "cpus mems".
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
        check_version({"version": self.version})

    def restore(self, containers: Iterable[Container]) -> None:
        """Set the values of the containers in this state; other containers stay unchanged."""
        for container in containers:
            state = self.containers.get(container.id)
            if state is not None:
                state.restore(container)

    def tree(self) -> dict[str, Any]:
        """The state as JSON values."""
        parts = json_entries({part: getattr(self, part) for part in _SECTIONS})
        return {"version": self.version, "policy": self.policy, **parts}

    def since(self, before: PlacementState) -> Entries:
        """The change from an earlier state to this one, for the earlier state's `take`."""
        parts = ((part, getattr(before, part), getattr(self, part)) for part in _SECTIONS)
        return {part: dict.fromkeys(name for name in old if name not in new) | new for part, old, new in parts}

    def take(self, entries: Entries) -> Entries | None:
        """Apply a change. Returns the entries that differ, or None if the order of balloons has changed.

        `patch_tree` applies the returned entries to the JSON values of this state.
        """
        changes: Entries = {}
        for part, new in entries.items():
            table = getattr(self, part)
            deleted = [name for name in table if name not in new] if part in _COMPLETE_PARTS else ()
            for name, entry in (dict.fromkeys(deleted) | new).items():
                before = table.get(name)
                if before is entry or before == entry:
                    continue
                changes.setdefault(part, {})[name] = entry
                if entry is None:
                    del table[name]
                else:
                    table[name] = entry
            if part == "balloons" and [*table] != [name for name, entry in new.items() if entry is not None]:
                return None
        return changes


class PersistentPolicy(ABC):
    """The base class of policies. It saves their state."""

    name: str
    annotations: ClassVar[Mapping[str, str]]
    ignored_annotations: ClassVar[Mapping[str, str]]
    containers: dict[str, Container]
    zones: MemoryZones
    _changes: Changes

    @property
    def pins(self) -> Mapping[str, Pins]:
        """The current pins of all containers."""
        return self._changes.pins

    def saved(self) -> PlacementState:
        """The complete state."""
        state = PlacementState(self.name)
        state.take(self._entries(self.containers))
        return state

    def changed_entries(self) -> Entries:
        """The entries of the state that may have changed since the last call."""
        names, self._changes.touched, self.zones.touched = self._changes.touched | self.zones.touched, {}, {}
        return self._entries(names)

    @abstractmethod
    def _entries(self, names: Iterable[str]) -> Entries:
        """The entries of these containers and of all balloons. The entry of a released container is None."""


def check_version(tree: object) -> None:
    """Raise ValueError if the file has another version, before unknown keys cause a less helpful error."""
    version = tree.get("version", _VERSION) if isinstance(tree, dict) else _VERSION
    if version != _VERSION:
        raise ValueError(f"the file has version {version}; this program reads version {_VERSION}")


def patch_tree(tree: dict[str, Any], changes: dict[str, Any]) -> None:
    """Apply to JSON values the changes that `take` returned.

    Other input raises AttributeError, KeyError or TypeError.
    """
    for part, entries in changes.items():
        for name, entry in entries.items():
            if entry is None:
                tree[part].pop(name, None)
            else:
                tree[part][name] = entry


def json_entries(entries: Entries) -> Entries:
    """Entries as JSON values."""
    return {part: {name: _json_entry(entry) for name, entry in table.items()} for part, table in entries.items()}


def _json_entry(entry: object) -> Any:
    if isinstance(entry, BalloonState):
        return vars(entry) | {"parts": [vars(part) for part in entry.parts]}
    return entry if entry is None or isinstance(entry, str) else vars(entry)
