"""The vocabulary of the agent: pods, containers, decisions of hooks, and writes.

The name of a knob is neutral: that of `nri.host.KNOBS` (`cpu.cfs_burst`, `memory.high`, `io.read_bps`,
`hugetlb.2MB.limit`), or of a field that only a runtime sets (`nri.host.cgroups.fields.FIELDS`: `rdt_class`,
`cpu.realtime_period`). `unified.FILE` is a file of cgroup v2 without a knob, for example `unified.memory.reclaim`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from nri.agent.cgroup_paths import of_many_pods
from nri.errors import NriError
from nri.host.cgroups.fields import FIELDS
from nri.host.cgroups.knobs import KNOBS
from nri.kube.quantity import capped, ceil

#: A pod as the API's JSON has it, not to be changed.
PodManifest = Mapping[str, Any]
#: A kubelet lists no pod with more containers than this.
MAX_CONTAINERS: Final = 256

#: The neutral names of the knobs that are named in more than one place.
SHARES: Final = "cpu.shares"
QUOTA: Final = "cpu.cfs_quota"
CPUS: Final = "cpuset.cpus"
MEMORY_LIMIT: Final = "memory.limit"
BVT: Final = "cpu.bvt"
CPU_IDLE: Final = "cpu.idle"
NET_CLASS: Final = "net_cls.classid"
#: A knob of processes among those of cgroups: a score for each process of a folder.
OOM_SCORE: Final = "oom_score_adj"


#: Runtimes drop these fields from updates; the kernel or a class takes them once, when a container is created.
AT_CREATION: Final = frozenset({OOM_SCORE, *(name for name in FIELDS if name not in KNOBS)})
#: The value of a knob: a number, a list of CPUs or memory nodes as a text, or numbers or texts by device.
Setting = int | str | Mapping[str, int] | Mapping[str, str]
#: The beginning of the name of a file of cgroup v2.
UNIFIED: Final = "unified."


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources in force. Quota in microseconds, memory in bytes; -1 is unlimited, None not set or unknown."""

    cpu_shares: int | None = None
    cfs_quota: int | None = None
    cpuset: str | None = None
    memory_limit: int | None = None
    cfs_period: int | None = None
    oom_score_adj: int | None = None


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """The amounts of extended resources, which Kubernetes does not enforce, that a container requests."""

    requests: Mapping[str, Fraction] = field(default_factory=dict)
    limits: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of a decision or a write: a pod, one of its containers, a kube-QoS folder or a host application.

    Attributes:
        key: a pod's uid; else `kube-qos/...`, `host-application/...` or `node/...`.
        container: the container's name; "" for the pod itself.
    """

    key: str
    namespace: str = ""
    name: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, as far as its source describes it: an NRI message, a request of a hook server, or the Kubernetes API.

    Attributes:
        folder: its cgroup, below the root of the cgroups.
        extended: amounts of extended resources by container; None if there are none.
        tasks: its thread ids by container.
        host_network: whether it uses the network of the node.

    The rest is set for pods that a source lists (`nri.agent.pods.manifest.listed_pod`):

    Attributes:
        kube_class: Kubernetes' QoS class.
        started: seconds since 1970; None if unknown.
        manifest: the API object.
        driver: the cgroup driver that named the folders.
        sandbox: the pause container; its id is "" if it is unknown.
        containers: those of the spec that have a folder, in the order of the spec, without init containers; none for a
            pod in a virtual machine.
        main_containers: those with a status, in the order of the statuses; also of a pod in a virtual machine.
        init_containers: those with a status.
        problem: the error of reading its resources or containers, which are then empty.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    resources: Resources | None = None
    extended: Mapping[str, ExtendedResources] | None = None
    tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    host_network: bool = False
    kube_class: str = ""
    started: float | None = None
    manifest: PodManifest = field(default_factory=dict, compare=False, repr=False)
    driver: str = ""
    sandbox: Container | None = field(default=None, compare=False, repr=False)
    containers: tuple[Container, ...] = field(default=(), compare=False, repr=False)
    main_containers: tuple[Container, ...] = field(default=(), compare=False, repr=False)
    init_containers: tuple[Container, ...] = field(default=(), compare=False, repr=False)
    problem: Exception | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Its name for people: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def specs(self) -> list[Mapping[str, Any]]:
        """The container specs of its manifest, without init containers, up to a limit."""
        return list((self.manifest.get("spec") or {}).get("containers") or ())[:MAX_CONTAINERS]

    def folders(self) -> tuple[str, ...]:
        """The cgroups of the pod and of its containers."""
        return (self.folder, *(container.folder for container in self.containers))

    def amount(self, container: str, part: str, *names: str) -> int:
        """Return the amount of the first resource with one of these names, rounded up; -1 if there is none.

        Args:
            container: its name.
            part: `requests` or `limits`.
            names: of resources.
        """
        for spec in self.specs:
            if spec.get("name") == container:
                amounts = (spec.get("resources") or {}).get(part) or {}
                return next((ceil(capped(amounts[name])) for name in names if name in amounts), -1)
        return -1

    def subject(self, container: str = "") -> Subject:
        """The key of its records, or of those of one container."""
        return Subject(self.uid, self.namespace, self.name, container)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        id: with its runtime in front: `containerd://...`.
        folder: its cgroup, below the root of the cgroups.
        sandbox: whether it is the pause container.
        resources: None if they are unknown, or the pod's spec does not have the container.
        cpu_limit: CPUs by its spec; 0 for no limit, None if unknown.
        new: at the stage `MAKE_ROOM`, the container that is about to be created next to this one.
    """

    pod: Pod = field(default_factory=Pod)
    id: str = ""
    name: str = ""
    folder: str = ""
    sandbox: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources | None = None
    extended: ExtendedResources | None = None
    cpu_limit: float | None = None
    new: Container | None = None


@dataclass(frozen=True, slots=True)
class KubeQosFolder:
    """The folder of a Kubernetes QoS class."""

    kube_class: str
    folder: str = ""


@dataclass(frozen=True, slots=True)
class HostApplication:
    """A program of the host that NodeSLO lists, with its QoS class and folder."""

    name: str
    qos: str = ""
    folder: str = ""


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
    """Whether a container may use devices. `type` is a, b or c; None as a number is all; `access` is some of rwm."""

    allow: bool
    type: str = "a"
    major: int | None = None
    minor: int | None = None
    access: str = "rwm"


@dataclass(frozen=True, slots=True)
class Resctrl:
    """A resctrl group: its name, lines for its schemata ("" keeps them), task ids to append, or its removal."""

    group: str
    schemata: str = ""
    tasks: tuple[int, ...] = ()
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The values that a decision sets.

    Attributes:
        knobs: by neutral name, each in the unit of its knob; -1 is no limit.
        resctrl: a resctrl group, which the executor creates and the runtime gets as the RDT class.
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
        """Return both; where both set the same value, the other's wins."""
        return Changes(
            {**self.knobs, **other.knobs},
            self.resctrl if other.resctrl is None else other.resctrl,
            {**self.env, **other.env},
            self.mounts + other.mounts,
            self.devices + other.devices,
            self.device_rules + other.device_rules,
        )

    def number(self, knob: str) -> int | None:
        """Return the number set for a knob; None if there is none."""
        value = self.knobs.get(knob)
        return value if isinstance(value, int) else None

    def text(self, knob: str) -> str | None:
        """Return the text set for a knob, for example a list of CPUs; None if there is none."""
        value = self.knobs.get(knob)
        return value if isinstance(value, str) else None

    def only(self, knobs: Collection[str]) -> Changes:
        """Return these knobs alone, and nothing else."""
        return Changes({name: value for name, value in self.knobs.items() if name in knobs})

    def without(self, knobs: Collection[str]) -> Changes:
        """Return all but these knobs."""
        return replace(self, knobs={name: value for name, value in self.knobs.items() if name not in knobs})


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one hook: its changes, and one line on the annotation, rule or input behind them."""

    changes: Changes = NO_CHANGES
    reason: str = ""


class HookError(NriError):
    """A hook cannot decide, mostly because of a malformed annotation.

    Attributes:
        hook: its name.
        reason: what is wrong, in one line.
        partial: its changes until the failure. Koordinator applies them; by default they are discarded.
    """

    def __init__(self, hook: str, reason: str, partial: Changes = NO_CHANGES) -> None:
        super().__init__(f"{hook}: {reason}")
        self.hook = hook
        self.reason = reason
        self.partial = partial


class Write(NamedTuple):
    """A value for a knob of a cgroup.

    Attributes:
        folder: the cgroup, below the root of the cgroups.
        knob: its neutral name.
        value: as a text; "" for a knob whose values are by device.
        reason: the rule, annotation or input behind the value.
        devices: the values of a knob that has them by device.
    """

    folder: str
    knob: str
    value: str
    reason: str = ""
    devices: Mapping[str, int] | Mapping[str, str] | None = None


def pod_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a pod, which no transport can express; none for a pod without its own cgroup."""
    return [] if of_many_pods(folder) else writes(folder, changes, reason)


def writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a cgroup, without an explicit clear."""
    if not folder:
        return []
    return [
        Write(folder, name, "", reason, value)
        if isinstance(value, Mapping)
        else Write(folder, name, str(value), reason)
        for name, value in changes.knobs.items()
        if value != ""
    ]
