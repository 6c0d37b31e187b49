"""Properties that read adjustments, updates and received messages.

`ResourceView` reads the `linux.resources` of a message, `AdjustmentView` an adjustment. Both only need `.message`. A
property has the name and the unit of the method that sets the value. A single value that is not set reads as None, so
that it differs from zero. Several values come as a read-only mapping or tuple: a write to it would be lost, so it
raises an error that names the method that sets the value.
"""

from __future__ import annotations

from functools import wraps

from nri.api import optional
from nri.api.removal import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Never, NoReturn, TypeVar

    from nri.api import messages as m
    from nri.api.messages import Container, LinuxResources

    T = TypeVar("T")
    V = TypeVar("V")


class _ReadOnly:
    """The value of a property: a copy that refuses writes, because they would be lost."""

    property_name: str
    setter: str

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.property_name} is read-only: write with {self.setter}()")

    __setitem__ = __delitem__ = __ior__ = __iadd__ = refuse
    clear = pop = popitem = setdefault = update = append = extend = insert = remove = reverse = sort = refuse


class _ReadOnlyDict(_ReadOnly, dict):  # type: ignore[type-arg]  # each property declares its types
    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # copies are writable


class _ReadOnlyTuple(_ReadOnly, tuple):  # type: ignore[type-arg]  # noqa: SLOT001 - its attributes are for the error
    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


def _read_only(setter: str) -> Callable[[Callable[[V], T]], Callable[[V], T]]:
    """Make a property return a read-only copy, whose error names the property and the method that sets the value."""

    def decorate(read: Callable[[V], T]) -> Callable[[V], T]:
        @wraps(read)
        def read_copy(view: V) -> T:
            values: Any = read(view)
            if values is not None:
                values = (_ReadOnlyDict if isinstance(values, dict) else _ReadOnlyTuple)(values)
                values.property_name, values.setter = read.__name__, setter
            shown: T = values
            return shown

        return read_copy

    return decorate


class _Attribute:
    """An attribute that reads a value of the resources. It is None if the value is not set."""

    __slots__ = ("field", "group", "name")

    def __init__(self, group: str, field: str) -> None:
        self.group = group
        self.field = field

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, view: ResourceView, value: Never) -> NoReturn:
        raise AttributeError(f"{self.name} is read-only: write with set_{self.name}()")

    def read(self, view: ResourceView | None) -> Any:
        if view is None:  # accessed on the class, for example by help()
            return self
        resources = view.resources
        return optional.get(getattr(resources, self.group) if self.group else resources, self.field)


class _Int(_Attribute):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> int | None:
        value: int | None = self.read(view)
        return value


class _Bool(_Attribute):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> bool | None:
        value: bool | None = self.read(view)
        return value


class _Text(_Attribute):
    __slots__ = ()

    def __get__(self, view: ResourceView | None, owner: type) -> str | None:
        value: str | None = self.read(view)
        return value


class ResourceView:
    """Properties of resources. A value that is not set is None, or missing in a dictionary."""

    __slots__ = ()

    message: Any

    @property
    def resources(self) -> m.LinuxResources:
        """The resources as a part of the message. Reading sets nothing, a write changes the message."""
        resources: m.LinuxResources = self.message.linux.resources
        return resources

    @property
    def has_resources(self) -> bool:
        """Whether any resource is set."""
        return bool(self.resources.ByteSize())

    # Values with the names and units of their setters, None if not set.
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
    @_read_only("add_device_rule")
    def device_rules(self) -> tuple[m.LinuxDeviceCgroup, ...]:
        """Rules of the device control group, in order."""
        return tuple(self.resources.devices)

    @property
    @_read_only("add_hugepage_limit")
    def hugepage_limits(self) -> Mapping[str, int]:
        """Limits in bytes by page size."""
        return {limit.page_size: limit.limit for limit in self.resources.hugepage_limits}

    @property
    @_read_only("add_unified")
    def unified(self) -> Mapping[str, str]:
        """Values of cgroup v2 files."""
        return dict(self.resources.unified)


class AdjustmentView(ResourceView):
    """Properties of an adjustment. They have the values that are set; `removed()` returns the removed keys."""

    __slots__ = ()

    message: m.ContainerAdjustment

    @property
    @_read_only("add_annotation")
    def annotations(self) -> Mapping[str, str]:
        """Annotations that are set."""
        return {name: value for name, value in self.message.annotations.items() if not split(name)[1]}

    @property
    @_read_only("add_env")
    def env(self) -> Mapping[str, str]:
        """Environment variables that are set."""
        return {entry.key: entry.value for entry in self.message.env if not split(entry.key)[1]}

    @property
    @_read_only("add_mount")
    def mounts(self) -> Mapping[str, m.Mount]:
        """Mounts that are added, by path in the container."""
        return {mount.destination: mount for mount in self.message.mounts if not split(mount.destination)[1]}

    @property
    @_read_only("add_device")
    def devices(self) -> Mapping[str, m.LinuxDevice]:
        """Devices that are added, by path in the container."""
        return {device.path: device for device in self.message.linux.devices if not split(device.path)[1]}

    @property
    @_read_only("set_namespace")
    def namespaces(self) -> Mapping[str, str]:
        """Paths of the namespaces that are set, by type."""
        return {entry.type: entry.path for entry in self.message.linux.namespaces if not split(entry.type)[1]}

    @property
    @_read_only("add_net_device")
    def net_devices(self) -> Mapping[str, str]:
        """Added network devices: the name in the container, by the name on the host."""
        return {host: device.name for host, device in self.message.linux.net_devices.items() if not split(host)[1]}

    @property
    @_read_only("set_sysctl")
    def sysctl(self) -> Mapping[str, str]:
        """Kernel parameters that are set."""
        return {name: value for name, value in self.message.linux.sysctl.items() if not split(name)[1]}

    @property
    @_read_only("set_args")
    def args(self) -> tuple[str, ...]:
        """The new command line, without the mark of `update_args`."""
        args = tuple(self.message.args)
        return args[1:] if args[:1] == ("",) else args

    @property
    @_read_only("add_rlimit")
    def rlimits(self) -> Mapping[str, tuple[int, int]]:
        """Process resource limits by type, as (hard, soft)."""
        return {limit.type: (limit.hard, limit.soft) for limit in self.message.rlimits}

    @property
    @_read_only("add_cdi_device")
    def cdi_devices(self) -> tuple[str, ...]:
        """Names of the Container Device Interface devices."""
        return tuple(device.name for device in self.message.CDI_devices)

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
        """OCI hooks that are added, as a part of the message: a write changes the message."""
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
    @_read_only("set_rdt_schemata")
    def rdt_schemata(self) -> tuple[str, ...] | None:
        """Lines of the RDT schemata, None when not set."""
        schemata = optional.get(self.message.linux.rdt, "schemata")
        return None if schemata is None else tuple(schemata)

    @property
    def rdt_enable_monitoring(self) -> bool | None:
        """Whether an RDT monitoring group is created, None when not set."""
        enable: bool | None = optional.get(self.message.linux.rdt, "enable_monitoring")
        return enable

    def removed(self) -> dict[str, list[str]]:
        """Removed keys by the name of the property that reads such keys, without empty lists."""
        linux = self.message.linux
        keys_by_property = {
            "annotations": list(self.message.annotations),
            "env": [entry.key for entry in self.message.env],
            "mounts": [mount.destination for mount in self.message.mounts],
            "devices": [device.path for device in linux.devices],
            "namespaces": [namespace.type for namespace in linux.namespaces],
            "net_devices": list(linux.net_devices),
            "sysctl": list(linux.sysctl),
        }
        removed = {
            name: [key for key, is_removed in map(split, keys) if is_removed] for name, keys in keys_by_property.items()
        }
        return {name: keys for name, keys in removed.items() if keys}


class ReceivedResources(ResourceView):
    """Properties of the resources of a received message.

    Attributes:
        message: the `Container` or `LinuxResources`.
    """

    __slots__ = ("message",)

    def __init__(self, message: Container | LinuxResources) -> None:
        self.message = message

    @property
    def resources(self) -> LinuxResources:
        """The resources as a message."""
        message: Container | LinuxResources = self.message
        return message.linux.resources if hasattr(message, "linux") else message

    def __repr__(self) -> str:
        from nri.api.builders.builder import describe  # noqa: PLC0415 - only for debugging

        return f"ReceivedResources({', '.join(describe(self.resources))})"


def resources_of(message: Container | LinuxResources) -> ReceivedResources:
    """Properties of all resources as they were sent: `resources_of(container).memory_limit`, `.unified`."""
    return ReceivedResources(message)
