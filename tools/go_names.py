"""The setters of the Go API and their counterparts here, as a table for people who port a plugin.

Names are those of Go without "Linux", in snake_case. A test compares the table with the classes.
"""

from __future__ import annotations

__all__ = ["ADJUSTMENT", "FUNCTIONS", "PYTHON_ONLY", "RESOURCES", "UPDATE"]

#: Methods of both `ContainerAdjustment` and `ContainerUpdate`: (Go, Python, what differs).
RESOURCES = (
    ("SetLinuxMemoryLimit", "set_memory_limit", ""),
    ("SetLinuxMemoryReservation", "set_memory_reservation", ""),
    ("SetLinuxMemorySwap", "set_memory_swap", ""),
    ("SetLinuxMemoryKernel", "set_memory_kernel", ""),
    ("SetLinuxMemoryKernelTCP", "set_memory_kernel_tcp", ""),
    ("SetLinuxMemorySwappiness", "set_memory_swappiness", ""),
    ("SetLinuxMemoryDisableOomKiller", "set_memory_disable_oom_killer", "takes an optional bool"),
    ("SetLinuxMemoryUseHierarchy", "set_memory_use_hierarchy", "takes an optional bool"),
    ("SetLinuxCPUShares", "set_cpu_shares", ""),
    ("SetLinuxCPUQuota", "set_cpu_quota", ""),
    ("SetLinuxCPUPeriod", "set_cpu_period", ""),
    ("SetLinuxCPURealtimeRuntime", "set_cpu_realtime_runtime", ""),
    ("SetLinuxCPURealtimePeriod", "set_cpu_realtime_period", ""),
    ("SetLinuxCPUSetCPUs", "set_cpuset_cpus", ""),
    ("SetLinuxCPUSetMems", "set_cpuset_mems", ""),
    ("SetLinuxPidLimits", "set_pids_limit", ""),
    ("AddLinuxHugepageLimit", "add_hugepage_limit", ""),
    ("SetLinuxBlockIOClass", "set_blockio_class", ""),
    ("SetLinuxRDTClass", "set_rdt_class", ""),
    ("AddLinuxUnified", "add_unified", ""),
)

#: Methods of `ContainerAdjustment` alone: (Go, Python, what differs).
ADJUSTMENT = (
    ("AddAnnotation", "add_annotation", ""),
    ("RemoveAnnotation", "remove_annotation", ""),
    ("AddMount", "add_mount", "a `Mount`, or destination, source, type, options"),
    ("RemoveMount", "remove_mount", ""),
    ("AddEnv", "add_env", ""),
    ("RemoveEnv", "remove_env", ""),
    ("SetArgs", "set_args", "takes a list"),
    ("UpdateArgs", "update_args", "takes a list"),
    ("AddHooks", "add_hooks", "a `Hooks` message; `add_hook` adds one hook"),
    ("AddRlimit", "add_rlimit", ""),
    ("AddDevice", "add_device", "a `LinuxDevice`, or path, type, major, minor, ..."),
    ("RemoveDevice", "remove_device", ""),
    ("AddCDIDevice", "add_cdi_device", "a name or a `CDIDevice`"),
    ("AddOrReplaceNamespace", "set_namespace", ""),
    ("RemoveNamespace", "remove_namespace", ""),
    ("AddLinuxNetDevice", "add_net_device", "device is a name or a `LinuxNetDevice`"),
    ("RemoveLinuxNetDevice", "remove_net_device", ""),
    ("SetLinuxMemoryPolicy", "set_memory_policy", "flags are a list; names, short names or numbers"),
    ("SetLinuxRDTClosID", "set_rdt_clos_id", ""),
    ("SetLinuxRDTSchemata", "set_rdt_schemata", ""),
    ("SetLinuxRDTEnableMonitoring", "set_rdt_enable_monitoring", ""),
    ("RemoveLinuxRDT", "remove_rdt", ""),
    ("SetLinuxCgroupsPath", "set_cgroups_path", ""),
    ("SetLinuxOomScoreAdj", "set_oom_score_adj", "takes the number; not calling it is nil"),
    ("SetLinuxIOPriority", "set_io_priority", 'class and priority, or names: `"BE", 3`'),
    ("SetLinuxSeccompPolicy", "set_seccomp_policy", ""),
    ("SetLinuxSysctl", "set_sysctl", "removal is `remove_sysctl`, in Go a key with a leading `-`"),
    ("SetLinuxScheduler", "set_scheduler", "a `LinuxScheduler`, or policy and keywords"),
)

#: Methods of `ContainerUpdate` alone: (Go, Python, what differs).
UPDATE = (
    ("SetContainerId", "set_container_id", ""),
    ("SetIgnoreFailure", "set_ignore_failure", ""),
)

#: Functions of the Go API to functions of nri.
FUNCTIONS = (
    ("MarkForRemoval", "nri.api.removal.mark", ""),
    ("IsMarkedForRemoval", "nri.api.removal.split", ""),
    ("ParseEventMask", "nri.api.events.EventMask.parse", ""),
    ("EventMask.PrettyString", "nri.api.events.EventMask.__str__", "`str(mask)`"),
    ("EventMask.Set", "nri.api.events.EventMask.with_events", "gives a new mask"),
    ("EventMask.Clear", "nri.api.events.EventMask.without", "gives a new mask"),
    ("EventMask.IsSet", "nri.api.events.EventMask.has", ""),
    ("CheckPluginIndex", "nri.api.naming.check_index", ""),
    ("ParsePluginName", "nri.api.naming.split_file_name", ""),
    ("GetEffectiveAnnotation", "nri.api.annotations.effective_annotation", "None in place of a second result"),
)

#: Setters that Go has not: the field is set in the message there.
PYTHON_ONLY = ("add_device_rule", "add_hook", "remove_sysctl")
