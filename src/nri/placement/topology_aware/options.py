"""The options of topology-aware, with the keys of its custom resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from nri.config.complaint import WrongValue
from nri.config.key_path import Path
from nri.placement.amounts import Amounts
from nri.placement.containers import SUFFIX
from nri.placement.ignored_keys import ignored_key
from nri.placement.scheduling import SchedulingClass, check_names
from nri.placement.tuning import Control, CpuClass

ANNOTATIONS: Final[Mapping[str, str]] = {
    f"{key}{SUFFIX}": meaning
    for key, meaning in {
        "prefer-shared-cpus": "true: no exclusive CPUs; false: exclusive CPUs even if the request has a fraction",
        "prefer-isolated-cpus": "whether exclusive CPUs should be CPUs that the kernel isolates",
        "require-isolated-cpus": "true: the container is refused if there are no isolated CPUs",
        "prefer-reserved-cpus": "true: the container uses the system's CPUs",
        "prefer-cpu-priority": "the priority of its CPUs: high, normal, low or none",
        "memory-type": "types of memory, separated by commas: dram, pmem, hbm or mixed",
        "cold-start": "{duration: 60s}: the container gets DRAM after this time, on machines with PMEM or CXL memory",
        "hide-hyperthreads": "true: the container uses one thread of each core",
        "unlimited-burstable": "the pool level of containers without a limit: system, package, die, numa or l3cache",
        "topologyhints": "the sources of hints for its location: mounts, devices, all or none",
        "allow.topologyhints": "{type: prefix or glob, paths}: paths that are hints even if they are denied",
        "deny.topologyhints": "{type: prefix or glob, paths}: paths that are not hints",
        "strict.topologyhints": "true: the container is refused if its place does not meet its hints",
        "scheduling-class": "a name in schedulingClasses: how its processes are scheduled",
        "cpu-class": "a name in cpuClasses: the class of its exclusive CPUs",
        "irq-affinity": "{claim, mask, mode}: interrupts that its exclusive CPUs handle, or avoid",
        "cpu.preserve": "true: its CPUs are not changed",
        "memory.preserve": "true: its memory nodes are not changed",
    }.items()
} | {
    "resource-policy.nri.io/affinity": "containers that it should be near to",
    "resource-policy.nri.io/anti-affinity": "containers that it should be far from",
}
IGNORED_ANNOTATIONS: Final[Mapping[str, str]] = {}
"""Annotations of other policies that have no effect on topology-aware."""
_CLASSES = ("guaranteed", "burstable", "besteffort")
_CLASS_KEYS = ("sharedPoolCPUClass", "reservedPoolCPUClass", "defaultExclusiveCPUClass")

Level = Literal["system", "package", "die", "numa", "l3cache", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Options:
    """The `spec` of a TopologyAwarePolicy.

    Attributes:
        reservedResources: CPUs of the system; required.
        availableResources: CPUs for containers, as a list; default: all.
        pinCPU: whether to set the CPUs of containers.
        pinMemory: whether to set the memory nodes of containers.
        preferIsolatedCPUs: whether single exclusive CPUs should be CPUs that the kernel isolates.
        preferSharedCPUs: whether containers get exclusive CPUs only if their annotation requests them.
        colocatePods: whether containers of a pod should be near to each other.
        colocateNamespaces: whether containers of a namespace should be near to each other.
        reservedPoolNamespaces: namespaces on the system's CPUs besides kube-system; patterns are allowed.
        defaultCPUPriority: the CPU priority of containers without an annotation.
        unlimitedBurstable: the level that Burstable containers without a limit prefer.
        namespaceSchedulingClasses: the default scheduling class of containers by namespace.
        podQoSSchedulingClasses: the default scheduling class by QoS class, for other namespaces.
        sharedPoolCPUClass: the class of shared CPUs; required if cpuClasses is set.
        reservedPoolCPUClass: the class of the system's CPUs; default: sharedPoolCPUClass.
        defaultExclusiveCPUClass: the class of exclusive CPUs; default: sharedPoolCPUClass.
        controllableInterrupts: patterns of the interrupts that may be moved.
        agent, control, instrumentation, log: accepted, but without effect.
    """

    resource_kind: ClassVar[str] = "TopologyAwarePolicy"

    reservedResources: Amounts
    availableResources: Amounts = field(default_factory=Amounts)
    pinCPU: bool = True
    pinMemory: bool = True
    preferIsolatedCPUs: bool = True
    preferSharedCPUs: bool = False
    colocatePods: bool = False
    colocateNamespaces: bool = False
    reservedPoolNamespaces: list[str] = field(default_factory=list)
    defaultCPUPriority: Literal["high", "normal", "low", "none"] = "none"
    unlimitedBurstable: Level = "package"
    schedulingClasses: list[SchedulingClass] = field(default_factory=list)
    namespaceSchedulingClasses: dict[str, str] = field(default_factory=dict)
    podQoSSchedulingClasses: dict[str, str] = field(default_factory=dict)
    cpuClasses: list[CpuClass] = field(default_factory=list)
    sharedPoolCPUClass: str = ""
    reservedPoolCPUClass: str = ""
    defaultExclusiveCPUClass: str = ""
    controllableInterrupts: list[str] = field(default_factory=lambda: ["*"])
    agent: dict[str, Any] = field(default_factory=dict)
    control: Control = field(default_factory=Control)
    instrumentation: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        references: dict[Path, str] = {}
        for key in ("namespaceSchedulingClasses", "podQoSSchedulingClasses"):
            references |= {(key, name): class_name for name, class_name in getattr(self, key).items()}
        for qos in self.podQoSSchedulingClasses:
            if qos.lower() not in _CLASSES:
                reason = "is not a QoS class"
                raise WrongValue(("podQoSSchedulingClasses", qos), reason, f"write {' or '.join(_CLASSES)}")
        check_names("schedulingClasses", [definition.name for definition in self.schedulingClasses], references)
        names: dict[Path, str] = {(key,): getattr(self, key) for key in _CLASS_KEYS if self.cpuClasses}
        check_names("cpuClasses", [definition.name for definition in self.cpuClasses], names)
        if self.cpuClasses and not self.sharedPoolCPUClass:
            reason = "required if cpuClasses is set: CPUs that containers release get this class"
            raise WrongValue("sharedPoolCPUClass", reason, "write the name of a class from cpuClasses")

    def ignored_keys(self, _cpus: int) -> Iterator[WrongValue]:
        """Keys of topology-aware that have no effect, with the reason."""
        if self.control.cpu.classes:
            yield ignored_key("classes of CPUs are read from cpuClasses", "control", "cpu")

    def undefined_cpu_classes(self) -> Iterator[tuple[Path, str]]:
        """The paths of keys whose value is an undefined class of CPUs, with the class's name."""
        for key in _CLASS_KEYS if not self.cpuClasses else ():
            if name := getattr(self, key):
                yield (key,), name

    def scheduling_class(self, namespace: str, qos: str) -> str:
        """The name of a container's default scheduling class, or "" without such a class."""
        by_qos = {name.lower(): class_name for name, class_name in self.podQoSSchedulingClasses.items()}
        return self.namespaceSchedulingClasses.get(namespace) or by_qos.get(qos.lower(), "")


@dataclass(frozen=True)
class PluginOptions(Options):
    """The plugin's configuration: the `spec` of a TopologyAwarePolicy, and keys of the plugin."""

    stateDir: str = "/var/lib/nri/placement"
    hostRoot: str = "/"
