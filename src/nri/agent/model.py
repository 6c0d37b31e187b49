"""The vocabulary of the agent: pods, containers, decisions of hooks, and writes.

The name of a knob does not depend on the cgroup version. It is a name of `nri.host.KNOBS` (`cpu.cfs_burst`,
`memory.high`, `io.read_bps`, `hugetlb.2MB.limit`), or a field that only a runtime sets
(`nri.host.cgroups.fields.FIELDS`: `rdt_class`,
`cpu.realtime_period`). `unified.FILE` is a file of cgroup v2 without a knob, for example `unified.memory.reclaim`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from nri.agent.cgroup_paths import is_shared_cgroup
from nri.errors import NriError
from nri.host.cgroups.fields import FIELDS
from nri.host.cgroups.knobs import KNOBS
from nri.kube.quantity import capped, ceil

#: A pod as JSON of the Kubernetes API. Do not modify it.
PodManifest = Mapping[str, Any]
#: The maximum number of containers of a pod that are read.
MAX_CONTAINERS: Final = 256

#: The neutral names of knobs that several modules use.
SHARES: Final = "cpu.shares"
QUOTA: Final = "cpu.cfs_quota"
CPUS: Final = "cpuset.cpus"
MEMORY_LIMIT: Final = "memory.limit"
BVT: Final = "cpu.bvt"
CPU_IDLE: Final = "cpu.idle"
NET_CLASS: Final = "net_cls.classid"
#: The score applies to each process of a cgroup; it is not a cgroup file.
OOM_SCORE: Final = "oom_score_adj"


#: Runtimes drop these fields from updates: the kernel or a class takes such a value only when a container is created.
AT_CREATION: Final = frozenset({OOM_SCORE, *(name for name in FIELDS if name not in KNOBS)})
#: The value of a knob: a number, a string (for example a list of CPUs), or a number or string for each device.
Setting = int | str | Mapping[str, int] | Mapping[str, str]
#: The prefix of the name of a cgroup v2 file without a knob.
UNIFIED: Final = "unified."


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources in force: quota in microseconds, memory in bytes. -1 means unlimited; None means not set or unknown."""

    cpu_shares: int | None = None
    cfs_quota: int | None = None
    cpuset: str | None = None
    memory_limit: int | None = None
    cfs_period: int | None = None
    oom_score_adj: int | None = None


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """The extended resources that a container requests. Kubernetes itself does not enforce extended resources."""

    requests: Mapping[str, Fraction] = field(default_factory=dict)
    limits: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of a decision or a write: a pod, one of its containers, a kube-QoS folder or a host application.

    Attributes:
        key: the uid of a pod, or `kube-qos/...`, `host-application/...` or `node/...`.
        container: the name of the container; "" if the subject is the pod itself.
    """

    key: str
    namespace: str = ""
    name: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its source describes it: an NRI message, a request to a hook server, or the Kubernetes API.

    Attributes:
        folder: the cgroup of the pod, relative to the root of the cgroups.
        extended: amounts of extended resources by container; None if the pod has no extended resources.
        tasks: the thread ids of the pod by container.
        host_network: whether the pod uses the network of the node.

    These are set only for pods that a pod source lists (`nri.agent.pods.manifest.listed_pod`):

    Attributes:
        kube_class: Kubernetes' QoS class.
        started: seconds since 1970; None if unknown.
        manifest: the API object.
        driver: the cgroup driver that named the folders.
        sandbox: the pause container; an unknown id is "".
        containers: the containers of the spec that have a folder, in the order of the spec, without init containers;
            empty for a pod in a virtual machine.
        main_containers: the containers with a status, in the order of the statuses, also in a virtual machine.
        init_containers: the init containers with a status.
        problem: why the resources or containers could not be read; they are empty then.
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
        """The pod's readable name, `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def specs(self) -> list[Mapping[str, Any]]:
        """The first `MAX_CONTAINERS` container specs of the manifest, without init containers."""
        return list((self.manifest.get("spec") or {}).get("containers") or ())[:MAX_CONTAINERS]

    def folders(self) -> tuple[str, ...]:
        """The cgroups of the pod and of its containers."""
        return (self.folder, *(container.folder for container in self.containers))

    def amount(self, container: str, part: str, *names: str) -> int:
        """Return the amount of the first requested resource with one of these names, rounded up, or -1 without a match.

        Args:
            container: the name of the container.
            part: `requests` or `limits`.
            names: the names of the resources.
        """
        for spec in self.specs:
            if spec.get("name") == container:
                amounts = (spec.get("resources") or {}).get(part) or {}
                return next((ceil(capped(amounts[name])) for name in names if name in amounts), -1)
        return -1

    def subject(self, container: str = "") -> Subject:
        """Return the subject for records about the pod, or about one of its containers."""
        return Subject(self.uid, self.namespace, self.name, container)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        id: the id with the name of the runtime: `containerd://...`.
        folder: the cgroup of the container, relative to the root of the cgroups.
        sandbox: whether this is the pause container.
        resources: None if they are unknown or the spec of the pod lacks the container.
        cpu_limit: the limit in CPUs from the spec; 0 means no limit, None means unknown.
        new: at the stage `MAKE_ROOM`, the other container that is about to be created.
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
    """The cgroup of a Kubernetes QoS class."""

    kube_class: str
    folder: str = ""


@dataclass(frozen=True, slots=True)
class HostApplication:
    """A program of the host that the NodeSLO document lists, with its QoS class and cgroup."""

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
    """A device node to add to a container. `type` is "c" or "b"; `mode` holds the permission bits."""

    path: str
    type: str
    major: int
    minor: int
    mode: int


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """A permission or a ban to use devices. `type` is "a", "b" or "c"; a number of None matches every device.

    `access` contains some of the letters r, w and m.
    """

    allow: bool
    type: str = "a"
    major: int | None = None
    minor: int | None = None
    access: str = "rwm"


@dataclass(frozen=True, slots=True)
class Resctrl:
    """A change of a resctrl group: lines for its schemata ("" keeps them), task ids to add, or its removal."""

    group: str
    schemata: str = ""
    tasks: tuple[int, ...] = ()
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The values that a decision sets.

    Attributes:
        knobs: values by the neutral name of the knob, in the unit of the knob; -1 means no limit.
        resctrl: a resctrl group, which the executor creates; the runtime gets its name as the RDT class.
        env, mounts, devices, device_rules: additions to a container that is being created.
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
        """Return the union of both changes. If both set the same value, `other` takes precedence."""
        return Changes(
            {**self.knobs, **other.knobs},
            self.resctrl if other.resctrl is None else other.resctrl,
            {**self.env, **other.env},
            self.mounts + other.mounts,
            self.devices + other.devices,
            self.device_rules + other.device_rules,
        )

    def number(self, knob: str) -> int | None:
        """Return the number set for a knob, or None if the value is missing or not a number."""
        value = self.knobs.get(knob)
        return value if isinstance(value, int) else None

    def text(self, knob: str) -> str | None:
        """Return the string set for a knob, for example a list of CPUs; None if it is missing or not a string."""
        value = self.knobs.get(knob)
        return value if isinstance(value, str) else None

    def only(self, knobs: Collection[str]) -> Changes:
        """Return only the changes of these knobs."""
        return Changes({name: value for name, value in self.knobs.items() if name in knobs})

    def without(self, knobs: Collection[str]) -> Changes:
        """Return all changes except those of these knobs."""
        return replace(self, knobs={name: value for name, value in self.knobs.items() if name not in knobs})


NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one hook: its changes, and the annotation, rule or input that caused them, in one line."""

    changes: Changes = NO_CHANGES
    reason: str = ""


class HookError(NriError):
    """A hook cannot decide, usually because of a malformed annotation.

    Attributes:
        hook: the name of the hook.
        reason: what is wrong, in one line.
        partial: the changes before the failure. Koordinator applies them; the agent discards them by default.
    """

    def __init__(self, hook: str, reason: str, partial: Changes = NO_CHANGES) -> None:
        super().__init__(f"{hook}: {reason}")
        self.hook = hook
        self.reason = reason
        self.partial = partial


class Write(NamedTuple):
    """A value for a knob of a cgroup.

    Attributes:
        folder: the cgroup, relative to the root of the cgroups.
        knob: the neutral name of the knob.
        value: the value as a string; "" if `devices` holds the values.
        reason: the rule, annotation or input that caused the value.
        devices: the values by device, for a knob with a value for each device.
    """

    folder: str
    knob: str
    value: str
    reason: str = ""
    devices: Mapping[str, int] | Mapping[str, str] | None = None


def pod_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a pod that no transport can express. The list is empty if the pod shares its cgroup."""
    return [] if is_shared_cgroup(folder) else writes(folder, changes, reason)


def writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a cgroup. Values of "" are left out."""
    if not folder:
        return []
    return [
        Write(folder, name, "", reason, value)
        if isinstance(value, Mapping)
        else Write(folder, name, str(value), reason)
        for name, value in changes.knobs.items()
        if value != ""
    ]
