"""`Adjustment`: a plugin's changes to a container that is being created.

Setters are named as in the Go API without "Linux" (`tools/go_names.py` has the table). Setting a field that another
plugin has set is a conflict and fails the creation; where the protocol supports it, remove the key and set it again in
the same adjustment to take it over. The runtime decides whether a change takes effect.
"""


# ruff: noqa: A002 - `type` is the field's name in all specifications

from __future__ import annotations

from nri.api import messages as m
from nri.api import optional
from nri.api.builders.checks import (
    I64,
    U32,
    U64,
    absolute_path,
    annotation_key,
    cdi_device,
    cgroups_path,
    device_name,
    device_numbers,
    env_name,
    flag,
    folder_name,
    hook_args,
    hook_env,
    integer,
    mapping_text,
    new_key,
    new_path,
    one_of,
    process_args,
    rdt_schemata,
    rlimit,
    sysctl_name,
    text,
    texts,
    warn_once,
)
from nri.api.builders.checks import file_mode as check_file_mode
from nri.api.builders.combinations import (
    check_memory_policy,
    check_scheduler,
    io_priority_message,
    memory_policy_message,
    scheduler_message,
)
from nri.api.builders.mounts import mount_options, mount_point, mount_source
from nri.api.builders.resources import Resources
from nri.api.builders.view import AdjustmentView
from nri.api.removal import mark_in_list, mark_in_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

DEVICE_TYPES = ("c", "b", "u", "p")
NAMESPACE_TYPES = ("network", "pid", "mount", "ipc", "uts", "user", "cgroup", "time")


HOOK_STAGES = ("prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop")


class Adjustment(Resources, AdjustmentView):
    """Changes to a container that is being created.

    `nri.Adjustment().add_env("POD_NAME", pod.name).set_memory_limit(64 << 20)`. Properties such as `.env` show what has
    been set so far, without the removed keys, which `removed()` returns.

    Attributes:
        message: the `ContainerAdjustment` that is sent.
    """

    __slots__ = ()

    message: m.ContainerAdjustment

    def __init__(self) -> None:
        super().__init__(m.ContainerAdjustment())

    @classmethod
    def _message_class(cls) -> type[m.ContainerAdjustment]:
        return m.ContainerAdjustment

    def add_annotation(self, key: str, value: str) -> Self:
        """Set an annotation of the container."""
        checked = mapping_text("annotations", annotation_key(key), value)
        self.message.annotations[key] = checked
        return self

    def remove_annotation(self, key: str) -> Self:
        """Remove an annotation of the container."""
        mark_in_map(self.message.annotations, text("key", key, allow_empty=False))
        return self

    def add_env(self, name: str, value: str) -> Self:
        """Set an environment variable."""
        self.message.env.add(key=env_name(name), value=mapping_text("env", name, value))
        return self

    def remove_env(self, name: str) -> Self:
        """Remove an environment variable."""
        mark_in_list(self.message.env, "key", text("name", name, allow_empty=False))
        return self

    def add_mount(self, mount: str | m.Mount, source: str = "", type: str = "", options: Iterable[str] = ()) -> Self:
        """Add a mount.

        Args:
            mount: absolute path in the container, or a whole `Mount`, which replaces the other arguments.
            source: path on the host, or another source of this type of file system.
            type: type of the file system; `bind` for a path of the host.
            options: mount options, for example `rbind`, `ro`, `rprivate`; a bind mount requires `bind` or `rbind`.
        """
        if isinstance(mount, m.Mount):
            mount_point("mount.destination", mount.destination)
            text("mount.source", mount.source)
            text("mount.type", mount.type)
            texts("mount.options", list(mount.options))
            self.message.mounts.append(mount)
            return self
        destination, words = mount_point("mount", mount), mount_options(type, options)
        mount_source(source, words)
        self.message.mounts.add(destination=destination, source=source, type=type, options=words)
        return self

    def remove_mount(self, destination: str) -> Self:
        """Remove the mount at this path in the container."""
        mark_in_list(self.message.mounts, "destination", text("destination", destination, allow_empty=False))
        return self

    def set_args(self, args: Iterable[str]) -> Self:
        """Set the command line. This is a conflict if an earlier plugin has set it."""
        self.message.args[:] = process_args(args)
        return self

    def update_args(self, args: Iterable[str]) -> Self:
        """Set the command line, even if an earlier plugin has set it. An empty list restores that of the image."""
        self.message.args[:] = ["", *texts("args", args)]
        return self

    def add_hooks(self, hooks: m.Hooks) -> Self:
        """Add OCI hooks after the hooks that were added before."""
        if not isinstance(hooks, m.Hooks):
            raise TypeError(f"hooks must be a Hooks message, not {hooks!r}; add_hook() adds a single hook")
        for stage in HOOK_STAGES:
            for position, hook in enumerate(getattr(hooks, stage)):
                absolute_path(f"hooks.{stage}[{position}].path", hook.path)
        self.message.hooks.MergeFrom(hooks)
        return self

    def add_hook(
        self, stage: str, path: str, args: Iterable[str] = (), env: Iterable[str] = (), timeout_s: int | None = None
    ) -> Self:
        """Add an OCI hook.

        Args:
            stage: `prestart`, `create_runtime`, `create_container`, `start_container`, `poststart` or `poststop`.
            path: absolute path of the executable on the host.
            args: command line, with the program name first.
            env: environment, as `NAME=value`.
            timeout_s: the timeout in seconds, None for no limit.
        """
        if absolute_path("path", path).endswith("/"):
            raise ValueError(f"path must be an executable file, not the folder {path!r}")
        hook = m.Hook(path=path, args=hook_args(path, args), env=hook_env(path, env))
        optional.put(hook, "timeout", None if timeout_s is None else integer("timeout_s", timeout_s, (1, I64[1])))
        getattr(self.message.hooks, one_of("stage", stage, HOOK_STAGES)).append(hook)
        return self

    def add_rlimit(self, type: str, hard: int, soft: int) -> Self:
        """Set a process resource limit, for example `RLIMIT_NOFILE`. The hard limit comes before the soft limit."""
        limit = m.POSIXRlimit(type=rlimit("type", type), hard=integer("hard", hard, U64))
        limit.soft = integer("soft", soft, U64)
        if soft > hard:
            raise ValueError(f"soft limit {soft} exceeds hard limit {hard}; arguments are (type, hard, soft)")
        self.message.rlimits.append(limit)
        return self

    def add_cdi_device(self, device: str | m.CDIDevice) -> Self:
        """Add a Container Device Interface device, `vendor/class=device`. It cannot be removed again."""
        name = device.name if isinstance(device, m.CDIDevice) else device
        self.message.CDI_devices.add(name=cdi_device("device", name))
        return self

    # -- the Linux part -----------------------------------------------------------------------------------------------

    def add_device(
        self,
        device: str | m.LinuxDevice,
        type: str = "c",
        major: int = 0,
        minor: int = 0,
        *,
        file_mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
    ) -> Self:
        """Add a device node at this absolute path in the container, and allow access to the device.

        Args:
            device: absolute path in the container, or a whole `LinuxDevice`, which replaces the other arguments.
            type: `c` character, `b` block, `u` unbuffered character, `p` named pipe.
            major: major number.
            minor: minor number.
            file_mode: permission bits, for example `0o660`; None leaves them to the runtime.
            uid: owner; None leaves it to the runtime.
            gid: group; None leaves it to the runtime.
        """
        if isinstance(device, m.LinuxDevice):
            new_path("device.path", device.path, "remove_device")
        else:
            device = m.LinuxDevice(
                path=new_path("device", device, "remove_device"), type=one_of("type", type, DEVICE_TYPES)
            )
            device.major, device.minor = device_numbers(device.path, type, major, minor)
            optional.put(
                device, "file_mode", file_mode if file_mode is None else check_file_mode("file_mode", file_mode)
            )
            for field, number in (("uid", uid), ("gid", gid)):
                optional.put(device, field, number if number is None else integer(field, number, U32))
        self.message.linux.devices.append(device)
        return self

    def remove_device(self, path: str) -> Self:
        """Remove the device at this path in the container."""
        mark_in_list(self.message.linux.devices, "path", text("path", path, allow_empty=False))
        return self

    def set_namespace(self, type: str, path: str = "") -> Self:
        """Add a namespace by its OCI type (`network`, `pid`, `mount`, ...): a new namespace, or the one at `path`."""
        checked = absolute_path("path", path) if path else text("path", path)
        namespace = m.LinuxNamespace(type=one_of("type", type, NAMESPACE_TYPES), path=checked)
        self.message.linux.namespaces.append(namespace)
        return self

    def remove_namespace(self, type: str) -> Self:
        """Remove the namespace of this type, so that the container shares the host's."""
        mark_in_list(self.message.linux.namespaces, "type", one_of("type", type, NAMESPACE_TYPES))
        return self

    def add_net_device(self, host_device: str, device: str | m.LinuxNetDevice = "") -> Self:
        """Move a network device of the host into the container, under the name `device` if given."""
        name = device.name if isinstance(device, m.LinuxNetDevice) else device
        checked = device_name("device", name)
        key = device_name("host_device", new_key("host_device", host_device, "remove_net_device"))
        self.message.linux.net_devices[key].name = checked
        return self

    def remove_net_device(self, host_device: str) -> Self:
        """Do not move this network device of the host into the container, although an earlier plugin requested it."""
        mark_in_map(self.message.linux.net_devices, text("host_device", host_device, allow_empty=False))
        return self

    def set_sysctl(self, name: str, value: str) -> Self:
        """Set a kernel parameter, for example `net.core.somaxconn`."""
        checked = mapping_text("sysctl", sysctl_name(new_key("name", name, "remove_sysctl")), value)
        self.message.linux.sysctl[name] = checked
        return self

    def remove_sysctl(self, name: str) -> Self:
        """Do not change this kernel parameter, so that it has the host's value."""
        mark_in_map(self.message.linux.sysctl, text("name", name, allow_empty=False))
        return self

    def set_cgroups_path(self, path: str) -> Self:
        """Set the control group of the container. It cannot be reset, so an empty path is an error."""
        self.message.linux.cgroups_path = cgroups_path("path", path)
        return self

    def set_oom_score_adj(self, score: int) -> Self:
        """Set the adjustment of the out-of-memory score, -1000 (never kill) to 1000 (kill first)."""
        self.message.linux.oom_score_adj.value = integer("score", score, (-1000, 1000))
        return self

    def set_io_priority(self, io_class: int | str, priority: int = 0) -> Self:
        """Set the I/O priority of the process.

        Args:
            io_class: `RT`, `BE`, `IDLE`, or `NONE` to clear it. The kernel's names (`IOPRIO_CLASS_BE`) and numbers are
                also accepted.
            priority: 0 (first) to 7 (last) within the class.
        """
        value = io_priority_message(io_class, priority)
        if priority and getattr(value, "class") == m.IOPrioClass.IOPRIO_CLASS_NONE:
            raise ValueError(f"priority must be 0 for the class NONE, not {priority}")
        if priority and getattr(value, "class") == m.IOPrioClass.IOPRIO_CLASS_IDLE:
            warn_once(f"priority {priority} has no effect in the I/O class IDLE: leave it out")
        self.message.linux.io_priority.CopyFrom(value)
        return self

    def set_scheduler(
        self,
        policy: int | str | m.LinuxScheduler,
        *,
        nice: int = 0,
        priority: int = 0,
        flags: Iterable[int | str] = (),
        runtime_ns: int = 0,
        deadline_ns: int = 0,
        period_ns: int = 0,
    ) -> Self:
        """Set the CPU scheduling policy of the process.

        Args:
            policy: `OTHER`, `FIFO`, `RR`, `BATCH`, `ISO`, `IDLE`, `DEADLINE`, or `NONE` to clear it. The kernel's
                names (`SCHED_FIFO`) and numbers are also accepted, and a whole `LinuxScheduler`, which replaces the
                other arguments.
            nice: -20 to 19, for OTHER and BATCH.
            priority: 1 to 99, for FIFO and RR.
            flags: `RESET_ON_FORK` and so on. The kernel's names (`SCHED_FLAG_RESET_ON_FORK`) and numbers are also
                accepted.
            runtime_ns: nanoseconds per period, for DEADLINE.
            deadline_ns: nanoseconds, for DEADLINE.
            period_ns: nanoseconds, for DEADLINE.
        """
        if not isinstance(policy, m.LinuxScheduler):
            policy = scheduler_message(policy, nice, priority, flags, runtime_ns, deadline_ns, period_ns)
            check_scheduler(policy)
        self.message.linux.scheduler.CopyFrom(policy)
        return self

    def set_seccomp_policy(self, policy: m.LinuxSeccomp) -> Self:
        """Replace the whole system call filter. The policy's constants are the constants of the OCI spec."""
        if not isinstance(policy, m.LinuxSeccomp):
            raise TypeError(f"policy must be a LinuxSeccomp, not {policy!r}")
        self.message.linux.seccomp_policy.CopyFrom(policy)
        return self

    def set_rdt_clos_id(self, clos_id: str) -> Self:
        """Set the RDT class of service, which is a directory of resctrl."""
        self.message.linux.rdt.clos_id.value = folder_name("clos_id", clos_id)
        return self

    def set_rdt_schemata(self, schemata: Iterable[str]) -> Self:
        """Set the lines of the RDT schemata, for example `L3:0=ff;1=ff`. They replace earlier lines."""
        self.message.linux.rdt.schemata.CopyFrom(m.OptionalRepeatedString(value=rdt_schemata(schemata)))
        return self

    def set_rdt_enable_monitoring(self, enable: bool = True) -> Self:
        """Set whether an RDT monitoring group is created for the container."""
        self.message.linux.rdt.enable_monitoring.value = flag("enable", enable)
        return self

    def remove_rdt(self) -> Self:
        """Drop the RDT settings of earlier plugins."""
        self.message.linux.rdt.remove = True
        return self

    def set_memory_policy(self, mode: int | str, nodes: str = "", flags: Iterable[int | str] = ()) -> Self:
        """Set the NUMA memory policy of the process.

        Args:
            mode: `DEFAULT`, `PREFERRED`, `BIND`, `INTERLEAVE`, `LOCAL`, `PREFERRED_MANY`, `WEIGHTED_INTERLEAVE`. The
                kernel's names (`MPOL_BIND`) and numbers are also accepted.
            nodes: memory nodes in the kernel's list format.
            flags: `STATIC_NODES`, `RELATIVE_NODES`, `NUMA_BALANCING`. The kernel's names
                (`MPOL_F_STATIC_NODES`) and numbers are also accepted.
        """
        policy = memory_policy_message(mode, nodes, flags)
        check_memory_policy(policy)
        self.message.linux.memory_policy.CopyFrom(policy)
        return self
