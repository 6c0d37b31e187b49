"""Every setter of the builders, with arguments that give each field a value that is not its default."""

from __future__ import annotations

from nri.api import messages as m

SECCOMP = m.LinuxSeccomp(
    default_action="SCMP_ACT_ERRNO",
    default_errno=m.OptionalUInt32(value=1),
    architectures=["SCMP_ARCH_X86_64"],
    flags=["SECCOMP_FILTER_FLAG_LOG"],
    listener_path="/l",
    listener_metadata="m",
    syscalls=[
        m.LinuxSyscall(
            names=["read"],
            action="SCMP_ACT_ALLOW",
            errno_ret=m.OptionalUInt32(value=1),
            args=[m.LinuxSeccompArg(index=1, value=2, value_two=3, op="SCMP_CMP_EQ")],
        )
    ],
)


#: Setter -> arguments, so that every field below the adjustment gets a value that is not its default.
RESOURCE_CALLS = {
    "set_memory_limit": (1,),
    "set_memory_reservation": (1,),
    "set_memory_swap": (1,),
    "set_memory_kernel": (1,),
    "set_memory_kernel_tcp": (1,),
    "set_memory_swappiness": (1,),
    "set_memory_disable_oom_killer": (),
    "set_memory_use_hierarchy": (),
    "set_cpu_shares": (2,),
    "set_cpu_quota": (1000,),
    "set_cpu_period": (1000,),
    "set_cpu_realtime_runtime": (1,),
    "set_cpu_realtime_period": (1,),
    "set_cpuset_cpus": ("0",),
    "set_cpuset_mems": ("0",),
    "set_pids_limit": (1,),
    "add_hugepage_limit": ("2MB", 1),
    "set_blockio_class": ("b",),
    "set_rdt_class": ("r",),
    "add_unified": ("memory.high", "1"),
}


ADJUSTMENT_CALLS = {
    "add_annotation": ("k", "v"),
    "remove_annotation": ("other",),
    "add_env": ("K", "v"),
    "remove_env": ("OTHER",),
    "add_mount": ("/d", "/s", "bind", ["bind"]),
    "remove_mount": ("/other",),
    "set_args": (["a"],),
    "update_args": (["a"],),
    "add_hooks": (m.Hooks(poststart=[m.Hook(path="/h")]),),
    "add_rlimit": ("RLIMIT_CORE", 2, 1),
    "add_device": (
        m.LinuxDevice(
            path="/dev/x",
            type="c",
            major=1,
            minor=2,
            file_mode=m.OptionalFileMode(value=1),
            uid=m.OptionalUInt32(value=1),
            gid=m.OptionalUInt32(value=1),
        ),
    ),
    "remove_device": ("/dev/other",),
    "add_cdi_device": ("v/c=d",),
    "set_namespace": ("pid", "/p"),
    "remove_namespace": ("uts",),
    "add_net_device": ("eth0", "e"),
    "remove_net_device": ("eth1",),
    "set_memory_policy": ("BIND", "0", ["RELATIVE_NODES"]),
    "set_rdt_clos_id": ("c",),
    "set_rdt_schemata": (["x"],),
    "set_rdt_enable_monitoring": (),
    "remove_rdt": (),
    "set_cgroups_path": ("/c",),
    "set_oom_score_adj": (1,),
    "set_io_priority": ("BE", 1),
    "set_seccomp_policy": (SECCOMP,),
    "set_sysctl": ("a.b", "1"),
    "set_scheduler": (m.LinuxScheduler(policy=2, nice=1, priority=1, flags=[1], runtime=1, deadline=1, period=1),),
}


UPDATE_CALLS = {"set_container_id": ("c",), "set_ignore_failure": ()}


DEVICE_RULE = (True, "c")
