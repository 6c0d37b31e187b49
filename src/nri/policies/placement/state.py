"""A policy's decisions as plain values: to be written down, and to be taken up again by the next policy.

One job: :class:`PlacementState`, its form as JSON, and back. A policy that is made with it gives each container just
what it had, as far as machine and options still allow that; who makes the policy places the others again. Pure.
Next: `topology_aware.policy` and `balloons.policy`, which give it and take it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nri.kube.requests import Requests
from nri.policies.placement.containers import Container, Hint

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BalloonState", "ContainerState", "GrantState", "PartState", "PlacementState"]

#: Of the form that is written; another one is not read.
_VERSION = 1


@dataclass(frozen=True)
class ContainerState:
    """A container as it came, before it was adjusted: a runtime that is asked later reports it as it is now."""

    cpu_m: int = 0
    cpu_limit_m: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    mems: str = ""
    shares: int | None = None
    hints: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, container: Container) -> ContainerState:
        """The values of a container."""
        hints = {source: list(hint) for source, hint in container.hints.items()}
        return cls(*container.requests, container.mems, container.shares, hints)

    def restore(self, container: Container) -> None:
        """Let a container be as it came."""
        container.requests = Requests(self.cpu_m, self.cpu_limit_m, self.memory_bytes, self.memory_limit_bytes)
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
    """A balloon with its containers: their memory nodes by their ids. `parts` begins with itself."""

    parts: list[PartState]
    idle: str = ""
    containers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlacementState:
    """The state of one policy. `version` and `policy` say who reads it; `interrupts` the first CPUs of those moved."""

    policy: str
    version: int = _VERSION
    containers: dict[str, ContainerState] = field(default_factory=dict)
    grants: dict[str, GrantState] = field(default_factory=dict)
    balloons: list[BalloonState] = field(default_factory=list)
    interrupts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            raise ValueError(f"it is of version {self.version}, and this program reads version {_VERSION}")

    def restore(self, containers: Iterable[Container]) -> None:
        """Let those of some containers that are known be as they came."""
        for container in containers:
            known = self.containers.get(container.id)
            if known is not None:
                known.restore(container)

    def tree(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {
            "version": self.version,
            "policy": self.policy,
            "containers": {name: vars(each) for name, each in self.containers.items()},
            "grants": {name: vars(each) for name, each in self.grants.items()},
            "balloons": [
                {"parts": [vars(part) for part in each.parts], "idle": each.idle, "containers": each.containers}
                for each in self.balloons
            ],
            "interrupts": self.interrupts,
        }
