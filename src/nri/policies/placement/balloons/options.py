"""The options of balloons, by the keys of its custom resource, and what of them contradicts each other.

Pure. Next: `tree`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from nri.policies.placement.amounts import Amounts
from nri.policies.placement.expressions import Expression
from nri.policies.placement.machine import Priority
from nri.policies.placement.scheduling import SchedulingClass, check_names
from nri.policies.placement.tuning import CpuClass, check_classes
from nri.policies.placement.zones import parse_kinds

__all__ = ["DEFAULT", "RESERVED", "BalloonType", "LoadClass", "Options"]

RESERVED, DEFAULT = "reserved", "default"
#: Composites in composites, at most.
_DEEPEST = 16
#: Balloons of a type that are made at the start, at most: a machine has no CPUs for more.
_MOST_BALLOONS = 4096

Level = Literal["", "system", "package", "die", "numa", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Component:
    """A part of a composite balloon."""

    balloonType: str = ""


@dataclass(frozen=True)
class LoadClass:
    """A load that a type of balloons puts on cores or caches, and that others avoid."""

    name: str
    level: Literal["core", "l2cache"]
    overloadsLevelInBalloon: bool = False


@dataclass(frozen=True)
class Preserve:
    """Containers that are left alone."""

    matchExpressions: list[Expression] = field(default_factory=list)


@dataclass
class BalloonType:
    """One type of balloons; 0 is no limit. The other types say what it is `far` from."""

    name: str = ""
    components: list[Component] = field(default_factory=list)
    componentCreation: Literal["", "all", "balance-balloons"] = ""
    namespaces: list[str] = field(default_factory=list)
    groupBy: str = ""
    matchExpressions: list[Expression] = field(default_factory=list)
    minCPUs: int = 0
    maxCPUs: int = 0
    minBalloons: int = 0
    maxBalloons: int = 0
    memoryTypes: list[str] = field(default_factory=list)
    pinMemory: bool | None = None
    allocatorPriority: Literal["high", "normal", "low", "none"] = "high"
    preferSpreadOnPhysicalCores: bool | None = None
    hideHyperthreads: bool | None = None
    allocatorTopologyBalancing: bool | None = None
    cpuClass: str = ""
    loads: list[str] = field(default_factory=list)
    preferSpreadingPods: bool = False
    preferPerNamespaceBalloon: bool = False
    preferNewBalloons: bool = False
    shareIdleCPUsInSame: Level = ""
    preferCloseToDevices: list[str] = field(default_factory=list)
    preferIsolCpus: bool = False
    preferCoreType: Literal["", "efficient", "performance"] = ""
    schedulingClass: str = ""
    showContainersInNrt: bool | None = None
    irqClaim: list[str] = field(default_factory=list)
    irqMode: Literal["", "sink", "isolate"] = ""

    def __post_init__(self) -> None:
        self.far: list[str] = []
        if not self.name:
            raise ValueError("a type of balloons has no name")
        for low, high, words in (
            (self.minCPUs, self.maxCPUs, "CPUs"),
            (self.minBalloons, self.maxBalloons, "Balloons"),
        ):
            if low < 0 or high < 0:
                raise ValueError(f"min{words} and max{words} cannot be below 0")
            if high and low > high:
                raise ValueError(f"min{words} ({low}) is above max{words} ({high})")
        if self.minBalloons > _MOST_BALLOONS:
            raise ValueError(
                f"minBalloons ({self.minBalloons}) is above {_MOST_BALLOONS}: they are all made at the start"
            )
        self.kinds = parse_kinds(self.memoryTypes)
        if self.name == RESERVED and max(self.minBalloons, self.maxBalloons) > 1:
            raise ValueError("there is exactly one balloon of the type reserved")
        if self.componentCreation and not self.components:
            raise ValueError("componentCreation has no effect without components")
        own = [key for key in _NOT_COMPOSITE if getattr(self, key) not in ("", [], None, False)]
        if self.components and own:
            raise ValueError(f"a composite balloon takes its CPUs from its components, not by {', '.join(own)}")

    @property
    def priority(self) -> Priority:
        """The CPUs that it prefers, and when its first balloons are made."""
        return Priority.named(self.allocatorPriority)


_NOT_COMPOSITE = (
    "cpuClass",
    "preferSpreadOnPhysicalCores",
    "allocatorTopologyBalancing",
    "preferCloseToDevices",
    "preferIsolCpus",
    "preferCoreType",
)


@dataclass
class Options:
    """The `spec` of a BalloonsPolicy."""

    resource_kind: ClassVar[str] = "BalloonsPolicy"

    reservedResources: Amounts = field(default_factory=Amounts)
    availableResources: Amounts = field(default_factory=Amounts)
    pinCPU: bool = True
    pinMemory: bool = True
    idleCPUClass: str = ""
    reservedPoolNamespaces: list[str] = field(default_factory=lambda: ["kube-system"])
    allocatorTopologyBalancing: bool = False
    preferSpreadOnPhysicalCores: bool = False
    balloonTypes: list[BalloonType] = field(default_factory=list)
    preserve: Preserve | None = None
    showContainersInNrt: bool = False
    loadClasses: list[LoadClass] = field(default_factory=list)
    schedulingClasses: list[SchedulingClass] = field(default_factory=list)
    cpuClasses: list[CpuClass] = field(default_factory=list)
    turboDomain: Literal["package", "system"] = "package"
    controllableInterrupts: list[str] = field(default_factory=lambda: ["*"])
    agent: dict[str, Any] = field(default_factory=dict)
    control: dict[str, Any] = field(default_factory=dict)
    instrumentation: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        types = {each.name: each for each in self.balloonTypes}
        names = [each.name for each in self.balloonTypes]
        if len(types) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"balloonTypes: two types are called {twice!r}; rename one")
        loads = {each.name for each in self.loadClasses}
        asked = {f"balloonTypes {each.name}": each.schedulingClass for each in self.balloonTypes}
        check_names(self.schedulingClasses, asked)
        classes = {"idleCPUClass": self.idleCPUClass}
        classes |= {f"balloonTypes {each.name}: cpuClass": each.cpuClass for each in self.balloonTypes}
        check_classes(self.cpuClasses, classes)
        for each in self.balloonTypes:
            for load in each.loads:
                if load not in loads:
                    raise ValueError(f"balloonTypes {each.name}: there is no load class {load!r}")
            self._check_components(each, types)

    def _check_components(self, top: BalloonType, types: dict[str, BalloonType]) -> None:
        """Refuse components that are no types, and composites that hold themselves, or are too deep."""
        here = [top]
        for _ in range(_DEEPEST):
            names = {component.balloonType for each in here for component in each.components}
            missing = names - types.keys() - {RESERVED, DEFAULT}
            if missing:
                raise ValueError(f"balloonTypes {top.name}: there is no type {min(missing)!r} for a component")
            here = [types[name] for name in sorted(names & types.keys())]
            if top in here:
                raise ValueError(f"balloonTypes {top.name}: it is a component of itself")
        if here:
            raise ValueError(f"balloonTypes {top.name}: components are nested too deep, or in a circle")
