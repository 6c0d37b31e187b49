"""The options of topology-aware, by the keys of its custom resource. Pure. Next: `requests`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from nri.config.complaint import WrongValue
from nri.config.place import Path
from nri.placement.amounts import Amounts
from nri.placement.containers import SUFFIX
from nri.placement.scheduling import SchedulingClass, check_names
from nri.placement.tuning import Control, CpuClass
from nri.placement.unread import without_effect

ANNOTATIONS: Final[Mapping[str, str]] = {
    f"{key}{SUFFIX}": meaning
    for key, meaning in {
        "prefer-shared-cpus": "true: no exclusive CPUs; false: also beside a part of a CPU",
        "prefer-isolated-cpus": "whether exclusive CPUs are best ones that the kernel isolates",
        "require-isolated-cpus": "true: the container is refused if there are none",
        "prefer-reserved-cpus": "true: the CPUs of the system",
        "prefer-cpu-priority": "high, normal, low or none",
        "memory-type": "dram, pmem, hbm or mixed; several with commas",
        "cold-start": "{duration: 60s}: without DRAM for so long, on machines with PMEM or CXL memory",
        "hide-hyperthreads": "true: one thread of each core",
        "unlimited-burstable": "system, package, die, numa or l3cache: where containers without a limit are",
        "topologyhints": "mounts, devices, all or none: what of it is a hint for its place",
        "allow.topologyhints": "{type: prefix or glob, paths}: paths that are hints although they are denied",
        "deny.topologyhints": "{type: prefix or glob, paths}: paths that are no hints",
        "strict.topologyhints": "true: the container is refused if its place does not meet its hints",
        "scheduling-class": "one of schedulingClasses: how its processes are scheduled",
        "cpu-class": "one of cpuClasses: how its own CPUs are set",
        "irq-affinity": "{claim, mask, mode}: interrupts that its own CPUs take, or are spared",
        "cpu.preserve": "true: its CPUs are left alone",
        "memory.preserve": "true: its memory nodes are left alone",
    }.items()
} | {
    "resource-policy.nri.io/affinity": "containers that it is best near to",
    "resource-policy.nri.io/anti-affinity": "containers that it is best far from",
}
UNREAD_ANNOTATIONS: Final[Mapping[str, str]] = {}
"""Annotations of other policies that have no effect on topology-aware: there are none."""
_CLASSES = ("guaranteed", "burstable", "besteffort")
_CLASS_KEYS = ("sharedPoolCPUClass", "reservedPoolCPUClass", "defaultExclusiveCPUClass")

Level = Literal["system", "package", "die", "numa", "l3cache", "l2cache", "core", "thread"]


@dataclass(frozen=True)
class Options:
    """The `spec` of a TopologyAwarePolicy.

    Attributes:
        reservedResources: what the system has, needed.
        availableResources: what containers may have; a list, and all without one.
        pinCPU: whether the CPUs of containers are set at all.
        pinMemory: whether the memory nodes of containers are set at all.
        preferIsolatedCPUs: whether single exclusive CPUs are ones that the kernel isolates.
        preferSharedCPUs: whether only containers that ask for them get CPUs of their own.
        colocatePods: whether containers of a pod are near to each other.
        colocateNamespaces: whether containers of a namespace are near to each other.
        reservedPoolNamespaces: namespaces on the system's CPUs besides kube-system, with patterns.
        defaultCPUPriority: which CPUs containers prefer that do not say.
        unlimitedBurstable: the level that Burstable containers without a limit prefer.
        namespaceSchedulingClasses: the scheduling class of containers of a namespace that ask for none.
        podQoSSchedulingClasses: the same for guaranteed, burstable and besteffort pods, where the namespace has none.
        sharedPoolCPUClass: the class of shared CPUs, needed if there are cpuClasses.
        reservedPoolCPUClass: the class of the system's CPUs, else the one of shared CPUs.
        defaultExclusiveCPUClass: the class of a container's own CPUs, else the one of shared CPUs.
        controllableInterrupts: patterns of the interrupts that may be moved.
        agent, control, instrumentation, log: read, and without effect.
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
        asked: dict[Path, str] = {}
        for key in ("namespaceSchedulingClasses", "podQoSSchedulingClasses"):
            asked |= {(key, name): each for name, each in getattr(self, key).items()}
        for qos in self.podQoSSchedulingClasses:
            if qos.lower() not in _CLASSES:
                raise WrongValue(
                    ("podQoSSchedulingClasses", qos), "is no class of pods", f"write {', '.join(_CLASSES)}"
                )
        check_names("schedulingClasses", [each.name for each in self.schedulingClasses], asked)
        names: dict[Path, str] = {(key,): getattr(self, key) for key in _CLASS_KEYS if self.cpuClasses}
        check_names("cpuClasses", [each.name for each in self.cpuClasses], names)
        if self.cpuClasses and not self.sharedPoolCPUClass:
            reason = "missing: it says how CPUs are set that come back from a container"
            raise WrongValue("sharedPoolCPUClass", reason, "name one of cpuClasses")

    def unread_keys(self, _cpus: int) -> Iterator[WrongValue]:
        """Keys of topology-aware alone that have no effect, with the reason."""
        if self.control.cpu.classes:
            yield without_effect("classes of CPUs are read from cpuClasses", "control", "cpu")

    def undefined_cpu_classes(self) -> Iterator[tuple[Path, str]]:
        """The keys that name a class of CPUs although none is defined, with its name."""
        for key in _CLASS_KEYS if not self.cpuClasses else ():
            if name := getattr(self, key):
                yield (key,), name

    def scheduling_class(self, namespace: str, qos: str) -> str:
        """The name of the scheduling class of containers that ask for none; "" for none."""
        by_qos = {name.lower(): each for name, each in self.podQoSSchedulingClasses.items()}
        return self.namespaceSchedulingClasses.get(namespace) or by_qos.get(qos.lower(), "")


@dataclass(frozen=True)
class PluginOptions(Options):
    """Keys of the configuration, or of the `spec` of a TopologyAwarePolicy: see the plugin's page."""

    stateDir: str = "/var/lib/nri/placement"
    hostRoot: str = "/"
