"""The options of balloons, by the keys of its custom resource, and what of them contradicts each other.

Pure. Next: `tree`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from nri.config.complaint import WrongValue
from nri.config.place import Path
from nri.placement.amounts import Amounts
from nri.placement.containers import SUFFIX, Container, Pod
from nri.placement.expressions import Expression, expand
from nri.placement.machine import Priority
from nri.placement.scheduling import SchedulingClass, check_names
from nri.placement.tuning import Control, CpuClass
from nri.placement.unread import POD_RESOURCES, without_effect
from nri.placement.zones import parse_kinds

RESERVED, DEFAULT = "reserved", "default"
ANNOTATIONS: Final[Mapping[str, str]] = {
    f"{key}{SUFFIX}": meaning
    for key, meaning in {
        "balloon.balloons": "the type of balloon that it belongs to",
        "memory-type": "dram, pmem, hbm or mixed; several with commas",
        "hide-hyperthreads": "true: one thread of each core",
        "scheduling-class": "one of schedulingClasses: how its processes are scheduled",
        "cpu.preserve": "true: it is in no balloon",
        "memory.preserve": "true: its memory nodes are left alone",
    }.items()
}
UNREAD_ANNOTATIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("topologyhints", "allow.topologyhints", "deny.topologyhints", "strict.topologyhints"),
        "preferCloseToDevices of a type says what its balloons are near to",
    ),
    "cold-start": "memory of all kinds is given at once",
    "cpu-class": "cpuClass of a type says how its CPUs are set",
    "irq-affinity": "irqClaim and irqMode of a type say which interrupts come to its balloons",
}
"""Annotations of other policies that have no effect on balloons, with the reason."""
#: Composites in composites, at most.
_DEEPEST = 16
#: Balloons in one composite: a machine has no CPUs for more, and each level multiplies them.
_MAX_PARTS = 4096
#: A machine has fewer CPUs, and balloons.
_MOST = 1 << 31
#: Balloons of a type that are made at the start, at most: a machine has no CPUs for more.
_MOST_BALLOONS = 4096

Level = Literal["", "system", "package", "die", "numa", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Component:
    """A part of a composite balloon.

    Attributes:
        balloonType: a name of balloonTypes; each part has an equal share of the CPUs.
    """

    balloonType: str

    def __post_init__(self) -> None:
        if not self.balloonType:
            raise WrongValue("balloonType", "the component names no type of balloons", "write one of balloonTypes")


@dataclass(frozen=True)
class LoadClass:
    """A load that a type of balloons puts on cores or caches, and that others avoid.

    Attributes:
        name: what ``loads`` of types call it.
        level: where balloons with it avoid each other.
        overloadsLevelInBalloon: whether CPUs of one balloon avoid each other, too.
    """

    name: str
    level: Literal["core", "l2cache"]
    overloadsLevelInBalloon: bool = False


@dataclass(frozen=True)
class Preserve:
    """Containers that are left alone."""

    matchExpressions: list[Expression] = field(default_factory=list)


@dataclass
class BalloonType:
    """One type of balloons; 0 is no limit. The other types say what it is `far` from.

    Attributes:
        name: what annotations call it.
        componentCreation: whether a balloon of components has all of them, or the one of which there are fewest.
        namespaces: namespaces whose containers belong to it, with patterns.
        groupBy: a text with ``${key}``; containers for which it is equal are together.
        minCPUs: CPUs of one balloon at least.
        maxCPUs: CPUs of one balloon at most, 0 for no limit.
        minBalloons: balloons that there are from the start.
        maxBalloons: balloons at most, 0 for no limit.
        memoryTypes: what its memory is: dram, pmem, hbm.
        pinMemory: whether the memory nodes of its containers are set; without a word, as for all types.
        allocatorPriority: which CPUs it prefers, and which types get their least first.
        preferSpreadOnPhysicalCores: take one thread of each core first; without a word, as for all types.
        hideHyperthreads: whether containers use one thread of each core.
        allocatorTopologyBalancing: take CPUs where most are free; without a word, as for all types.
        cpuClass: one of cpuClasses, for its CPUs.
        loads: names of loadClasses that it puts on its CPUs.
        preferSpreadingPods: whether containers of a pod are rather in different balloons.
        preferPerNamespaceBalloon: whether containers of a namespace are rather in a balloon of their own.
        preferNewBalloons: whether a new balloon is made while there are CPUs for it.
        shareIdleCPUsInSame: where idle CPUs are used as well, as long as they are idle.
        preferCloseToDevices: paths of devices that its CPUs are near to.
        preferIsolCpus: take CPUs that the kernel isolates first.
        preferCoreType: which cores of a hybrid processor it prefers.
        schedulingClass: one of schedulingClasses, for its containers.
        showContainersInNrt: whether each container has a zone; without a word, as for all types.
        irqClaim: patterns of interrupts that come to its CPUs.
        irqMode: isolate: no other interrupts come to its CPUs; sink: those that nobody claims do.
    """

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
            raise WrongValue("name", "a type of balloons has no name", "give it one")
        for least, most in (("minCPUs", "maxCPUs"), ("minBalloons", "maxBalloons")):
            low, high = getattr(self, least), getattr(self, most)
            for key, number in ((least, low), (most, high)):
                if not 0 <= number <= _MOST:
                    raise WrongValue(key, f"{number} is not from 0 to {_MOST}", "write one that is; 0 is no limit")
            if high and low > high:
                raise WrongValue(least, f"{low} is above {most} ({high})", "lower it")
        if self.minBalloons > _MOST_BALLOONS:
            reason = f"{self.minBalloons} is above {_MOST_BALLOONS}"
            raise WrongValue("minBalloons", reason, "they are all made at the start; lower it")
        for place, word in enumerate(self.memoryTypes):
            try:
                parse_kinds([word])
            except ValueError as error:
                reason, _, suggestion = str(error).partition(": ")
                raise WrongValue(("memoryTypes", place), reason, f"write {suggestion}") from None
        self.kinds = parse_kinds(self.memoryTypes)
        if self.name == RESERVED and max(self.minBalloons, self.maxBalloons) > 1:
            key = "minBalloons" if self.minBalloons > 1 else "maxBalloons"
            raise WrongValue(key, f"{getattr(self, key)}, and there is one balloon of the type reserved", "write 1")
        if self.componentCreation and not self.components:
            raise WrongValue("componentCreation", f"{self.componentCreation} has no effect", "add components")
        own = next((key for key in _NOT_COMPOSITE if getattr(self, key) not in ("", [], None, False)), None)
        if self.components and own:
            raise WrongValue(own, "a composite balloon takes its CPUs from its components", "move it to one of them")

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
    """The `spec` of a BalloonsPolicy.

    Attributes:
        reservedResources: what the balloon of the system has.
        availableResources: what balloons may have; a list, and all without one.
        pinCPU: whether the CPUs of containers are set at all.
        pinMemory: whether the memory nodes of containers are set at all.
        idleCPUClass: the class of CPUs that are in no balloon.
        reservedPoolNamespaces: namespaces in the balloon of the system, with patterns.
        allocatorTopologyBalancing: take CPUs where most are free, and not where fewest are.
        preferSpreadOnPhysicalCores: take one thread of each core first.
        preserve: containers that are in no balloon.
        showContainersInNrt: whether each container has a zone in the node's NodeResourceTopology.
        turboDomain: where turboPriority of CPU classes is compared.
        controllableInterrupts: patterns of the interrupts that may be moved.
        control: classes of CPUs in their older place, control.cpu.classes, count; all else is without effect.
        agent, instrumentation, log: read, and without effect.
    """

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
    control: Control = field(default_factory=Control)
    instrumentation: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        types = {each.name: each for each in self.balloonTypes}
        asked = dict[str, dict[Path, str]](balloonTypes={}, loadClasses={}, schedulingClasses={}, cpuClasses={})
        for place, each in enumerate(self.balloonTypes):
            here: Path = ("balloonTypes", place)
            for number, component in enumerate(each.components):
                name = component.balloonType
                where = (*here, "components", number, "balloonType")
                asked["balloonTypes"][where] = "" if name in (RESERVED, DEFAULT) else name
            asked["loadClasses"] |= {(*here, "loads", number): load for number, load in enumerate(each.loads)}
            asked["schedulingClasses"][*here, "schedulingClass"] = each.schedulingClass
        for key, paths in asked.items():
            names = [each.name for each in getattr(self, key)]
            check_names(key, [*dict.fromkeys(names)] if key == "loadClasses" else names, paths)
        for place, each in enumerate(self.balloonTypes):
            self._check_components(("balloonTypes", place, "components"), each, types)
        self.cpuClasses = [*self.cpuClasses, *self.control.added_classes(self.cpuClasses)]

    def unread_keys(self, cpus: int) -> Iterator[WrongValue]:
        """Keys of balloons alone that have no effect on a machine of this many CPUs, with the reason."""
        for name in self.control.overridden_classes(self.cpuClasses):
            yield without_effect(f"cpuClasses has a class {name}, too", "control", "cpu", "classes", name)
        for place, kind in enumerate(self.balloonTypes):
            path = ("balloonTypes", place)
            try:
                expand(kind.groupBy, Container("", "", Pod("", "")), None)
            except ValueError as error:
                yield without_effect(str(error), *path, "groupBy")
            if kind.minCPUs > cpus:
                reason = f"{kind.minCPUs} is above the {cpus} CPUs that there are: no balloon {kind.name} can be made"
                yield WrongValue((*path, "minCPUs"), reason, "lower it")
            for number, device in enumerate(kind.preferCloseToDevices):
                if device.startswith("podresourceapi:"):
                    yield without_effect(POD_RESOURCES, *path, "preferCloseToDevices", number)

    def undefined_cpu_classes(self) -> Iterator[tuple[Path, str]]:
        """The keys that name a class of CPUs which is not defined, with its name."""
        names = {"", *(each.name for each in self.cpuClasses)}
        if self.idleCPUClass not in names:
            yield ("idleCPUClass",), self.idleCPUClass
        for place, each in enumerate(self.balloonTypes):
            if each.cpuClass not in names:
                yield ("balloonTypes", place, "cpuClass"), each.cpuClass

    def _check_components(self, path: Path, top: BalloonType, types: dict[str, BalloonType]) -> None:
        """Refuse composites that hold themselves, are too deep, or of too many balloons."""
        here, parts = Counter({top.name: 1}), 0
        for _ in range(_DEEPEST if top.components else 0):
            inside = Counter[str]()
            for name, count in here.items():
                for component in types[name].components if name in types else ():
                    inside[component.balloonType] += count
            here, parts = inside, parts + inside.total()
            if top.name in here:
                raise WrongValue(path, f"{top.name!r} is a component of itself", "take it out")
            if parts > _MAX_PARTS:
                raise WrongValue(path, f"{top.name!r} is made of more than {_MAX_PARTS} balloons", "nest them less")
        if top.components and here:
            raise WrongValue(path, "components are nested too deep, or in a circle", "nest them less")


@dataclass
class PluginOptions(Options):
    """Keys of the configuration, or of the `spec` of a BalloonsPolicy: see the plugin's page."""

    stateDir: str = "/var/lib/nri/placement"
    hostRoot: str = "/"
