"""The readers of what is set in adjustments, updates and received messages.

One job: `ResourceView` reads the `linux.resources` of a message, `AdjustmentView` an adjustment. Rules: a view holds
no state and changes nothing; it only needs `.message`. A reader has the name and the unit of the setter; a single value
that is not set reads as None, so that it differs from zero. Next: the setters of `nri.api.builders.resources` and
`nri.api.builders.adjustment` stand on these, as do the replies of `nri.testing`.
"""

from __future__ import annotations

from nri.api import optional
from nri.api.removal import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.api import messages as m

__all__ = ["AdjustmentView", "ResourceView"]


class _Reader:
    """Attribute that reads one value of the resources, None when it is not set."""

    __slots__ = ("field", "group")

    def __init__(self, group: str, field: str) -> None:
        self.group = group
        self.field = field

    def read(self, view: ResourceView | None) -> Any:
        if view is None:  # asked of the class, by help() and the like
            return self
        resources = view.resources
        return optional.get(getattr(resources, self.group) if self.group else resources, self.field)


class _Int(_Reader):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> int | None:
        value: int | None = self.read(view)
        return value


class _Bool(_Reader):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> bool | None:
        value: bool | None = self.read(view)
        return value


class _Text(_Reader):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> str | None:
        value: str | None = self.read(view)
        return value


class ResourceView:
    """Readers of resources. What is not set is None, or missing in a dictionary."""

    __slots__ = ()

    message: Any

    @property
    def resources(self) -> m.LinuxResources:
        """The resources as a message. Reading it sets nothing."""
        resources: m.LinuxResources = self.message.linux.resources
        return resources

    @property
    def has_resources(self) -> bool:
        """Whether any resource is set."""
        return bool(self.resources.ByteSize())

    # What is set, None when not; each by the name and in the unit of its setter.
    memory_limit = _Int("memory", "limit")
    memory_reservation = _Int("memory", "reservation")
    memory_swap = _Int("memory", "swap")
    memory_kernel = _Int("memory", "kernel")
    memory_kernel_tcp = _Int("memory", "kernel_tcp")
    memory_swappiness = _Int("memory", "swappiness")
    memory_disable_oom_killer = _Bool("memory", "disable_oom_killer")
    memory_use_hierarchy = _Bool("memory", "use_hierarchy")
    cpu_shares = _Int("cpu", "shares")
    cpu_quota = _Int("cpu", "quota")
    cpu_period = _Int("cpu", "period")
    cpu_realtime_runtime = _Int("cpu", "realtime_runtime")
    cpu_realtime_period = _Int("cpu", "realtime_period")
    pids_limit = _Int("", "pids")
    blockio_class = _Text("", "blockio_class")
    rdt_class = _Text("", "rdt_class")

    @property
    def cpuset_cpus(self) -> str | None:
        """Allowed CPUs, None when not set."""
        return self.resources.cpu.cpus or None

    @property
    def cpuset_mems(self) -> str | None:
        """Allowed memory nodes, None when not set."""
        return self.resources.cpu.mems or None

    @property
    def device_rules(self) -> list[m.LinuxDeviceCgroup]:
        """Rules of the device control group, in order."""
        return list(self.resources.devices)

    @property
    def hugepage_limits(self) -> dict[str, int]:
        """Limits in bytes by page size."""
        return {limit.page_size: limit.limit for limit in self.resources.hugepage_limits}

    @property
    def unified(self) -> dict[str, str]:
        """Values of cgroup v2 files."""
        return dict(self.resources.unified)


class AdjustmentView(ResourceView):
    """Readers of an adjustment. They show what is set, without what is removed; `removed()` has the latter."""

    __slots__ = ()

    message: m.ContainerAdjustment

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations that are set."""
        return {name: value for name, value in self.message.annotations.items() if not split(name)[1]}

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that are set."""
        return {entry.key: entry.value for entry in self.message.env if not split(entry.key)[1]}

    @property
    def mounts(self) -> dict[str, m.Mount]:
        """Mounts that are added, by path in the container."""
        return {mount.destination: mount for mount in self.message.mounts if not split(mount.destination)[1]}

    @property
    def devices(self) -> dict[str, m.LinuxDevice]:
        """Devices that are added, by path in the container."""
        return {device.path: device for device in self.message.linux.devices if not split(device.path)[1]}

    @property
    def namespaces(self) -> dict[str, str]:
        """Paths of the namespaces that are set, by type."""
        return {entry.type: entry.path for entry in self.message.linux.namespaces if not split(entry.type)[1]}

    @property
    def net_devices(self) -> dict[str, str]:
        """Names in the container of the network devices that are added, by name on the host."""
        return {host: device.name for host, device in self.message.linux.net_devices.items() if not split(host)[1]}

    @property
    def sysctl(self) -> dict[str, str]:
        """Kernel parameters that are set."""
        return {name: value for name, value in self.message.linux.sysctl.items() if not split(name)[1]}

    @property
    def args(self) -> list[str]:
        """The new command line, without the mark of `update_args`."""
        args = list(self.message.args)
        return args[1:] if args[:1] == [""] else args

    @property
    def rlimits(self) -> dict[str, tuple[int, int]]:
        """Process resource limits by type, as (hard, soft)."""
        return {limit.type: (limit.hard, limit.soft) for limit in self.message.rlimits}

    @property
    def cdi_devices(self) -> list[str]:
        """Names of the Container Device Interface devices."""
        return [device.name for device in self.message.CDI_devices]

    @property
    def oom_score_adj(self) -> int | None:
        """Adjustment of the out-of-memory score, None when not set."""
        score: int | None = optional.get(self.message.linux, "oom_score_adj")
        return score

    @property
    def cgroups_path(self) -> str | None:
        """Control group of the container, None when not set."""
        return self.message.linux.cgroups_path or None

    @property
    def hooks(self) -> m.Hooks:
        """OCI hooks that are added."""
        return self.message.hooks

    @property
    def io_priority(self) -> m.LinuxIOPriority | None:
        """I/O priority, None when not set."""
        linux = self.message.linux
        return linux.io_priority if linux.HasField("io_priority") else None

    @property
    def scheduler(self) -> m.LinuxScheduler | None:
        """CPU scheduling policy, None when not set."""
        linux = self.message.linux
        return linux.scheduler if linux.HasField("scheduler") else None

    @property
    def seccomp_policy(self) -> m.LinuxSeccomp | None:
        """System call filter, None when not set."""
        linux = self.message.linux
        return linux.seccomp_policy if linux.HasField("seccomp_policy") else None

    @property
    def memory_policy(self) -> m.LinuxMemoryPolicy | None:
        """NUMA memory policy, None when not set."""
        linux = self.message.linux
        return linux.memory_policy if linux.HasField("memory_policy") else None

    @property
    def rdt_clos_id(self) -> str | None:
        """RDT class of service, None when not set."""
        clos_id: str | None = optional.get(self.message.linux.rdt, "clos_id")
        return clos_id

    @property
    def rdt_schemata(self) -> list[str] | None:
        """Lines of the RDT schemata, None when not set."""
        schemata: list[str] | None = optional.get(self.message.linux.rdt, "schemata")
        return schemata

    @property
    def rdt_enable_monitoring(self) -> bool | None:
        """Whether an RDT monitoring group is made, None when not set."""
        enable: bool | None = optional.get(self.message.linux.rdt, "enable_monitoring")
        return enable

    def removed(self) -> dict[str, list[str]]:
        """Keys that are to be removed, by the readers' names, for those that have any."""
        linux = self.message.linux
        marked = {
            "annotations": list(self.message.annotations),
            "env": [entry.key for entry in self.message.env],
            "mounts": [mount.destination for mount in self.message.mounts],
            "devices": [device.path for device in linux.devices],
            "namespaces": [namespace.type for namespace in linux.namespaces],
            "net_devices": list(linux.net_devices),
            "sysctl": list(linux.sysctl),
        }
        keys = {reader: [name for name, removed in map(split, names) if removed] for reader, names in marked.items()}
        return {reader: names for reader, names in keys.items() if names}
