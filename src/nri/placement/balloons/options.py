"""The options of the balloons policy, named like the keys of its custom resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from nri.config.complaint import WrongValue
from nri.config.key_path import Path
from nri.placement.amounts import Amounts
from nri.placement.containers import SUFFIX, Container, Pod
from nri.placement.expressions import Expression, expand
from nri.placement.ignored_keys import POD_RESOURCES, ignored_key
from nri.placement.machine import Priority
from nri.placement.scheduling import SchedulingClass, check_names
from nri.placement.tuning import Control, CpuClass
from nri.placement.zones import parse_kinds

RESERVED, DEFAULT = "reserved", "default"
ANNOTATIONS: Final[Mapping[str, str]] = {
    f"{key}{SUFFIX}": meaning
    for key, meaning in {
        "balloon.balloons": "the type of the container's balloon",
        "memory-type": "types of memory, separated by commas: dram, pmem, hbm or mixed",
        "hide-hyperthreads": "true: the container uses one thread of each core",
        "scheduling-class": "a name in schedulingClasses: how the container's processes are scheduled",
        "cpu.preserve": "true: the container's CPUs are not changed, and the container is not in a balloon",
        "memory.preserve": "true: the container's memory nodes are not changed",
    }.items()
}
IGNORED_ANNOTATIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("topologyhints", "allow.topologyhints", "deny.topologyhints", "strict.topologyhints"),
        "preferCloseToDevices of a type sets the devices that its balloons are near to",
    ),
    "cold-start": "containers get all types of memory from the start",
    "cpu-class": "cpuClass of a type sets the class of the CPUs of its balloons",
    "irq-affinity": "irqClaim and irqMode of a type set the interrupts of its balloons",
}
"""Annotations of other policies that have no effect on balloons, with the reason."""
#: Maximum nesting depth of composite balloons.
_MAX_LEVELS = 16
#: Maximum number of balloons in one composite. No machine has enough CPUs for more, and each level
#: multiplies the number.
_MAX_PARTS = 4096
#: More CPUs or balloons than any machine has.
_MAX_NUMBER = 1 << 31
#: Maximum number of balloons of a type that are created at the start. No machine has enough CPUs for more.
_MAX_BALLOONS = 4096

Level = Literal["", "system", "package", "die", "numa", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Component:
    """A component of a composite balloon.

    Attributes:
        balloonType: a name in balloonTypes; each component has an equal share of the CPUs.
    """

    balloonType: str

    def __post_init__(self) -> None:
        if not self.balloonType:
            raise WrongValue("balloonType", "a component must name a type of balloons", "write one of balloonTypes")


@dataclass(frozen=True)
class LoadClass:
    """A load that a type of balloons puts on cores or caches, and that other types avoid.

    Attributes:
        name: the name for ``loads`` of types.
        level: the level on which balloons with this load avoid each other.
        overloadsLevelInBalloon: whether CPUs in the same balloon avoid each other, too.
    """

    name: str
    level: Literal["core", "l2cache"]
    overloadsLevelInBalloon: bool = False


@dataclass(frozen=True)
class Preserve:
    """Which containers are not placed."""

    matchExpressions: list[Expression] = field(default_factory=list)


@dataclass
class BalloonType:
    """A type of balloons.

    Attributes:
        name: the name for annotations.
        componentCreation: whether a composite balloon has all components, or only one component, of the type with the
            fewest balloons.
        namespaces: namespaces whose containers belong to the type; patterns are allowed.
        groupBy: a template with ``${key}``; containers with the same result share a balloon.
        minCPUs: minimum CPUs of one balloon.
        maxCPUs: maximum CPUs of one balloon; 0 for no limit.
        minBalloons: number of balloons created at the start.
        maxBalloons: maximum number of balloons; 0 for no limit.
        memoryTypes: types of memory: dram, pmem, hbm.
        pinMemory: whether to set the memory nodes of the type's containers; default: the policy's value.
        allocatorPriority: the priority class of the CPUs that the type prefers. It also decides the order in which
            minimum balloons are created.
        preferSpreadOnPhysicalCores: take one thread of each core first; default: the policy's value.
        hideHyperthreads: whether containers use only one thread of each core.
        allocatorTopologyBalancing: take CPUs where most are free; default: the policy's value.
        cpuClass: the class of the type's CPUs, a name in cpuClasses.
        loads: the loads that it puts on its CPUs, names in loadClasses.
        preferSpreadingPods: whether to put containers of a pod into different balloons, if possible.
        preferPerNamespaceBalloon: whether to give each namespace a separate balloon, if possible.
        preferNewBalloons: whether to create a new balloon as long as there are CPUs for it.
        shareIdleCPUsInSame: the level in which its containers also use idle CPUs.
        preferCloseToDevices: paths of devices that its CPUs should be near to.
        preferIsolCpus: first take the CPUs that the kernel isolates.
        preferCoreType: which cores of a hybrid processor it prefers.
        schedulingClass: the scheduling class of its containers, a name in schedulingClasses.
        showContainersInNrt: whether each container has a zone in the NodeResourceTopology; default: the policy's value.
        irqClaim: patterns of interrupts that its CPUs handle.
        irqMode: isolate: its CPUs handle no other interrupts; sink: its CPUs handle unclaimed interrupts.
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
        #: Devices that the type's CPUs should be far from, computed from the other types.
        self.far_devices: list[str] = []
        if not self.name:
            raise WrongValue("name", "a type of balloons must have a name", "add name")
        for low_key, high_key in (("minCPUs", "maxCPUs"), ("minBalloons", "maxBalloons")):
            low, high = getattr(self, low_key), getattr(self, high_key)
            for key, number in ((low_key, low), (high_key, high)):
                if not 0 <= number <= _MAX_NUMBER:
                    suggestion = f"write a number from 0 to {_MAX_NUMBER}; 0 means unlimited"
                    raise WrongValue(key, f"{number} is out of range", suggestion)
            if high and low > high:
                raise WrongValue(low_key, f"{low} is above {high_key} ({high})", "lower it")
        if self.minBalloons > _MAX_BALLOONS:
            reason = f"{self.minBalloons} balloons, which are all created at the start, exceed {_MAX_BALLOONS}"
            raise WrongValue("minBalloons", reason, "lower the number")
        for index, memory_type in enumerate(self.memoryTypes):
            try:
                parse_kinds([memory_type])
            except ValueError as error:
                reason, _, suggestion = str(error).partition(": ")
                raise WrongValue(("memoryTypes", index), reason, f"write {suggestion}") from None
        self.memory_kinds_mask = parse_kinds(self.memoryTypes)
        if self.name == RESERVED and max(self.minBalloons, self.maxBalloons) > 1:
            key = "minBalloons" if self.minBalloons > 1 else "maxBalloons"
            raise WrongValue(
                key, f"{getattr(self, key)}: the balloon type {RESERVED!r} has exactly one balloon", "write 1"
            )
        if self.componentCreation and not self.components:
            raise WrongValue("componentCreation", f"{self.componentCreation} has no effect", "add components")
        misplaced = next((key for key in _NOT_COMPOSITE if getattr(self, key) not in ("", [], None, False)), None)
        if self.components and misplaced:
            reason = "a composite balloon takes its CPUs from its components"
            raise WrongValue(misplaced, reason, "move the key to a component")

    @property
    def priority(self) -> Priority:
        """The priority class of the CPUs that the type prefers, which also orders the creation of minimum balloons."""
        return Priority.named(self.allocatorPriority)


#: Keys that a composite type cannot have.
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
        reservedResources: CPUs of the system's balloon.
        availableResources: CPUs for balloons, as a list; default: all.
        pinCPU: whether to set the CPUs of containers.
        pinMemory: whether to set the memory nodes of containers.
        idleCPUClass: the class of CPUs outside of all balloons.
        reservedPoolNamespaces: namespaces whose containers belong to the system's balloon; patterns are allowed.
        allocatorTopologyBalancing: take CPUs where most are free, not where fewest are.
        preferSpreadOnPhysicalCores: take one thread of each core first.
        preserve: containers that are not put into a balloon.
        showContainersInNrt: whether each container has a zone in the node's NodeResourceTopology.
        turboDomain: the level on which turboPriority of CPU classes is compared.
        controllableInterrupts: patterns of the interrupts that may be moved.
        control: only control.cpu.classes, the older key of cpuClasses, is read.
        agent, instrumentation, log: accepted, but without effect.
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
        types = {balloon_type.name: balloon_type for balloon_type in self.balloonTypes}
        references = dict[str, dict[Path, str]](balloonTypes={}, loadClasses={}, schedulingClasses={}, cpuClasses={})
        for index, balloon_type in enumerate(self.balloonTypes):
            path: Path = ("balloonTypes", index)
            for component_index, component in enumerate(balloon_type.components):
                name = component.balloonType
                component_path = (*path, "components", component_index, "balloonType")
                references["balloonTypes"][component_path] = "" if name in (RESERVED, DEFAULT) else name
            loads = enumerate(balloon_type.loads)
            references["loadClasses"] |= {(*path, "loads", number): load for number, load in loads}
            references["schedulingClasses"][*path, "schedulingClass"] = balloon_type.schedulingClass
        for key, names_by_path in references.items():
            names = [definition.name for definition in getattr(self, key)]
            check_names(key, [*dict.fromkeys(names)] if key == "loadClasses" else names, names_by_path)
        for index, balloon_type in enumerate(self.balloonTypes):
            self._check_components(("balloonTypes", index, "components"), balloon_type, types)
        self.cpuClasses = [*self.cpuClasses, *self.control.added_classes(self.cpuClasses)]

    def ignored_keys(self, cpus: int) -> Iterator[WrongValue]:
        """Keys of balloons that have no effect on a machine with this number of CPUs, with the reason."""
        for name in self.control.overridden_classes(self.cpuClasses):
            yield ignored_key(f"cpuClasses also has a class {name}", "control", "cpu", "classes", name)
        for index, balloon_type in enumerate(self.balloonTypes):
            path = ("balloonTypes", index)
            try:
                expand(balloon_type.groupBy, Container("", "", Pod("", "")), None)
            except ValueError as error:
                yield ignored_key(str(error), *path, "groupBy")
            if balloon_type.minCPUs > cpus:
                excess = f"{balloon_type.minCPUs} exceeds the machine's {cpus} CPUs"
                reason = f"{excess}: no balloon {balloon_type.name} can be created"
                yield WrongValue((*path, "minCPUs"), reason, "lower it")
            for number, device in enumerate(balloon_type.preferCloseToDevices):
                if device.startswith("podresourceapi:"):
                    yield ignored_key(POD_RESOURCES, *path, "preferCloseToDevices", number)

    def undefined_cpu_classes(self) -> Iterator[tuple[Path, str]]:
        """The paths of keys whose value is an undefined class of CPUs, with the class's name."""
        names = {"", *(cpu_class.name for cpu_class in self.cpuClasses)}
        if self.idleCPUClass not in names:
            yield ("idleCPUClass",), self.idleCPUClass
        for index, balloon_type in enumerate(self.balloonTypes):
            if balloon_type.cpuClass not in names:
                yield ("balloonTypes", index, "cpuClass"), balloon_type.cpuClass

    def _check_components(self, path: Path, top: BalloonType, types: dict[str, BalloonType]) -> None:
        """Raise WrongValue for composites that contain themselves, are too deep, or have too many components."""
        level, parts = Counter({top.name: 1}), 0
        for _ in range(_MAX_LEVELS if top.components else 0):
            next_level = Counter[str]()
            for name, count in level.items():
                for component in types[name].components if name in types else ():
                    next_level[component.balloonType] += count
            level, parts = next_level, parts + next_level.total()
            if top.name in level:
                raise WrongValue(path, f"{top.name!r} is a component of itself", "remove this component")
            if parts > _MAX_PARTS:
                raise WrongValue(path, f"{top.name!r} has more than {_MAX_PARTS} components", "remove some components")
        if top.components and level:
            raise WrongValue(path, "components are nested too deeply, or in a circle", "nest fewer levels")


@dataclass
class PluginOptions(Options):
    """The plugin's configuration: the `spec` of a BalloonsPolicy, and keys of the plugin."""

    stateDir: str = "/var/lib/nri/placement"
    hostRoot: str = "/"
